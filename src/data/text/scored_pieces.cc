#include "data/text/scored_pieces.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/text/merge_pairs.h"
#include "data/text/utf8.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostPieceBytes = std::uint64_t{64} << 20;

std::string with_blanks(std::string_view text, const PieceBlanks& blanks) {
  std::string own = blanks.prefix ? " " : "";
  for (const char c : text) {
    // After the blank before the text, too, if there is one.
    if (blanks.collapse && c == ' ' && (own.empty() || own.back() == ' ')) continue;
    own += c;
  }
  if (blanks.collapse && own.ends_with(' ')) own.pop_back();
  return own;
}

class ScoredPieces final : public Tokenizer {
 public:
  ScoredPieces(std::vector<ScoredPiece> pieces, const PieceBlanks& blanks, const std::string& file)
      : pieces_(std::move(pieces)), blanks_(blanks) {
    files_ = {file};
    // Of equal texts the first counts, as in a sorted list of them.
    for (std::size_t i = kBytePieces; i < pieces_.size(); ++i)
      tokens_.emplace(pieces_[i].text, static_cast<std::int32_t>(i));
  }
  std::int64_t vocabulary() const override { return std::ssize(pieces_); }
  std::optional<std::int32_t> separator() const override { return kEndPiece; }
  std::string text_of(std::int64_t token) const override {
    if (token >= kFirstBytePiece && token < kBytePieces)
      return std::string(1, static_cast<char>(token - kFirstBytePiece));
    return token < kFirstBytePiece ? "" : pieces_.at(static_cast<std::size_t>(token)).text;
  }

  void encode(std::string_view text, const std::string&,
              const std::function<void(std::int32_t)>& add) const override {
    std::ranges::for_each(merged(with_blanks(text, blanks_)), add);
  }
  std::size_t cut(std::string_view text, std::size_t most) const override {
    return most >= text.size() ? text.size() : 0;
  }

 private:
  std::vector<std::int32_t> merged(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    const auto put = [&](std::string_view character) {
      const auto found = tokens_.find(std::string(character));
      if (found != tokens_.end()) return tokens.push_back(found->second);
      for (const char byte : character)
        tokens.push_back(kFirstBytePiece + static_cast<unsigned char>(byte));
    };
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::max<std::size_t>(1, utf8_length(text.substr(at)));
      put(text.substr(at, length));
      at += length;
    }
    // The highest score is the least key.
    const auto find = [this](std::int32_t left, std::int32_t right, float& key,
                             std::int32_t& joint) {
      // A piece that stands for a byte is none of a longer one.
      if (left < kBytePieces || right < kBytePieces) return false;
      const auto found = tokens_.find(pieces_[static_cast<std::size_t>(left)].text +
                                      pieces_[static_cast<std::size_t>(right)].text);
      if (found == tokens_.end()) return false;
      joint = found->second;
      key = -pieces_[static_cast<std::size_t>(joint)].score;
      return true;
    };
    return merge_pairs<float>(std::move(tokens), find);
  }

  std::vector<ScoredPiece> pieces_;
  PieceBlanks blanks_;
  std::unordered_map<std::string, std::int32_t> tokens_;
};

}  // namespace

std::shared_ptr<const Tokenizer> scored_pieces(std::vector<ScoredPiece> pieces,
                                               const PieceBlanks& blanks, const std::string& file) {
  return std::make_shared<const ScoredPieces>(std::move(pieces), blanks, file);
}

std::shared_ptr<const Tokenizer> parse_scored_pieces(std::string_view bytes,
                                                     const std::string& file) {
  constexpr const char* kRemedy = "; name the tokenizer that llama2.c's tokenizer.py exports";
  std::size_t at = 0;
  const auto read = [&](auto& value, const char* what) {
    PODIUM_REQUIRE(bytes.size() - at >= sizeof(value), ExitCode::kData, file, ": byte ", at,
                   ": the file ends within ", what, kRemedy);
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    at += sizeof(value);
  };
  std::int32_t longest = 0;
  read(longest, "the length of the longest piece");
  std::vector<ScoredPiece> pieces;
  while (at < bytes.size()) {
    ScoredPiece piece;
    std::int32_t length = 0;
    read(piece.score, "the score of a piece");
    read(length, "the length of a piece");
    PODIUM_REQUIRE(length >= 0 && length <= std::max(longest, 64) &&
                       static_cast<std::size_t>(length) <= bytes.size() - at,
                   ExitCode::kData, file, ": byte ", at - 4, ": a piece of ", length,
                   " bytes is longer than the file or than the longest one, of ", longest, kRemedy);
    PODIUM_REQUIRE(std::isfinite(piece.score), ExitCode::kData, file, ": byte ", at - 8,
                   ": a score is not a finite number", kRemedy);
    piece.text = bytes.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(length);
    pieces.push_back(std::move(piece));
  }
  PODIUM_REQUIRE(std::ssize(pieces) >= kBytePieces, ExitCode::kData, file, ": has ", pieces.size(),
                 " pieces; three special ones and one for each byte are the least", kRemedy);
  return scored_pieces(std::move(pieces), {}, file);
}

std::shared_ptr<const Tokenizer> open_scored_pieces(const std::string& file) {
  return parse_scored_pieces(read_text(file, kMostPieceBytes).value_or(""), file);
}

}  // namespace podium
