#include "data/sentences/sentence_reader.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "base/words.h"
#include "data/table/columns.h"

namespace podium {

SentenceReader::SentenceReader(const Tokenizer& tokenizer, std::int64_t context,
                               const std::string& too_long, bool ends)
    : tokenizer_(tokenizer),
      context_(context),
      end_(end_token(tokenizer)),
      cuts_(too_long == kCutIfTooLong),
      ends_(ends) {}

TokenRows SentenceReader::read(const Cells& cells, std::int64_t column,
                               const std::vector<bool>& wanted) {
  TokenRows rows;
  std::int64_t too_long = 0, longest = 0, longest_row = 0;
  for (std::int64_t row = 0; row < cells.rows(); ++row) {
    if (!wanted[static_cast<std::size_t>(row)]) continue;
    std::vector<std::int32_t> own =
        tokenizer_.tokens_of(cells.at(row, column), cells.place(row, column));
    if (own.empty()) refuse(cells, row, column, "the text is empty; leave out the row");
    if (ends_) own.push_back(end_);
    const std::int64_t length = std::ssize(own);
    if (length > longest) longest = length, longest_row = row;
    too_long += length > context_ ? 1 : 0;
    rows.lengths.push_back(static_cast<std::int32_t>(std::min(length, context_)));
    own.resize(static_cast<std::size_t>(context_), end_);
    rows.tokens.insert(rows.tokens.end(), own.begin(), own.end());
  }
  if (too_long == 0) return rows;
  const std::string many = cat(cells.file, ": ", count_text(too_long, "sentence"), " of ",
                               with_commas(cells.rows()), " longer than data.context = ", context_);
  PODIUM_REQUIRE(
      cuts_, ExitCode::kData, many, "; the longest, in line ",
      cells.lines[static_cast<std::size_t>(longest_row)], ", has ", count_text(longest, "token"),
      ends_ ? " with its end" : "",
      ". Cut them at their ends, data.too_long=cut, or train with data.context=", longest);
  notes_.push_back(many + ", cut at the end");
  return rows;
}

TokenRows SentenceReader::read(const Cells& cells, std::int64_t column) {
  return read(cells, column, std::vector<bool>(static_cast<std::size_t>(cells.rows()), true));
}

}  // namespace podium
