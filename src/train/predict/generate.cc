#include "train/predict/generate.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numerics/functions.h"
#include "base/numerics/philox.h"
#include "train/predict/decoder.h"
#include "train/run/run_text.h"

namespace podium {
namespace {

// In double precision, in the order of the tokens.
std::int64_t drawn_token(std::span<const float> logits, const GenerateOptions& options,
                         std::uint32_t word) {
  const std::vector<std::int64_t> order = ranking(logits);
  const auto at = [&](std::int64_t token) {
    return static_cast<double>(logits[static_cast<std::size_t>(token)]);
  };
  if (options.temperature == 0) return order[0];
  std::vector<std::int64_t> kept = order;
  if (options.top_k > 0 && options.top_k < std::ssize(kept))
    kept.resize(static_cast<std::size_t>(options.top_k));
  std::ranges::sort(kept);
  std::vector<double> weights;
  double sum = 0;
  for (const std::int64_t token : kept) {
    weights.push_back(exp_f64((at(token) - at(order[0])) / options.temperature));
    sum += weights.back();
  }
  double rest = (word + 0.5) * 0x1p-32 * sum;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return kept[i];
  }
  return kept.back();  // of a rounding error
}

}  // namespace

void generate(Predictor& predictor, const std::string& prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& write) {
  const Recipe& recipe = predictor.recipe();
  const Field* const tokens = find_field(predictor.fields(), "tokens");
  PODIUM_REQUIRE(has_text(recipe) && tokens != nullptr && tokens->shape.rank() == 1,
                 ExitCode::kUsage, "the run of recipe ", recipe.name, " was trained on data = \"",
                 recipe.data, "\"; only a network that was trained on text generates some");
  PODIUM_REQUIRE(!prompt.empty(), ExitCode::kUsage,
                 "the prompt is empty; it needs at least one character");
  const std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(recipe, predictor.fields());
  std::vector<std::int32_t> text = tokenizer->tokens_of(prompt, "the prompt");
  const PhiloxStream stream(options.seed, RandomPurpose::kGenerate);
  Decoder decoder(predictor);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::int64_t token =
        drawn_token(decoder.logits(text), options, stream.word(static_cast<std::uint32_t>(i)));
    text.push_back(static_cast<std::int32_t>(token));
    // A vocabulary may be padded with tokens that stand for nothing.
    if (token < tokenizer->vocabulary()) write(tokenizer->text_of(token));
  }
}

}  // namespace podium
