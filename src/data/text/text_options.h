// Text in files, as named in a recipe: `data = "text:FILE"`, or the [data] table.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// A value of a recipe's `data` that is not the name of a dataset: the text of files.
inline constexpr const char* kTextData = "text";
// Likewise: the sentences of a file, each of a class (data/sentences/sentences.h).
inline constexpr const char* kSentenceData = "sentences";
// What a token is.
inline constexpr const char* kByteTokens = "bytes";
inline constexpr const char* kCharTokens = "chars";
inline constexpr const char* kWordTokens = "words";

// The orders in which training visits windows.
inline constexpr const char* kShuffledWindows = "shuffled";
inline constexpr const char* kStreamedWindows = "streams";

// What becomes of sentences and sounds that are longer than the context.
inline constexpr const char *kStopIfTooLong = "stop", *kCutIfTooLong = "cut";

// Whether data.tokenizer names files, and not one of the kinds above.
inline bool is_tokenizer_path(const std::string& tokenizer) {
  return tokenizer.find_first_of("/.") != std::string::npos;
}
// The folder of a run, and of shards, that has the files of their tokenizer.
inline constexpr const char* kTokenizerFolder = "tokenizer";

// In a folder of shards while they are being made.
inline constexpr const char* kUnfinishedShards = ".unfinished";

// The keys of a recipe's [data] table that text has, and some that sentences and sounds have, too.
struct TextOptions {
  std::string tokenizer = kByteTokens;  // or the path of one
  std::int64_t context = 256;           // tokens of an example, or frames
  std::int64_t vocabulary = 0;          // at least so many tokens; 0: as many as the tokenizer has
  std::string order = kShuffledWindows;
  std::string text_column = "text";  // of sentences: the column that has them
  std::string held_out_path = "";    // what is evaluated; empty: a share at the end of the text
  std::string too_long = kStopIfTooLong;
  bool operator==(const TextOptions&) const = default;
};

}  // namespace podium
