// The cells of a table as texts, from CSV (RFC 4180) or NumPy's .npy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

struct Cells {
  std::string file;                // for people
  std::vector<std::string> names;  // of the columns; all differ, and none is empty
  std::vector<std::string> cells;  // row by row
  std::vector<std::int64_t>
      lines;  // where each row begins in the file, from 1; of .npy, row numbers

  std::int64_t columns() const { return std::ssize(names); }
  std::int64_t rows() const { return std::ssize(lines); }
  const std::string& at(std::int64_t row, std::int64_t column) const {
    return cells[static_cast<std::size_t>(row * columns() + column)];
  }
  // -1: there is none of this name.
  std::int64_t column_of(std::string_view name) const;
  // "rows.csv: line 7, column \"age\"".
  std::string place(std::int64_t row, std::int64_t column) const;
};

// CSV: the first line has the names of the columns. Cells are separated by commas, or by the
// semicolons or tabs that the first line has more of. A cell in double quotes may hold separators,
// line ends and, doubled, quotes; blanks around other cells do not count. Empty lines are skipped.
// Throws UserError(kData), which names `file`, line and column, if a row has another number of
// cells than the first line, a quote is not closed or a name is missing or appears twice.
Cells parse_csv(std::string_view text, const std::string& file);

// An array of two dimensions of numbers (f4, f8, i1 to i8, u1 to u8, b1) in C order. Columns are
// called c0, c1 and so on. Throws UserError(kData), which names `file` and the byte, if it is none.
Cells parse_npy(std::span<const std::uint8_t> bytes, const std::string& file);

}  // namespace podium
