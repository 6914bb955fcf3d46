#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/words.h"
#include "report/progress.h"

namespace podium {
namespace {

bool is_number(const std::string& cell) {
  return cell.empty() || std::isdigit(static_cast<unsigned char>(cell.front())) != 0 ||
         cell.front() == '-';
}

}  // namespace

// Names and descriptions may hold anything. In UTF-8, U+0080 to U+009F are control characters, too.
std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7f) text[i] = '?';
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) text.replace(i, 2, "?");
  }
  return text;
}

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(std::move(cell));
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<int> widths;
  std::vector<bool> right;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      if (c >= widths.size()) widths.push_back(0), right.push_back(rows_.size() > 1);
      widths[c] = std::max(widths[c], columns(rows_[r][c]));
      if (r > 0 && !is_number(rows_[r][c])) right[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(static_cast<std::size_t>(widths[c] - columns(row[c])), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? gap + row[c] : row[c] + gap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string percent(double share) { return share_text(share); }

std::string evaluation_text(const EvaluationResult& result, const TaskWords& words,
                            const std::string& of) {
  const Sums& sums = result.sums;
  std::string text;
  if (words == TaskWords{.item = words.item})
    text = cat(words.metric_text(result.metric()), " (", with_commas(sums.count(kCorrectCount)),
               " of ", with_commas(sums.weight));
  else if (words.metric.empty())
    text = cat("(", count_text(sums.weight, words.item));
  else
    text = cat(words.metric_name(), " ", words.metric_text(result.metric()), " (",
               count_text(sums.weight, words.item));
  text += cat(of, "), loss ", fixed(static_cast<double>(sums.loss), 4));
  const double bleu = result.value_of(kBleuMetric);
  return std::isnan(bleu) ? text : cat(text, ", BLEU ", fixed(bleu, 1));
}

std::string scaled(double value, const char* unit) {
  const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; std::abs(value) >= 1000 && prefix + 1 < std::size(prefixes); ++prefix) value /= 1000;
  return fmt::format("{:.{}f} {}{}", value,
                     prefix == 0 || value >= 100 ? 0
                     : value >= 10               ? 1
                                                 : 2,
                     prefixes[prefix], unit);
}

}  // namespace podium
