// Columns of a table, and the rows of it that are held out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/table/cells.h"

namespace podium {

// The number that all of the text is; none: it is no number.
std::optional<double> number_in(const std::string& text);

// A column of numbers, or of classes.
struct Column {
  std::int64_t index = 0;
  std::string name;
  std::vector<double> numbers;
  std::vector<std::int32_t> classes;
  std::vector<std::string> words;  // of the classes, sorted; none: numbers
  bool has_words() const { return !words.empty(); }
};

// A column: of classes if `as_classes` or its first cell is no number. The rest throw
// UserError(kData), which names file, line and column, if a cell is missing, or no number where the
// column has numbers.
Column column_of(const Cells& cells, std::int64_t index, bool as_classes);
double number_at(const Cells& cells, std::int64_t row, std::int64_t column);
void require_cell(const Cells& cells, std::int64_t row, std::int64_t column);
// Throws UserError(kData), which names the cell and says `text`.
[[noreturn]] void refuse(const Cells& cells, std::int64_t row, std::int64_t column,
                         const std::string& text);
// Throws UserError(kData), which lists the columns, if one that `key` names is not there.
void require_known(const Cells& cells, const std::vector<std::string>& names, const char* key);

// Which rows are held out: those with the smallest random words, of equal words the earlier rows;
// at least one.
std::vector<bool> held_out_rows(std::int64_t rows, double share, std::uint64_t seed);
// Throws UserError(kData) if all rows of a class are held out.
void require_trained(const Cells& cells, const Column& target, const std::vector<bool>& held_out);

}  // namespace podium
