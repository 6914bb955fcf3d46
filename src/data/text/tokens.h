// A sequence of tokens: in memory, or in files that are read as they are needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/stop.h"
#include "data/text/tokenizer.h"

namespace podium {

class Tokens {
 public:
  virtual ~Tokens();
  virtual std::int64_t size() const = 0;
  // Tokens [first, first + count). Threads may share the sequence. Throws UserError(kData), which
  // names the file and the position, if a token is not in the vocabulary or a file has changed.
  virtual void copy(std::int64_t first, std::int64_t count, std::int32_t* to) const = 0;
  // Of these tokens. Throws Stopped if `stop` requests it.
  virtual std::uint64_t hash(std::int64_t first, std::int64_t count, StopToken stop) const = 0;
  // That so many tokens occupy.
  virtual std::int64_t memory_bytes(std::int64_t count) const = 0;
  virtual bool is_in_files() const { return false; }
};

// The tokens of the documents, one after the other, with the tokenizer's separator between them;
// where it has none, a line end, if the document has none at its end.
std::shared_ptr<const Tokens> tokens_of(const std::vector<Document>& documents,
                                        const Tokenizer& tokenizer);

// Files of tokens, one after the other: .npy of one dimension (u2, u4, i4); llm.c's .bin (a header
// of 256 int32 that begins with 20240520 or 20240801, then u2 or u4); or nanoGPT's .bin (u2 alone).
// Throws UserError(kData), which names the file, if one is damaged or cut off, or has other numbers
// than the first.
std::shared_ptr<const Tokens> open_shards(const std::vector<std::string>& files,
                                          std::int64_t vocabulary);
// Whether a file's name is one of them.
bool is_shard(const std::filesystem::path& file);

// Writes an .npy, u2 where the vocabulary allows it, otherwise u4: whole or not at all.
void write_shard(const std::filesystem::path& file, const std::vector<std::int32_t>& tokens,
                 std::int64_t vocabulary);

}  // namespace podium
