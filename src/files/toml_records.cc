#include "files/toml_records.h"

#include <dlfcn.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/words.h"
#include "files/toml_fault.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostProblems = 50;

std::int64_t line_of(const toml::node& node) {
  return static_cast<std::int64_t>(node.source().begin.line);
}

std::string date_text(const toml::date& date) {
  std::ostringstream text;
  text << date;
  return text.str();
}

std::optional<TomlValue> value_of(const toml::node& node) {
  const std::int64_t line = line_of(node);
  if (const auto* text = node.as_string()) return TomlValue{text->get(), line};
  if (const auto* whole = node.as_integer())
    return TomlValue{static_cast<double>(whole->get()), line};
  if (const auto* number = node.as_floating_point()) return TomlValue{number->get(), line};
  if (const auto* flag = node.as_boolean()) return TomlValue{flag->get(), line};
  if (const auto* date = node.as_date()) return TomlValue{date_text(date->get()), line};
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string source, const std::vector<std::string>& tables)
      : source_(std::move(source)), tables_(tables) {}

  void read(std::string_view text) {
    if (const auto fault = fault_before_parsing(text)) {
      const auto line = 1 + std::ranges::count(text.substr(0, fault->at), '\n');
      throw UserError(cat(source_, ":", line, ": ", fault->rule));
    }
    try {
      const toml::table root = toml::parse(text, std::string_view(source_));
      for (const auto& [key, node] : root) read_table(std::string(key.str()), key, node);
    } catch (const toml::parse_error& error) {
      throw UserError(
          cat(source_, ":", error.source().begin.line, ": not TOML: ", error.description()));
    }
    raise_problems(problems_);
    std::ranges::stable_sort(records, {}, &TomlRecord::line);
  }

  std::vector<TomlRecord> records;

 private:
  void problem(std::int64_t line, const std::string& rule) {
    problems_.push_back(cat(source_, ":", line, ": ", rule));
  }

  void read_table(const std::string& name, const toml::key& written, const toml::node& node) {
    const auto line = static_cast<std::int64_t>(written.source().begin.line);
    if (std::ranges::find(tables_, name) == tables_.end())
      return problem(line,
                     cat("unknown table `", name, "`; known: [[", join_words(tables_, "]], [["),
                         "]], and every value belongs in one"));
    const auto add = [&](const toml::table& table) {
      TomlRecord record{.table = name, .line = line_of(table), .values = {}};
      if (record.line == 0) record.line = line;
      flatten("", table, record);
      records.push_back(std::move(record));
    };
    if (const auto* table = node.as_table()) return add(*table);
    const auto* array = node.as_array();
    if (array == nullptr || !std::ranges::all_of(*array, &toml::node::is_table))
      return problem(line, cat("`", name, "` must be a table, [[", name, "]]"));
    for (const toml::node& element : *array) add(*element.as_table());
  }

  void flatten(const std::string& prefix, const toml::table& table, TomlRecord& record) {
    for (const auto& [key, node] : table) {
      const std::string path = cat(prefix, key.str());
      if (const auto* inner = node.as_table()) {
        flatten(path + ".", *inner, record);
      } else if (auto value = value_of(node)) {
        record.values[path] = std::move(*value);
      } else {
        problem(static_cast<std::int64_t>(key.source().begin.line),
                cat("`", path, "` must be a text, a number, true, false or a date"));
      }
    }
  }

  std::string source_;
  const std::vector<std::string>& tables_;
  std::vector<std::string> problems_;
};

std::string shown(const TomlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    return cat("\"", text->size() > 40 ? text->substr(0, 37) + "..." : *text, "\"");
  }
  if (const auto* number = std::get_if<double>(&value.value)) return cat(*number);
  return std::get<bool>(value.value) ? "true" : "false";
}

}  // namespace

std::vector<TomlRecord> parse_records(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& tables) {
  Parser parser(source, tables);
  parser.read(text);
  return std::move(parser.records);
}

const TomlValue* RecordReader::find(const std::string& key, bool required) {
  asked_.push_back(key);
  const auto found = record_.values.find(key);
  if (found != record_.values.end()) return &found->second;
  if (required) problem(key, cat("this ", record_.table, " has no `", key, "`; add it"));
  return nullptr;
}

void RecordReader::problem(const std::string& key, const std::string& rule) {
  const auto found = record_.values.find(key);
  problems_.push_back(cat(
      source_, ":", found == record_.values.end() ? record_.line : found->second.line, ": ", rule));
}

std::string RecordReader::text(const std::string& key) {
  const TomlValue* value = find(key, true);
  if (value == nullptr) return "";
  const auto* text = std::get_if<std::string>(&value->value);
  if (text == nullptr || text->empty())
    problem(key, cat("`", key, "` must be a text of at least one character, got ", shown(*value)));
  return text == nullptr ? "" : *text;
}

std::string RecordReader::optional_text(const std::string& key) {
  return record_.values.contains(key) ? text(key) : (asked_.push_back(key), std::string());
}

double RecordReader::number(const std::string& key, double least, double most,
                            const std::string& remedy) {
  const TomlValue* value = find(key, true);
  if (value == nullptr) return least;
  const auto* number = std::get_if<double>(&value->value);
  if (number != nullptr && *number >= least && *number <= most) return *number;
  problem(key, cat("`", key, "` must be a number from ", least, " to ", most, ", got ",
                   shown(*value), "; ", remedy));
  return least;
}

double RecordReader::optional_number(const std::string& key, double least, double most,
                                     const std::string& remedy, double otherwise) {
  if (record_.values.contains(key)) return number(key, least, most, remedy);
  asked_.push_back(key);
  return otherwise;
}

std::int64_t RecordReader::whole(const std::string& key, std::int64_t least, std::int64_t most,
                                 const std::string& remedy) {
  const std::size_t before = problems_.size();
  const double value = number(key, static_cast<double>(least), static_cast<double>(most), remedy);
  if (problems_.size() == before && value != std::floor(value))
    problem(key, cat("`", key, "` must be a whole number, got ", value, "; ", remedy));
  return static_cast<std::int64_t>(value);
}

std::map<std::string, double> RecordReader::numbers(const std::string& prefix, double least,
                                                    double most, const std::string& remedy) {
  std::map<std::string, double> found;
  for (const auto& [key, value] : record_.values) {
    if (key.starts_with(prefix + "."))
      found[key.substr(prefix.size() + 1)] = number(key, least, most, remedy);
  }
  return found;
}

void RecordReader::finish() {
  for (const auto& [key, value] : record_.values) {
    if (std::ranges::find(asked_, key) == asked_.end())
      problem(key,
              cat("unknown key `", key, "`; the nearest is `", nearest_word(key, asked_), "`"));
  }
}

void raise_problems(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::vector<std::string> lines(
      problems.begin(),
      problems.begin() + static_cast<std::ptrdiff_t>(std::min(problems.size(), kMostProblems)));
  if (problems.size() > kMostProblems)
    lines.push_back(cat("... and ", problems.size() - kMostProblems, " more"));
  throw UserError(join_words(lines, "\n"));
}

bool is_date(const std::string& text) {
  const auto digits = [&](std::size_t from, std::size_t count) {
    int value = 0;
    for (std::size_t i = from; i < from + count; ++i) {
      if (i >= text.size() || std::isdigit(static_cast<unsigned char>(text[i])) == 0) return -1;
      value = 10 * value + (text[i] - '0');
    }
    return value;
  };
  const int year = digits(0, 4);
  if (year < 1990 || year > 2199) return false;
  if (text.size() == 4) return true;
  const int month = digits(5, 2);
  if (text[4] != '-' || month < 1 || month > 12) return false;
  if (text.size() == 7) return true;
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const int days = kDays[month - 1] + (month == 2 && leap ? 1 : 0), day = digits(8, 2);
  return text.size() == 10 && text[7] == '-' && day >= 1 && day <= days;
}

namespace {

// That of the program, and that of the library that holds this code, where it is part of one: the
// program is Python then.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path());
  Dl_info found = {};
  if (dladdr(reinterpret_cast<const void*>(&is_date), &found) == 0 || found.dli_fname == nullptr)
    return folders;
  const fs::path library = found.dli_fname;
  if (library.has_parent_path()) folders.push_back(fs::absolute(library, error).parent_path());
  return folders;
}

}  // namespace

std::vector<fs::path> shared_folders(const std::string& name, const char* variable) {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    const bool known = std::ranges::any_of(
        folders, [&](const fs::path& other) { return fs::equivalent(folder, other, error); });
    if (!known) folders.push_back(folder);
  };
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    std::error_code error;
    PODIUM_REQUIRE(fs::is_directory(named, error), ExitCode::kUsage, variable, " is \"", named,
                   "\", and there is no such folder; correct the variable, or unset it");
    add(named);
  }
  add(name);
  for (const fs::path& own : own_folders()) {
    add(own / name);
    add((own / ".." / name).lexically_normal());
    add((own / ".." / "share" / "podium" / name).lexically_normal());
  }
  return folders;
}

std::vector<fs::path> toml_files(const std::vector<fs::path>& folders) {
  std::map<std::string, fs::path> files;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() == ".toml")
        files.emplace(entry->path().filename().string(), entry->path());
    }
  }
  std::vector<fs::path> sorted;
  for (auto& [name, file] : files) sorted.push_back(std::move(file));
  return sorted;
}

}  // namespace podium
