#include "train/run/generate.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/functions.h"
#include "base/philox.h"
#include "data/text/text.h"

namespace podium {
namespace {

// The last tokens of a text, as the one example of a set.
class LastTokens : public Source {
 public:
  explicit LastTokens(Field field) : field_(std::move(field)) {}

  void add(std::int64_t token) {
    const auto context = static_cast<std::size_t>(field_.shape[0]);
    tokens_.push_back(static_cast<std::int32_t>(token));
    if (tokens_.size() > context) tokens_.erase(tokens_.begin());
  }
  // The row of the last token.
  std::int64_t last() const { return std::ssize(tokens_) - 1; }

  std::vector<Field> fields() const override { return {field_}; }
  std::int64_t examples() const override { return 1; }
  const std::string& origin() const override { return origin_; }
  // No token sees those after it, so what fills up the window changes nothing.
  void read(std::int64_t, const ExampleKey*, FieldMemory to) const override {
    auto* const all = to.at<std::int32_t>(0);
    std::fill(std::ranges::copy(tokens_, all).out, all + field_.shape[0], 0);
  }
  void require_usable(const std::string&) const override {}
  std::string identity(StopToken) const override { return origin_; }
  std::int64_t memory_bytes() const override { return 4 * std::ssize(tokens_); }

 private:
  Field field_;
  std::string origin_ = "the prompt";
  std::vector<std::int32_t> tokens_;
};

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
  const Tokenizer tokenizer = Tokenizer::of_words(recipe.text.tokenizer, tokens->words);
  LastTokens last(*tokens);
  for (const std::uint16_t token : tokenizer.tokens_of(prompt, "the prompt")) last.add(token);
  const PhiloxStream stream(options.seed, RandomPurpose::kGenerate);
  const std::int64_t vocabulary = tokenizer.vocabulary();
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const Tensor logits = predictor.predict(last);
    const auto row = static_cast<std::size_t>(last.last() * vocabulary);
    const std::int64_t token =
        drawn_token(logits.f32().subspan(row, static_cast<std::size_t>(vocabulary)), options,
                    stream.word(static_cast<std::uint32_t>(i)));
    last.add(token);
    write(tokenizer.text_of(token));
  }
}

}  // namespace podium
