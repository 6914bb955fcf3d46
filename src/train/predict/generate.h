// Text from a network that predicts the next token (`podium generate`).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "train/predict/predictor.h"

namespace podium {

// How tokens are drawn.
struct GenerateOptions {
  std::int64_t tokens = 500;  // how many
  double temperature = 1;     // divides the logits; 0: always the most probable token
  std::int64_t top_k = 0;     // draws only among so many of the most probable tokens; 0: among all
  std::uint64_t seed = 0;     // of the draws: equal seeds and runs give equal text, on every device
};

// Draws tokens that follow the prompt, one after the other, and calls `write` with the text of
// each. The network sees as many of the last tokens as its context has. Throws UserError: kUsage if
// the network does not predict the next token of a text, or the prompt is empty; kData if the
// prompt has a character that is not in the network's vocabulary.
void generate(Predictor& predictor, const std::string& prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& write);

}  // namespace podium
