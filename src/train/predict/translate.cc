#include "train/predict/translate.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numerics/functions.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "data/pairs/pairs.h"
#include "data/table/cells.h"
#include "data/text/bleu.h"
#include "data/text/utf8.h"
#include "train/predict/attention_reader.h"
#include "train/predict/sentence_decoder.h"
#include "train/run/run_text.h"

namespace podium {
namespace {

constexpr std::size_t kHypothesesAtOnce = 64;

struct Hypothesis {
  std::vector<std::int32_t> tokens;
  std::size_t from = 0;  // the hypothesis that it goes on from, by its place
  double sum = 0;        // of logarithms
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

  // As tokens, with the end.
  std::vector<std::int32_t> tokens_of(const std::string& sentence, std::size_t number) const {
    const std::string place = cat("sentence ", number + 1);
    std::vector<std::int32_t> tokens = tokenizer_->tokens_of(as_utf8(sentence), place);
    tokens.push_back(end_);
    PODIUM_REQUIRE(tokens.size() > 1, ExitCode::kData, place, " is empty; leave it out");
    PODIUM_REQUIRE(
        std::ssize(tokens) <= context_ || predictor_.recipe().text.too_long == kCutIfTooLong,
        ExitCode::kData, place, ", \"", sentence, "\", has ",
        count_text(std::ssize(tokens), "token"),
        " with its end, and the network reads data.context = ", context_,
        "; cut it into shorter ones");
    if (std::ssize(tokens) > context_) tokens.resize(static_cast<std::size_t>(context_));
    return tokens;
  }

  std::string text_of(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens)
      if (token != end_ && token < tokenizer_->vocabulary()) text += tokenizer_->text_of(token);
    return std::string(trimmed(text));
  }

  // All at once, token by token, until no hypothesis is open. Where the network's keys are kept,
  // `decoder` has a row for each hypothesis that a search may have.
  void run(std::span<BeamSearch> searches, SentenceDecoder* decoder) const {
    if (decoder != nullptr) begin(searches, *decoder);
    for (std::int64_t place = 0; place < context_; ++place) {
      note_progress();  // other ranks may wait for an evaluation's translations
      std::vector<BeamSearch*> open;
      for (BeamSearch& search : searches)
        if (!search.alive.empty()) open.push_back(&search);
      if (open.empty()) return;
      const bool is_last = place + 1 == context_;
      if (decoder != nullptr) {
        const float* const logits = next_logits(searches, *decoder);
        for (BeamSearch* search : open)
          step(*search, logits + (search - searches.data()) * options_.beam * vocabulary_,
               vocabulary_, is_last);
        continue;
      }
      const Tensor logits = logits_of(open);
      const float* row = logits.f32().data();
      for (BeamSearch* search : open) {
        const std::size_t count = search->alive.size();
        step(*search, row + place * vocabulary_, context_ * vocabulary_, is_last);
        row += static_cast<std::int64_t>(count) * context_ * vocabulary_;
      }
    }
  }

  Translation best(const BeamSearch& search) const {
    const Hypothesis& found = *std::ranges::max_element(search.ended, {}, &Hypothesis::score);
    return {.text = text_of(found.tokens), .score = found.score(), .tokens = found.tokens};
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  void begin(std::span<const BeamSearch> searches, SentenceDecoder& decoder) const {
    std::vector<std::vector<std::int32_t>> sources;
    for (const BeamSearch& search : searches)
      sources.insert(sources.end(), static_cast<std::size_t>(options_.beam), search.source);
    decoder.begin(sources);
  }

  // Of what follows each hypothesis: as many rows for each search as it may have. Those of which
  // there is none read something, too.
  const float* next_logits(std::span<const BeamSearch> searches, SentenceDecoder& decoder) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(decoder.rows()), end_),
        origins(tokens.size());
    for (std::size_t i = 0; i < searches.size(); ++i)
      for (std::size_t h = 0; h < searches[i].alive.size(); ++h) {
        const std::size_t first = i * static_cast<std::size_t>(options_.beam);
        const Hypothesis& one = searches[i].alive[h];
        if (!one.tokens.empty()) tokens[first + h] = one.tokens.back();
        origins[first + h] = static_cast<std::int32_t>(first + one.from);
      }
    return decoder.logits(tokens, origins);
  }

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
  // `stride` floats apart. At the last place all end.
  void step(BeamSearch& search, const float* logits, std::int64_t stride, bool is_last) const {
    struct Next {
      double sum;
      std::size_t from;
      std::int32_t token;
    };
    const auto beam = static_cast<std::size_t>(options_.beam);
    std::vector<Next> best;
    const auto before = [](const Next& a, const Next& b) { return a.sum > b.sum; };
    for (std::size_t i = 0; i < search.alive.size(); ++i, logits += stride) {
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
      hypothesis.tokens.push_back(next.token);
      hypothesis.sum = next.sum, hypothesis.from = next.from;
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

// Each worker translates some of them at once.
void translate_by(const Translator& translator, Predictor& predictor,
                  std::span<const std::vector<std::int32_t>> sentences,
                  const TranslateOptions& options,
                  const std::function<void(std::size_t, const Translation&)>& each) {
  if (sentences.empty()) return;
  const auto beam = static_cast<std::size_t>(options.beam);
  const std::size_t some =
      std::min(sentences.size(), std::max<std::size_t>(1, kHypothesesAtOnce / beam));
  const std::size_t workers = std::min(static_cast<std::size_t>(predictor.placement().workers),
                                       (sentences.size() + some - 1) / some);
  std::vector<std::unique_ptr<SentenceDecoder>> decoders;
  while (options.keeps && decoders.size() < workers) {
    auto decoder = SentenceDecoder::make(predictor, static_cast<std::int64_t>(some * beam),
                                         static_cast<int>(decoders.size()));
    if (!decoder) break;
    decoders.push_back(std::move(decoder));
  }
  const std::size_t streams = std::max<std::size_t>(1, decoders.size());
  ThreadPool threads(static_cast<int>(streams));
  for (std::size_t begin = 0; begin < sentences.size(); begin += streams * some) {
    std::vector<BeamSearch> searches;
    for (std::size_t i = begin; i < std::min(begin + streams * some, sentences.size()); ++i)
      searches.push_back({.source = sentences[i]});
    const std::span<BeamSearch> all(searches);
    threads.run(static_cast<int>((all.size() + some - 1) / some), [&](int share, int) {
      const std::size_t first = static_cast<std::size_t>(share) * some;
      translator.run(all.subspan(first, std::min(some, all.size() - first)),
                     decoders.empty() ? nullptr : decoders[static_cast<std::size_t>(share)].get());
    });
    for (std::size_t i = 0; i < searches.size(); ++i) each(begin + i, translator.best(searches[i]));
  }
}

constexpr std::size_t kShownTranslations = 10, kShownAttention = 2;

}  // namespace

void translate(Predictor& predictor, std::span<const std::string> sentences,
               const TranslateOptions& options,
               const std::function<void(std::size_t, const Translation&)>& each) {
  const Translator translator(predictor, options);
  std::vector<std::vector<std::int32_t>> tokens;
  for (std::size_t i = 0; i < sentences.size(); ++i)
    tokens.push_back(translator.tokens_of(sentences[i], i));
  translate_by(translator, predictor, tokens, options, each);
}

void add_translations(const Trainer& trainer, const Checkpoint& checkpoint,
                      EvaluationResult& result) {
  const Recipe& recipe = trainer.recipe();
  const auto* const set = dynamic_cast<const PairSource*>(&trainer.evaluation_set());
  if (recipe.evaluation.translations == 0 || set == nullptr) return;
  const Placement& own = trainer.placement();
  Predictor predictor(recipe, checkpoint, {},
                      {.workers = own.workers, .threads = own.threads, .backend = own.backend});
  const TranslateOptions greedy{.beam = 1};
  const Translator translator(predictor, greedy);
  // They lie evenly over the set.
  const std::int64_t count = std::min(recipe.evaluation.translations, set->examples());
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<std::string> translations, references;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t pair = i * set->examples() / count;
    sources.push_back(set->source_tokens(pair));
    references.push_back(translator.text_of(set->target_tokens(pair)));
  }
  std::vector<Translation> shown;
  translate_by(translator, predictor, sources, greedy, [&](std::size_t, const Translation& one) {
    translations.push_back(one.text);
    if (shown.size() < kShownTranslations) shown.push_back(one);
  });
  result.metrics.push_back(
      {.name = kBleuMetric, .unit = "", .value = bleu(translations, references)});
  AttentionReader reader(predictor);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    ShownTranslation& one = result.translations.emplace_back();
    one = {translator.text_of(sources[i]), references[i], translations[i]};
    if (i < kShownAttention)
      one.attention = reader.read(sources[i], shown[i].tokens, translator.tokenizer());
  }
}

}  // namespace podium
