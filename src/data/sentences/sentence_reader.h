// Texts in a column as tokens, each as many as the context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/table/cells.h"
#include "data/text/text_options.h"
#include "data/text/tokenizer.h"

namespace podium {

struct TokenRows {
  std::vector<std::int32_t> tokens;   // the context of each text, filled up with end tokens
  std::vector<std::int32_t> lengths;  // how many of them count
};

class SentenceReader {
 public:
  // `ends`: each text has its end token, as a translation needs it.
  SentenceReader(const Tokenizer& tokenizer, std::int64_t context, const std::string& too_long,
                 bool ends);

  // Of the rows that `wanted` has. Throws UserError(kData), which names file, line and column, if a
  // text is empty or, unless it is cut, longer than the context.
  TokenRows read(const Cells& cells, std::int64_t column, const std::vector<bool>& wanted);
  // Of all rows.
  TokenRows read(const Cells& cells, std::int64_t column);

  std::int32_t end() const { return end_; }
  // About texts that were cut.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const Tokenizer& tokenizer_;
  std::int64_t context_;
  std::int32_t end_;
  bool cuts_, ends_;
  std::vector<std::string> notes_;
};

}  // namespace podium
