#include "data/text/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/datasets/dataset.h"
#include "data/text/bpe.h"
#include "data/text/scored_pieces.h"
#include "data/text/sentencepiece.h"
#include "data/text/text_options.h"
#include "data/text/utf8.h"

namespace podium {
namespace {

constexpr std::int64_t kMostWords = 1 << 20;
constexpr std::string_view kLineEnd = "<eos>", kUnknown = "<unk>";

class Bytes final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  void encode(std::string_view text, const std::string&,
              const std::function<void(std::int32_t)>& add) const override {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  std::string text_of(std::int64_t token) const override {
    return std::string(1, static_cast<char>(token));
  }
  std::size_t cut(std::string_view, std::size_t most) const override { return most; }
};

// The bytes of the character that begins at `at`.
std::string_view character_at(std::string_view text, std::size_t at, const std::string& source) {
  const std::size_t bytes = utf8_length(text.substr(at));
  PODIUM_REQUIRE(bytes > 0, ExitCode::kData, source, ": ", place_in(text, at),
                 " is not UTF-8; save the file in that encoding, or train on its bytes: "
                 "data.tokenizer=bytes");
  return text.substr(at, bytes);
}

class Characters final : public Tokenizer {
 public:
  explicit Characters(std::vector<std::string> characters) : words_(std::move(characters)) {}
  std::int64_t vocabulary() const override { return std::ssize(words_); }
  void encode(std::string_view text, const std::string& source,
              const std::function<void(std::int32_t)>& add) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view character = character_at(text, at, source);
      const auto word = std::ranges::lower_bound(
          words_, character, {}, [](const std::string& w) { return std::string_view(w); });
      PODIUM_REQUIRE(word != words_.end() && *word == character, ExitCode::kData, source, ": ",
                     place_in(text, at), " has the character \"", character,
                     "\", which the text of the training did not have; leave it out");
      add(static_cast<std::int32_t>(word - words_.begin()));
      at += character.size();
    }
  }
  std::string text_of(std::int64_t token) const override {
    return words_.at(static_cast<std::size_t>(token));
  }
  const std::vector<std::string>& words() const override { return words_; }
  std::size_t cut(std::string_view text, std::size_t most) const override {
    while (most > 0 && most < text.size() && (text[most] & 0xC0) == 0x80) --most;
    return most;
  }

 private:
  std::vector<std::string> words_;
};

// Calls each(word, its place) for the words of a text, and for its line ends.
template <typename Each>
void for_each_word(std::string_view text, const Each& each) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    if (end > at) each(text.substr(at, end - at), at);
    if (end < text.size() && text[end] == '\n') each(kLineEnd, end);
    at = end + 1;
  }
}

class Words final : public Tokenizer {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i)
      tokens_.emplace(words_[i], static_cast<std::int32_t>(i));
    const auto unknown = tokens_.find(kUnknown);
    if (unknown != tokens_.end()) unknown_ = unknown->second;
  }
  std::int64_t vocabulary() const override { return std::ssize(words_); }
  void encode(std::string_view text, const std::string& source,
              const std::function<void(std::int32_t)>& add) const override {
    for_each_word(text, [&](std::string_view word, std::size_t at) {
      const auto known = tokens_.find(word);
      PODIUM_REQUIRE(known != tokens_.end() || unknown_, ExitCode::kData, source, ": ",
                     place_in(text, at), " has the word \"", word,
                     "\", which the text of the training did not have, and neither had that text "
                     "<unk> for such words; leave it out");
      add(known != tokens_.end() ? known->second : *unknown_);
    });
  }
  std::string text_of(std::int64_t token) const override {
    const std::string& word = words_.at(static_cast<std::size_t>(token));
    return word == kLineEnd ? "\n" : word + " ";
  }
  const std::vector<std::string>& words() const override { return words_; }
  std::size_t cut(std::string_view text, std::size_t most) const override {
    if (most >= text.size()) return text.size();
    const std::size_t end = text.substr(0, most).rfind('\n');
    return end == std::string_view::npos ? 0 : end + 1;
  }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string_view, std::int32_t> tokens_;  // of words_
  std::optional<std::int32_t> unknown_;
};

}  // namespace

Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::tokens_of(std::string_view text,
                                               const std::string& source) const {
  std::vector<std::int32_t> tokens;
  encode(text, source, [&tokens](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

const std::vector<std::string>& Tokenizer::words() const {
  static const std::vector<std::string> none;
  return none;
}

std::int32_t end_token(const Tokenizer& tokenizer) {
  return tokenizer.separator() ? *tokenizer.separator() : tokenizer.tokens_of("\n", "").back();
}

std::string place_in(std::string_view text, std::size_t at) {
  return cat("line ", 1 + std::ranges::count(text.substr(0, at), '\n'), " (byte ", at, ")");
}

std::shared_ptr<const Tokenizer> byte_tokenizer() { return std::make_shared<const Bytes>(); }

std::shared_ptr<const Tokenizer> character_tokenizer(const std::vector<Document>& texts) {
  // In UTF-8, the order of bytes is that of code points.
  std::set<std::string_view> found;
  for (const auto& [source, text] : texts) {
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view character = character_at(text, at, source);
      found.insert(character);
      at += character.size();
    }
  }
  return std::make_shared<const Characters>(std::vector<std::string>(found.begin(), found.end()));
}

std::shared_ptr<const Tokenizer> word_tokenizer(const std::vector<Document>& texts) {
  for (const auto& [source, text] : texts)
    for (std::size_t at = 0; at < text.size();) at += character_at(text, at, source).size();
  std::map<std::string_view, std::int64_t> counts;
  for (const Document& document : texts)
    for_each_word(document.text, [&](std::string_view word, std::size_t) { ++counts[word]; });
  PODIUM_REQUIRE(std::ssize(counts) <= kMostWords, ExitCode::kData, texts.front().source, " has ",
                 counts.size(), " different words; at most ", kMostWords,
                 " can be tokens, so use another data.tokenizer");
  std::vector<std::pair<std::string_view, std::int64_t>> order(counts.begin(), counts.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> words;
  for (const auto& entry : order) words.emplace_back(entry.first);
  return std::make_shared<const Words>(std::move(words));
}

std::shared_ptr<const Tokenizer> tokenizer_of_words(const std::string& kind,
                                                    const std::vector<std::string>& words) {
  if (kind == kCharTokens) return std::make_shared<const Characters>(words);
  if (kind == kWordTokens) return std::make_shared<const Words>(words);
  return byte_tokenizer();
}

std::shared_ptr<const Tokenizer> tokenizer_for(const std::string& tokenizer,
                                               const std::vector<Document>& documents,
                                               const std::string& data_dir) {
  if (is_tokenizer_path(tokenizer)) return open_tokenizer(tokenizer, data_dir);
  if (tokenizer == kCharTokens) return character_tokenizer(documents);
  if (tokenizer == kWordTokens) return word_tokenizer(documents);
  return byte_tokenizer();
}

std::shared_ptr<const Tokenizer> tokenizer_for_sentences(const std::string& tokenizer,
                                                         Document lines,
                                                         const std::string& data_dir) {
  std::vector<Document> documents = {std::move(lines)};
  if (tokenizer == kWordTokens) documents.push_back({documents.front().source, "<unk>"});
  return tokenizer_for(tokenizer, documents, data_dir);
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path,
                                                const std::string& data_dir) {
  namespace fs = std::filesystem;
  std::string searched;
  for (const std::string& place : places_of(path, data_dir)) {
    std::error_code error;
    const fs::path here = place, json = here / "tokenizer.json";
    if (!fs::is_directory(here, error)) {
      if (fs::exists(here, error))
        return here.extension() == ".bin"     ? open_scored_pieces(place)
               : here.extension() == ".model" ? open_sentencepiece(place)
                                              : open_bpe_json(place);
    } else if (fs::exists(json, error)) {
      return open_bpe_json(json.string());
    } else if (fs::exists(here / "encoder.json", error) && fs::exists(here / "vocab.bpe", error)) {
      return open_bpe_files((here / "encoder.json").string(), (here / "vocab.bpe").string());
    } else {
      // The one file of a run's folder, or of a folder of shards.
      for (const auto& entry : fs::directory_iterator(here, error)) {
        const std::string file = entry.path().string();
        if (file.ends_with(".bin")) return open_scored_pieces(file);
        if (file.ends_with(".model")) return open_sentencepiece(file);
      }
    }
    searched += cat("\n  ", place);
  }
  throw UserError(
      cat("the tokenizer ", path,
          " was not found: a tokenizer.json, a folder with one or with encoder.json and "
          "vocab.bpe, a .model of SentencePiece, or a .bin of llama2.c. Searched:",
          searched, "\nName it: data.tokenizer=PATH"),
      ExitCode::kData);
}

}  // namespace podium
