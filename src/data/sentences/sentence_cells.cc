#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "data/sentences/sentences.h"
#include "data/text/utf8.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostSentenceBytes = std::uint64_t{4} << 30;
constexpr std::string_view kBlanks = " \t";

// Calls each(line, its number from 1) for the lines that are not blank.
template <typename Each>
void for_each_line(std::string_view text, const Each& each) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trimmed(text.substr(0, end));
    if (line.ends_with('\r')) line = trimmed(line.substr(0, line.size() - 1));
    if (!line.empty()) each(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Cells parse_lines(std::string_view text, const std::string& file, bool with_labels) {
  Cells all{.file = file, .names = {kSentenceColumn}};
  if (with_labels) all.names.emplace_back(kSentenceTarget);
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const std::size_t end = with_labels ? line.find_first_of(kBlanks) : 0;
    PODIUM_REQUIRE(end != std::string_view::npos, ExitCode::kData, file, ": line ", number, " (\"",
                   line, "\") has a label and no text; a line has both, with a blank between them");
    all.cells.emplace_back(trimmed(line.substr(end)));
    if (with_labels) all.cells.emplace_back(line.substr(0, end));
    all.lines.push_back(number);
  });
  return all;
}

Cells parse_json_lines(std::string_view text, const std::string& file) {
  Cells all{.file = file};
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    PODIUM_REQUIRE(json.is_object() && !json.empty(), ExitCode::kData, file, ": line ", number,
                   " is no JSON object; a .jsonl has one on each line");
    if (all.names.empty())
      for (const auto& [name, value] : json.items()) all.names.push_back(name);
    for (const std::string& name : all.names) {
      PODIUM_REQUIRE(json.contains(name), ExitCode::kData, file, ": line ", number, " has no \"",
                     name, "\", which the first line has");
      const auto& value = json[name];
      all.cells.push_back(value.is_string() ? value.get<std::string>()
                          : value.is_null() ? std::string()
                                            : json_text(value));
    }
    all.lines.push_back(number);
  });
  return all;
}

}  // namespace

Cells parse_sentences(std::string_view bytes, const std::string& file, bool with_labels) {
  const std::string text = as_utf8(bytes);
  const std::string kind = std::filesystem::path(file).extension().string();
  Cells all = kind == ".jsonl"                   ? parse_json_lines(text, file)
              : kind == ".csv" || kind == ".tsv" ? parse_csv(text, file)
                                                 : parse_lines(text, file, with_labels);
  PODIUM_REQUIRE(all.rows() > 0, ExitCode::kData, file, " has no sentences");
  return all;
}

Cells read_sentences(const std::string& file, bool with_labels) {
  return parse_sentences(read_text(file, kMostSentenceBytes).value_or(""), file, with_labels);
}

}  // namespace podium
