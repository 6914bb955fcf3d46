// Small TOML files that are lists of things with known keys: prices, devices. Each [table] or
// [[table]] is a record; a table within it is a part of its keys ("flops.bf16"). All problems of a
// file are reported at once, each as "file:line: rule; remedy".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace podium {

struct TomlValue {
  // A date is text: "2026-11-09".
  std::variant<std::string, double, bool> value;
  std::int64_t line = 0;
};

struct TomlRecord {
  std::string table;  // "price"
  std::int64_t line = 0;
  std::map<std::string, TomlValue> values;  // by dotted key
};

// Of a text: the records in its order. UserError where it is no TOML, or has a value outside a
// table, an array of values or another thing that no record holds. `tables` are the known names.
std::vector<TomlRecord> parse_records(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& tables);

// Takes the values of one record by their keys and notes what is wrong. Values of the wrong kind
// come back as the default of their type.
class RecordReader {
 public:
  // Both must outlive this object. `problems` gets a line each.
  RecordReader(const TomlRecord& record, std::string source, std::vector<std::string>& problems)
      : record_(record), source_(std::move(source)), problems_(problems) {}

  // Required, unless it is optional_text(): then empty where it is not there.
  std::string text(const std::string& key);
  std::string optional_text(const std::string& key);
  // Required, and from `least` to `most`; `remedy` says what to write.
  double number(const std::string& key, double least, double most, const std::string& remedy);
  double optional_number(const std::string& key, double least, double most,
                         const std::string& remedy, double otherwise);
  std::int64_t whole(const std::string& key, std::int64_t least, std::int64_t most,
                     const std::string& remedy);
  // Keys that begin with "PREFIX.", without it, all of which are numbers.
  std::map<std::string, double> numbers(const std::string& prefix, double least, double most,
                                        const std::string& remedy);
  // A problem of this key, or of the record where it has no such key.
  void problem(const std::string& key, const std::string& rule);
  // Notes keys that were not asked for, with the nearest known.
  void finish();

 private:
  const TomlValue* find(const std::string& key, bool required);

  const TomlRecord& record_;
  std::string source_;
  std::vector<std::string>& problems_;
  std::vector<std::string> asked_;
};

// UserError with all problems, a line each (the first 50), if there are any.
void raise_problems(const std::vector<std::string>& problems);

// "2018", "2018-04" or "2018-04-30", of a real day.
bool is_date(const std::string& text);

// Folders in which files that come with the program are found, those that exist, in the order of
// search: that of the environment's `variable`, `name` in the current folder, beside the program,
// and share/podium/`name`. UserError where the variable names no folder.
std::vector<std::filesystem::path> shared_folders(const std::string& name, const char* variable);

// The TOML files of these folders, by name; of files that have one name in several folders, that of
// the first.
std::vector<std::filesystem::path> toml_files(const std::vector<std::filesystem::path>& folders);

}  // namespace podium
