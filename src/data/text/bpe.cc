#include "data/text/bpe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/text/merge_pairs.h"
#include "data/text/pattern.h"
#include "data/text/utf8.h"

namespace podium {
namespace {

// Of OpenAI's cl100k_base and Meta's Llama 3, beside GPT-2's: all leave a blank between two letters
// to the word after it.
constexpr std::array<std::string_view, 3> kPatternsThatCutAtBlanks = {
    kGpt2Pattern,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr std::array<std::string_view, 4> kSeparators = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                         "<|eos|>"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Bpe final : public Tokenizer {
 public:
  Bpe(BpeModel model, const std::string& source, std::vector<std::string> files)
      : model_(std::move(model)) {
    files_ = std::move(files);
    for (std::size_t i = 0; i < model_.tokens.size(); ++i)
      if (!is_special(i)) tokens_.emplace(model_.tokens[i], static_cast<std::int32_t>(i));
    for (int byte = 0; byte < 256; ++byte) {
      const auto known = tokens_.find(std::string_view(std::string(1, static_cast<char>(byte))));
      PODIUM_REQUIRE(known != tokens_.end(), ExitCode::kData, source, ": no token is the byte ",
                     byte,
                     ", so that some texts would have no tokens; use a byte-level vocabulary");
      bytes_[static_cast<std::size_t>(byte)] = known->second;
    }
    for (std::size_t rank = 0; rank < model_.merges.size(); ++rank) {
      const BpeModel::Merge& merge = model_.merges[rank];
      merges_.emplace(pair_of(merge.left, merge.right),
                      Merged{static_cast<std::int32_t>(rank), merge.merged});
    }
    for (const std::string& pattern : model_.patterns) patterns_.emplace_back(pattern, source);
    for (const std::string_view name : kSeparators) {
      const auto found = std::ranges::find(model_.tokens, name);
      if (separator_ || found == model_.tokens.end()) continue;
      separator_ = static_cast<std::int32_t>(found - model_.tokens.begin());
    }
    cuts_ = model_.patterns.size() == 1 &&
            std::ranges::find(kPatternsThatCutAtBlanks, model_.patterns[0]) !=
                kPatternsThatCutAtBlanks.end();
  }

  std::int64_t vocabulary() const override { return std::ssize(model_.tokens); }
  std::optional<std::int32_t> separator() const override { return separator_; }
  std::string text_of(std::int64_t token) const override {
    return model_.tokens.at(static_cast<std::size_t>(token));
  }

  void encode(std::string_view text, const std::string&,
              const std::function<void(std::int32_t)>& add) const override {
    Known known;
    std::size_t at = 0;
    while (at < text.size()) {
      // As much as is UTF-8, then as much as is not.
      std::size_t end = at;
      while (const std::size_t length = utf8_length(text.substr(end))) end += length;
      if (end > at) pieces_of(text.substr(at, end - at), 0, add, known);
      at = end;
      while (end < text.size() && utf8_length(text.substr(end)) == 0) ++end;
      if (end > at) encode_piece(text.substr(at, end - at), add, known);
      at = end;
    }
  }

  std::size_t cut(std::string_view text, std::size_t most) const override {
    if (most >= text.size()) return text.size();
    if (!cuts_) return 0;
    for (std::size_t at = std::min(most, text.size() - 1); at-- > 1;)
      if (text[at] == ' ' && is_letter(text[at - 1]) && is_letter(text[at + 1])) return at;
    return 0;
  }

 private:
  struct Merged {
    std::int32_t rank, token;
  };
  // Pieces whose tokens are known, for a call.
  using Known = std::unordered_map<std::string, std::vector<std::int32_t>>;
  static constexpr std::size_t kLongestKnown = 32, kMostKnown = 1 << 18;

  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  bool is_special(std::size_t token) const {
    return token < model_.special.size() && model_.special[token];
  }

  void pieces_of(std::string_view text, std::size_t pattern,
                 const std::function<void(std::int32_t)>& add, Known& known) const {
    if (pattern == patterns_.size()) return encode_piece(text, add, known);
    patterns_[pattern].cut(
        text, [&](std::string_view part) { pieces_of(part, pattern + 1, add, known); });
  }

  void encode_piece(std::string_view piece, const std::function<void(std::int32_t)>& add,
                    Known& known) const {
    if (model_.whole_pieces_first) {
      const auto whole = tokens_.find(piece);
      if (whole != tokens_.end()) return add(whole->second);
    }
    if (piece.size() > kLongestKnown) {
      std::ranges::for_each(merged(piece), add);
      return;
    }
    const std::string key(piece);
    auto found = known.find(key);
    if (found == known.end()) {
      if (known.size() == kMostKnown) known.clear();
      found = known.emplace(key, merged(piece)).first;
    }
    std::ranges::for_each(found->second, add);
  }

  // The tokens of a piece: its bytes, of which the pair of the least rank is merged, the leftmost
  // first, until no pair has a rank.
  std::vector<std::int32_t> merged(std::string_view piece) const {
    std::vector<std::int32_t> tokens;
    for (const char byte : piece) tokens.push_back(bytes_[static_cast<unsigned char>(byte)]);
    const auto find = [this](std::int32_t left, std::int32_t right, std::int32_t& rank,
                             std::int32_t& joint) {
      const auto found = merges_.find(pair_of(left, right));
      if (found == merges_.end()) return false;
      rank = found->second.rank, joint = found->second.token;
      return true;
    };
    return merge_pairs<std::int32_t>(std::move(tokens), find);
  }

  BpeModel model_;
  std::unordered_map<std::string_view, std::int32_t> tokens_;  // of model_.tokens
  std::array<std::int32_t, 256> bytes_{};
  std::unordered_map<std::uint64_t, Merged> merges_;
  std::vector<Pattern> patterns_;
  std::optional<std::int32_t> separator_;
  bool cuts_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> bpe_tokenizer(BpeModel model, const std::string& source,
                                               std::vector<std::string> files) {
  return std::make_shared<const Bpe>(std::move(model), source, std::move(files));
}

}  // namespace podium
