// A tokenizer of llama2.c (.bin): SentencePiece's byte-pair encoding, where every piece has a
// score, and of two neighbours those are joined whose joint piece has the highest.
//
// The file: an int32 (the longest piece in bytes), then for each piece a float score, an int32
// length and its bytes. Pieces 3 to 258 stand for bytes that no other piece has.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/text/tokenizer.h"

namespace podium {

// Throws UserError(kData), which names the file and the byte, if it is damaged.
std::shared_ptr<const Tokenizer> open_scored_pieces(const std::string& file);
std::shared_ptr<const Tokenizer> parse_scored_pieces(std::string_view bytes,
                                                     const std::string& file);

}  // namespace podium
