#include "data/table/columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/numerics/philox.h"
#include "base/words.h"

namespace podium {
namespace {

bool is_missing(const std::string& text) {
  for (const char* word : {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
    if (text == word) return true;
  return false;
}

// Words in their order: by value if all are numbers, else by their bytes.
std::vector<std::string> sorted_words(const std::set<std::string>& found) {
  std::vector<std::string> words(found.begin(), found.end());
  const auto is_number = [](const std::string& word) { return number_in(word).has_value(); };
  if (std::ranges::all_of(words, is_number))
    std::ranges::stable_sort(words, {}, [](const std::string& word) { return *number_in(word); });
  return words;
}

}  // namespace

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [rest, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

void refuse(const Cells& cells, std::int64_t row, std::int64_t column, const std::string& text) {
  throw UserError(cat(cells.place(row, column), ": ", text), ExitCode::kData);
}

void require_cell(const Cells& cells, std::int64_t row, std::int64_t column) {
  if (is_missing(cells.at(row, column)))
    refuse(cells, row, column,
           cat("the value is missing (\"", cells.at(row, column),
               "\"); fill it in, leave out the row, or ignore the column: data.ignore='[\"",
               cells.names[static_cast<std::size_t>(column)], "\"]'"));
}

double number_at(const Cells& cells, std::int64_t row, std::int64_t column) {
  require_cell(cells, row, column);
  const std::string& text = cells.at(row, column);
  const std::optional<double> value = number_in(text);
  if (!value)
    refuse(cells, row, column,
           cat("\"", text,
               "\" is no number, and the column has numbers; correct it, or read the "
               "column as classes: data.class_columns='[\"",
               cells.names[static_cast<std::size_t>(column)], "\"]'"));
  if (!std::isfinite(*value) || std::abs(*value) > 1e300)
    refuse(cells, row, column, cat("\"", text, "\" is not a finite number; correct it"));
  return *value;
}

Column column_of(const Cells& cells, std::int64_t index, bool as_classes) {
  Column column{.index = index, .name = cells.names[static_cast<std::size_t>(index)]};
  const std::int64_t rows = cells.rows();
  if (!as_classes && (is_missing(cells.at(0, index)) || number_in(cells.at(0, index)))) {
    for (std::int64_t r = 0; r < rows; ++r) column.numbers.push_back(number_at(cells, r, index));
    return column;
  }
  std::set<std::string> found;
  for (std::int64_t r = 0; r < rows; ++r) {
    require_cell(cells, r, index);
    found.insert(cells.at(r, index));
  }
  column.words = sorted_words(found);
  for (std::int64_t r = 0; r < rows; ++r)
    column.classes.push_back(static_cast<std::int32_t>(
        std::ranges::find(column.words, cells.at(r, index)) - column.words.begin()));
  return column;
}

void require_known(const Cells& cells, const std::vector<std::string>& names, const char* key) {
  for (const std::string& name : names)
    PODIUM_REQUIRE(cells.column_of(name) >= 0, ExitCode::kData, cells.file, ": `", key,
                   "` names the column \"", name, "\", which it has not; the nearest is \"",
                   nearest_word(name, cells.names), "\" of ", join_words(cells.names));
}

std::vector<bool> held_out_rows(std::int64_t rows, double share, std::uint64_t seed) {
  const PhiloxStream stream(seed, RandomPurpose::kSplit);
  std::vector<std::pair<std::uint32_t, std::int64_t>> order;
  for (std::int64_t r = 0; r < rows; ++r)
    order.emplace_back(
        stream.block(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(r >> 32))[0], r);
  std::ranges::sort(order);
  const auto count = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::floor(static_cast<double>(rows) * share)), 1, rows);
  std::vector<bool> chosen(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < count; ++i)
    chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)].second)] = true;
  return chosen;
}

void require_trained(const Cells& cells, const Column& target, const std::vector<bool>& held_out) {
  std::vector<bool> trained(target.words.size());
  for (std::size_t r = 0; r < held_out.size(); ++r)
    if (!held_out[r]) trained[static_cast<std::size_t>(target.classes[r])] = true;
  const auto missing = std::ranges::find(trained, false);
  if (missing == trained.end()) return;
  throw UserError(
      cat(cells.file, ": all rows with the target \"",
          target.words[static_cast<std::size_t>(missing - trained.begin())],
          "\" are held out, so that the network would never see one; add rows, hold out fewer "
          "(data.held_out) or others (data.split_seed=1)"),
      ExitCode::kData);
}

}  // namespace podium
