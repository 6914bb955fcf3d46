// A tokenizer that SentencePiece trained (.model), of the kind byte-pair encoding: pieces with
// scores (data/text/scored_pieces.h).
//
// Podium reads the file itself: the library of SentencePiece has a copy of protobuf within, which
// does not bear another one in the same program.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/text/tokenizer.h"

namespace podium {

// Throws UserError(kData), which names the file and says how to train it, if it is damaged or of a
// kind that is not read: it must be byte-pair encoding without normalisation, with pieces for
// bytes.
std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& file);
// The same of its contents.
std::shared_ptr<const Tokenizer> parse_sentencepiece(std::string_view bytes,
                                                     const std::string& file);

}  // namespace podium
