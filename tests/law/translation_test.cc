// The law on translations: every device writes the same, whether it keeps what it has read or
// computes the network anew for each token.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "law_util.h"
#include "train/predict/translate.h"

namespace podium {
namespace {

// One to six digits, and these in words, the last digit first.
std::string drawn_numbers() {
  constexpr const char* kWords[] = {"null", "eins", "zwei", "drei", "vier"};
  std::string text = "text,label\n";
  std::uint32_t state = 9;
  const auto draw = [&](std::uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
  };
  for (int i = 0; i < 300; ++i) {
    std::string digits, words;
    for (std::uint32_t n = 1 + draw(6); n > 0; --n) {
      const std::uint32_t digit = draw(5);
      digits += cat(digits.empty() ? "" : " ", digit);
      words = cat(kWords[digit], words.empty() ? "" : " ", words);
    }
    text += cat(digits, ",", words, "\n");
  }
  return text;
}

class TranslationLaw : public testing::Test {
 protected:
  TranslationLaw() { put_text(folder_ / "pairs.csv", drawn_numbers()); }

  Recipe recipe(const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(cat(R"(
model = "transformer"
batch = 32
replicas = 4
steps = 40
seed = 5
[network]
layers = 2
heads = 4
width = 32
[data]
name = "pairs"
tokenizer = "words"
context = 9
held_out = 0.2
path = ")",
                            (folder_ / "pairs.csv").string(), R"("
[optimizer]
name = "adamw"
learning_rate = 5e-3
)"),
                        "pairs", overrides);
  }
  // A network that has learned something, but not all: its hypotheses are near each other.
  Checkpoint trained(const Recipe& of) const {
    const RunData data = load_data(of, "");
    Trainer trainer(of, model_of(of), data.train, data.held_out,
                    {.workers = 2, .backend = law_backend()});
    step_hashes(trainer, 40);
    return trainer.checkpoint();
  }

  TestFolder folder_;
};

using Translations = std::vector<std::pair<std::string, double>>;

// Nine sentences; of a beam of 8 there are eight at once, and two workers.
Translations translations(const Recipe& of, const Checkpoint& checkpoint,
                          const std::string& backend, TranslateOptions options, int workers = 1) {
  const std::vector<std::string> sentences = {"1 2 3", "4",     "0 0 0 0 0", "3 1 4 1",    "2",
                                              "1 2",   "4 3 2", "0",         "2 2 1 0 4 3"};
  Predictor predictor(of, checkpoint, {}, {.workers = workers, .backend = backend});
  Translations all;
  translate(predictor, sentences, options, [&](std::size_t i, const Translation& one) {
    EXPECT_EQ(i, all.size());
    all.emplace_back(one.text, one.score);
  });
  return all;
}

TEST_F(TranslationLaw, what_is_kept_changes_no_translation) {
  const Recipe one = recipe();
  const Checkpoint checkpoint = trained(one);
  for (const std::int64_t beam : {1, 8}) {
    const Translations expected =
        translations(one, checkpoint, law_backend(), {.beam = beam, .keeps = false});
    for (const char* backend : {"reference", "cpu", "detached"})
      EXPECT_EQ(translations(one, checkpoint, backend, {.beam = beam}), expected)
          << backend << " " << beam;
    EXPECT_EQ(translations(one, checkpoint, "cpu", {.beam = beam}, 2), expected) << beam;
  }
}

TEST_F(TranslationLaw, a_gpu_translates_as_every_backend_does) {
  const Recipe one = recipe();
  const Checkpoint checkpoint = trained(one);
  for (const std::int64_t beam : {1, 8})
    EXPECT_EQ(translations(one, checkpoint, "cuda-emulated", {.beam = beam}),
              translations(one, checkpoint, law_backend(), {.beam = beam, .keeps = false}))
        << beam;
}

TEST_F(TranslationLaw, what_is_kept_changes_no_translation_in_bf16) {
  const Recipe one = recipe({"precision=bf16", "bf16_order=vdpbf16ps"});
  const Checkpoint checkpoint = trained(one);
  const Translations expected = translations(one, checkpoint, "cpu", {.beam = 4, .keeps = false});
  for (const char* backend : {"cpu", "reference"})
    EXPECT_EQ(translations(one, checkpoint, backend, {.beam = 4}), expected) << backend;
}

}  // namespace
}  // namespace podium
