#include "data/table/cells.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/words.h"
#include "data/storage/npy.h"

namespace podium {
namespace {

constexpr std::int64_t kMostColumns = 65536;
constexpr std::int64_t kMostCells = std::int64_t{1} << 28;

char separator_of(std::string_view first_line) {
  char best = ',';
  std::ptrdiff_t most = std::ranges::count(first_line, ',');
  for (const char other : {';', '\t'})
    if (const auto count = std::ranges::count(first_line, other); count > most)
      best = other, most = count;
  return best;
}

class Csv {
 public:
  Csv(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // a mark that Windows writes
    separator_ = separator_of(text_.substr(0, text_.find_first_of("\r\n")));
  }
  bool at_end() const { return at_ >= text_.size(); }
  std::int64_t line() const { return line_; }

  // The cells of the line that begins here. An empty line has none.
  std::vector<std::string> row() {
    std::vector<std::string> cells;
    if (skip_line_end()) return cells;
    while (true) {
      cells.push_back(cell());
      if (at_end() || skip_line_end()) return cells;
      ++at_;  // a separator
    }
  }

 private:
  bool skip_line_end() {
    if (at_end()) return false;
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    if (text_[at_] != '\n' && text_[at_] != '\r') return false;
    ++at_, ++line_;
    return true;
  }
  bool ends_cell(char c) const { return c == separator_ || c == '\n' || c == '\r'; }

  std::string cell() {
    std::size_t begin = at_;
    while (begin < text_.size() && text_[begin] == ' ') ++begin;
    if (begin < text_.size() && text_[begin] == '"') return quoted(begin + 1);
    const std::size_t first = at_;
    while (!at_end() && !ends_cell(text_[at_])) ++at_;
    return std::string(trimmed(text_.substr(first, at_ - first)));
  }
  std::string quoted(std::size_t from) {
    const std::int64_t begin_line = line_;
    std::string value;
    for (at_ = from; !at_end(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        value += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        value += text_[at_++];
      } else {
        ++at_;
        while (!at_end() && text_[at_] == ' ') ++at_;
        PODIUM_REQUIRE(at_end() || ends_cell(text_[at_]), ExitCode::kData, file_, ": line ", line_,
                       ": a cell goes on after its closing quote; write a quote in a quoted cell "
                       "as two");
        return value;
      }
    }
    throw UserError(cat(file_, ": line ", begin_line,
                        ": the quote that begins a cell is never closed; close it, or write a "
                        "quote in a quoted cell as two"),
                    ExitCode::kData);
  }

  std::string_view text_;
  const std::string& file_;
  char separator_ = ',';
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

void require_names(const Cells& table) {
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    const std::string& name = table.names[i];
    PODIUM_REQUIRE(!name.empty(), ExitCode::kData, table.file, ": line 1: column ", i + 1,
                   " has no name; the first line names the columns");
    PODIUM_REQUIRE(known.insert(name).second, ExitCode::kData, table.file,
                   ": line 1: two columns are called \"", name, "\"; rename one");
  }
}

// A number of the host's type T, as the shortest text that gives it back.
template <typename T>
std::string number_at(const std::uint8_t* from, bool swapped) {
  std::array<std::uint8_t, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (swapped) std::ranges::reverse(bytes);
  const T value = std::bit_cast<T>(bytes);
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

using NumberAt = std::string (*)(const std::uint8_t*, bool);
struct NpyType {
  NumberAt text;
  std::size_t bytes;
};
const std::map<std::string, NpyType, std::less<>>& npy_types() {
  static const std::map<std::string, NpyType, std::less<>> types = {
      {"f4", {number_at<float>, 4}},         {"f8", {number_at<double>, 8}},
      {"i1", {number_at<std::int8_t>, 1}},   {"u1", {number_at<std::uint8_t>, 1}},
      {"b1", {number_at<std::uint8_t>, 1}},  {"i2", {number_at<std::int16_t>, 2}},
      {"u2", {number_at<std::uint16_t>, 2}}, {"i4", {number_at<std::int32_t>, 4}},
      {"u4", {number_at<std::uint32_t>, 4}}, {"i8", {number_at<std::int64_t>, 8}},
      {"u8", {number_at<std::uint64_t>, 8}}};
  return types;
}

}  // namespace

std::int64_t Cells::column_of(std::string_view name) const {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : found - names.begin();
}

std::string Cells::place(std::int64_t row, std::int64_t column) const {
  return cat(file, ": line ", lines[static_cast<std::size_t>(row)], ", column \"",
             names[static_cast<std::size_t>(column)], "\"");
}

Cells parse_csv(std::string_view text, const std::string& file) {
  Csv csv(text, file);
  Cells table{.file = file, .names = {}, .cells = {}, .lines = {}};
  while (!csv.at_end() && table.names.empty()) table.names = csv.row();
  PODIUM_REQUIRE(!table.names.empty(), ExitCode::kData, file,
                 " is empty; its first line must have the names of the columns");
  PODIUM_REQUIRE(table.columns() <= kMostColumns, ExitCode::kData, file, " has ", table.columns(),
                 " columns; at most ", kMostColumns, " are read");
  require_names(table);
  while (!csv.at_end()) {
    const std::int64_t line = csv.line();
    std::vector<std::string> row = csv.row();
    if (row.empty()) continue;
    PODIUM_REQUIRE(std::ssize(row) == table.columns(), ExitCode::kData, file, ": line ", line,
                   " has ", row.size(), " cells, and the first line has ", table.columns(),
                   "; a cell with a separator in it must be in double quotes");
    table.lines.push_back(line);
    PODIUM_REQUIRE(table.rows() * table.columns() <= kMostCells, ExitCode::kData, file,
                   " has more than ", kMostCells, " cells; train on a part of its rows");
    std::ranges::move(row, std::back_inserter(table.cells));
  }
  return table;
}

Cells parse_npy(std::span<const std::uint8_t> bytes, const std::string& file) {
  const NpyHeader header = parse_npy_header(bytes, file);
  const auto known = npy_types().find(header.type);
  PODIUM_REQUIRE(known != npy_types().end(), ExitCode::kData, file,
                 ": its numbers are not of a type that is read (f4, f8, i1 to i8, u1 to u8, b1); "
                 "convert it, as in array.astype('f4')");
  const std::vector<std::int64_t>& extents = header.shape;
  PODIUM_REQUIRE(extents.size() == 2 && extents[0] >= 0 && extents[1] >= 1 &&
                     extents[1] <= kMostColumns && extents[0] <= kMostCells / extents[1],
                 ExitCode::kData, file,
                 ": a table has two dimensions, rows and at least one column, and at most ",
                 kMostCells, " numbers");
  const std::size_t size = known->second.bytes, from = header.begin;
  const auto count = static_cast<std::size_t>(extents[0] * extents[1]);
  PODIUM_REQUIRE(count * size <= bytes.size() - from, ExitCode::kData, file, ": has ",
                 bytes.size() - from, " bytes of numbers, and its shape needs ", count * size,
                 "; it was cut off, so copy it again");
  Cells table{.file = file, .names = {}, .cells = {}, .lines = {}};
  for (std::int64_t c = 0; c < extents[1]; ++c) table.names.push_back(cat("c", c));
  for (std::int64_t r = 0; r < extents[0]; ++r) table.lines.push_back(r + 1);
  table.cells.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    table.cells.push_back(known->second.text(bytes.data() + from + i * size, header.swapped));
  return table;
}

}  // namespace podium
