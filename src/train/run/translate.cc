#include "train/run/translate.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/functions.h"
#include "base/words.h"
#include "data/pairs/pairs.h"
#include "data/table/cells.h"
#include "data/text/utf8.h"
#include "train/run/run_text.h"

namespace podium {
namespace {

constexpr std::size_t kHypothesesAtOnce = 64;

struct Hypothesis {
  std::vector<std::int32_t> tokens;
  double sum = 0;  // of logarithms
  double score() const { return sum / static_cast<double>(tokens.size()); }
};

// A sentence on its way.
struct BeamSearch {
  std::vector<std::int32_t> source;
  std::vector<Hypothesis> alive = {Hypothesis{}};
  std::vector<Hypothesis> ended = {};
};

class Translator {
 public:
  Translator(Predictor& predictor, const TranslateOptions& options)
      : predictor_(predictor), options_(options) {
    const Recipe& recipe = predictor.recipe();
    const Field* const source = find_field(predictor.fields(), kSourceField);
    PODIUM_REQUIRE(has_pairs(recipe) && source != nullptr, ExitCode::kUsage, "the run of recipe ",
                   recipe.name, " was trained on data = \"", recipe.data,
                   "\"; only a network that was trained on pairs of sentences translates");
    tokenizer_ = tokenizer_of(recipe, predictor.fields());
    context_ = source->shape[0], vocabulary_ = source->below;
    end_ = end_token(*tokenizer_);
  }

  BeamSearch begin(const std::string& sentence, std::size_t number) const {
    const std::string place = cat("sentence ", number + 1);
    BeamSearch search{.source = tokenizer_->tokens_of(as_utf8(sentence), place)};
    search.source.push_back(end_);
    PODIUM_REQUIRE(search.source.size() > 1, ExitCode::kData, place, " is empty; leave it out");
    PODIUM_REQUIRE(
        std::ssize(search.source) <= context_ || predictor_.recipe().text.too_long == kCutIfTooLong,
        ExitCode::kData, place, ", \"", sentence, "\", has ",
        count_text(std::ssize(search.source), "token"),
        " with its end, and the network reads data.context = ", context_,
        "; cut it into shorter ones");
    if (std::ssize(search.source) > context_)
      search.source.resize(static_cast<std::size_t>(context_));
    return search;
  }

  // All at once, token by token, until no hypothesis is open.
  void run(std::vector<BeamSearch>& searches) const {
    for (std::int64_t place = 0; place < context_; ++place) {
      std::vector<BeamSearch*> open;
      for (BeamSearch& search : searches)
        if (!search.alive.empty()) open.push_back(&search);
      if (open.empty()) return;
      const Tensor logits = logits_of(open);
      const float* row = logits.f32().data();
      for (BeamSearch* search : open) {
        const std::size_t count = search->alive.size();
        step(*search, row + place * vocabulary_, place + 1 == context_);
        row += static_cast<std::int64_t>(count) * context_ * vocabulary_;
      }
    }
  }

  Translation best(const BeamSearch& search) const {
    const Hypothesis& found = *std::ranges::max_element(search.ended, {}, &Hypothesis::score);
    Translation translation{.text = "", .score = found.score()};
    for (const std::int32_t token : found.tokens)
      if (token != end_) translation.text += tokenizer_->text_of(token);
    translation.text = std::string(trimmed(translation.text));
    return translation;
  }

 private:
  // Of each token of each open hypothesis.
  Tensor logits_of(const std::vector<BeamSearch*>& open) const {
    TokenRows source, target;
    const auto add = [&](TokenRows& side, const std::vector<std::int32_t>& tokens) {
      std::vector<std::int32_t> own = tokens;
      own.resize(static_cast<std::size_t>(context_), end_);
      side.tokens.insert(side.tokens.end(), own.begin(), own.end());
      side.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
    };
    for (const BeamSearch* search : open)
      for (const Hypothesis& hypothesis : search->alive)
        add(source, search->source), add(target, hypothesis.tokens);
    return predictor_.predict(PairSource("sentences", pair_fields(context_, vocabulary_), end_,
                                         std::move(source), std::move(target)));
  }

  // The best continuations of all open hypotheses, of which the logits of the next token lie
  // context x vocabulary floats apart. At the last place all end.
  void step(BeamSearch& search, const float* logits, bool is_last) const {
    struct Next {
      double sum;
      std::size_t from;
      std::int32_t token;
    };
    const auto beam = static_cast<std::size_t>(options_.beam);
    std::vector<Next> best;
    const auto before = [](const Next& a, const Next& b) { return a.sum > b.sum; };
    for (std::size_t i = 0; i < search.alive.size(); ++i, logits += context_ * vocabulary_) {
      const double most = *std::max_element(logits, logits + vocabulary_);
      double total = 0;
      for (std::int64_t v = 0; v < vocabulary_; ++v)
        total += exp_f64(static_cast<double>(logits[v]) - most);
      const double base = search.alive[i].sum - most - log_f64(total);
      // A network may have more tokens than the tokenizer (data.vocabulary).
      for (std::int64_t v = 0; v < std::min(vocabulary_, tokenizer_->vocabulary()); ++v) {
        const auto token = static_cast<std::int32_t>(v);
        if (is_last && token != end_) continue;
        const Next next{base + static_cast<double>(logits[v]), i, token};
        if (best.size() == beam && !before(next, best.back())) continue;
        best.insert(std::ranges::upper_bound(best, next, before), next);
        if (best.size() > beam) best.pop_back();
      }
    }
    std::vector<Hypothesis> alive;
    for (const Next& next : best) {
      Hypothesis hypothesis = search.alive[next.from];
      hypothesis.tokens.push_back(next.token), hypothesis.sum = next.sum;
      (next.token == end_ ? search.ended : alive).push_back(std::move(hypothesis));
    }
    if (search.ended.size() >= beam) alive.clear();
    search.alive = std::move(alive);
  }

  Predictor& predictor_;
  TranslateOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t context_ = 0, vocabulary_ = 0;
  std::int32_t end_ = 0;
};

}  // namespace

void translate(Predictor& predictor, std::span<const std::string> sentences,
               const TranslateOptions& options,
               const std::function<void(std::size_t, const Translation&)>& each) {
  const Translator translator(predictor, options);
  const std::size_t some =
      std::max<std::size_t>(1, kHypothesesAtOnce / static_cast<std::size_t>(options.beam));
  for (std::size_t begin = 0; begin < sentences.size(); begin += some) {
    std::vector<BeamSearch> searches;
    for (std::size_t i = begin; i < std::min(begin + some, sentences.size()); ++i)
      searches.push_back(translator.begin(sentences[i], i));
    translator.run(searches);
    for (std::size_t i = 0; i < searches.size(); ++i) each(begin + i, translator.best(searches[i]));
  }
}

}  // namespace podium
