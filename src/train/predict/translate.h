// Sentences from sentences: what the network of a run on pairs writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/predict/predictor.h"

namespace podium {

// How sentences are translated.
struct TranslateOptions {
  std::int64_t beam = 5;  // hypotheses of a sentence that are followed
  bool keeps = true;      // keys and values of what is written; false: for tests
};

// A sentence in the other language.
struct Translation {
  std::string text;
  double score = 0;  // the mean of its tokens' logarithms of probabilities, the end's included
  std::vector<std::int32_t> tokens = {};  // with the end
};

// Calls each(index, translation) in the order of the sentences. Of all hypotheses with an end that
// were met, the one with the best score is taken; of equal ones, the first. Every device writes the
// same. Throws UserError: kUsage if the run is not one on pairs; kData, which names the sentence,
// if one is empty or, where the recipe does not cut it, longer than the context.
void translate(Predictor& predictor, std::span<const std::string> sentences,
               const TranslateOptions& options,
               const std::function<void(std::size_t, const Translation&)>& each);

// Translates some pairs of the held-out set, evaluation.translations of the trainer's recipe,
// always by the most probable token: adds BLEU to the result's metrics, and a few translations.
// Does nothing if the recipe wants none.
void add_translations(const Trainer& trainer, const Checkpoint& checkpoint,
                      EvaluationResult& result);

}  // namespace podium
