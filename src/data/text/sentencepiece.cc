#include "data/text/sentencepiece.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/text/pieces.pb.h"
#include "data/text/scored_pieces.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostModelBytes = std::uint64_t{64} << 20;
constexpr const char* kHowToTrain =
    "; train it with spm_train --model_type=bpe --byte_fallback=true "
    "--normalization_rule_name=identity --character_coverage=1.0";
constexpr int kBytePairs = 2;                                             // of model_type
enum { kNormalPiece = 1, kUnknownPiece, kControlPiece, kBytePiece = 6 };  // of a piece's type

// Blanks for the marks that stand for them, U+2581.
std::string unmarked(const std::string& piece) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool mark = std::string_view(piece).substr(at, kMark.size()) == kMark;
    text += mark ? ' ' : piece[at];
    at += mark ? kMark.size() : 1;
  }
  return text;
}

}  // namespace

std::shared_ptr<const Tokenizer> parse_sentencepiece(std::string_view bytes,
                                                     const std::string& file) {
  pieces::Model model;
  PODIUM_REQUIRE(
      model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && model.pieces_size() > 0,
      ExitCode::kData, file, ": is no model of SentencePiece, or damaged", kHowToTrain);
  PODIUM_REQUIRE(model.trainer().model_type() == kBytePairs, ExitCode::kData, file,
                 ": is not byte-pair encoding", kHowToTrain);
  PODIUM_REQUIRE(model.normalizer().character_map().empty(), ExitCode::kData, file,
                 ": changes characters before it reads them (\"", model.normalizer().name(),
                 "\"), which Podium does not", kHowToTrain);
  PODIUM_REQUIRE(model.normalizer().escape_whitespaces(), ExitCode::kData, file,
                 ": does not mark blanks", kHowToTrain);
  std::vector<ScoredPiece> pieces;
  for (int i = 0; i < model.pieces_size(); ++i) {
    const pieces::Piece& piece = model.pieces(i);
    const int expected = i == 0                ? kUnknownPiece
                         : i < kFirstBytePiece ? kControlPiece
                         : i < kBytePieces     ? kBytePiece
                                               : kNormalPiece;
    PODIUM_REQUIRE(piece.type() == expected, ExitCode::kData, file, ": piece ", i, ", \"",
                   piece.text(),
                   "\", is not of the kind that stands there: first come <unk>, <s>, "
                   "</s>, then the 256 bytes, then pieces that are neither control symbols nor "
                   "symbols of the user",
                   kHowToTrain);
    PODIUM_REQUIRE(std::isfinite(piece.score()), ExitCode::kData, file, ": piece ", i,
                   ": its score is not a finite number; restore the file from a copy");
    pieces.push_back({unmarked(piece.text()), piece.score()});
  }
  PODIUM_REQUIRE(std::ssize(pieces) >= kBytePieces, ExitCode::kData, file, ": has ", pieces.size(),
                 " pieces; three special ones and one for each byte are the least", kHowToTrain);
  return scored_pieces(std::move(pieces),
                       {.prefix = model.normalizer().add_dummy_prefix(),
                        .collapse = model.normalizer().remove_extra_whitespaces()},
                       file);
}

std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& file) {
  return parse_sentencepiece(read_text(file, kMostModelBytes).value_or(""), file);
}

}  // namespace podium
