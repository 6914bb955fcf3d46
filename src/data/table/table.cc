#include "data/table/table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr std::int64_t kMostFeatureWords = 1000;  // of a column of classes that is not the target
constexpr std::uint64_t kMostTableBytes = std::uint64_t{4} << 30;

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [rest, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_missing(const std::string& text) {
  for (const char* word : {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
    if (text == word) return true;
  return false;
}

// A column of numbers, or of classes.
struct Column {
  std::int64_t index = 0;
  std::string name;
  std::vector<double> numbers;
  std::vector<std::int32_t> classes;
  std::vector<std::string> words;  // of the classes, sorted; none: numbers
  bool has_words() const { return !words.empty(); }
};

[[noreturn]] void refuse(const Cells& cells, std::int64_t row, std::int64_t column,
                         const std::string& text) {
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

// Words in their order: by value if all are numbers, else by their bytes.
std::vector<std::string> sorted_words(const std::set<std::string>& found) {
  std::vector<std::string> words(found.begin(), found.end());
  const auto is_number = [](const std::string& word) { return number_in(word).has_value(); };
  if (std::ranges::all_of(words, is_number))
    std::ranges::stable_sort(words, {}, [](const std::string& word) { return *number_in(word); });
  return words;
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

struct Moments {
  double mean = 0, deviation = 1;
};
// Of the rows in `part`; a column that is constant in it has the deviation 1.
Moments moments_of(const std::vector<double>& numbers, const std::vector<std::int64_t>& part) {
  const auto count = static_cast<double>(part.size());
  double sum = 0;
  for (const std::int64_t row : part) sum += numbers[static_cast<std::size_t>(row)];
  const double mean = sum / count;
  double squares = 0;
  for (const std::int64_t row : part) {
    const double off = numbers[static_cast<std::size_t>(row)] - mean;
    squares += off * off;
  }
  const double deviation = std::sqrt(squares / count);
  return {std::isfinite(mean) ? mean : 0,
          deviation > 0 && std::isfinite(deviation) ? deviation : 1};
}

// What FP32 cannot hold becomes its largest number: a row far from those of the training part.
float normalised(double number, double mean, double deviation) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp((number - mean) / deviation, -kMost, kMost));
}

// "sex=male": a feature of a column of classes. Its deviation is 0, which no number's is.
std::string feature_name(const std::string& column, const std::string& word) {
  return column + "=" + word;
}

// The rows that are held out, ascending: those with the smallest random words, of equal words the
// earlier rows.
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

void require_known(const Cells& cells, const std::vector<std::string>& names, const char* key) {
  for (const std::string& name : names)
    PODIUM_REQUIRE(cells.column_of(name) >= 0, ExitCode::kData, cells.file, ": `", key,
                   "` names the column \"", name, "\", which it has not; the nearest is \"",
                   nearest_word(name, cells.names), "\" of ", join_words(cells.names));
}

std::int64_t target_column(const Cells& cells, const TableOptions& options) {
  if (options.target.empty()) return cells.columns() - 1;
  require_known(cells, {options.target}, "data.target");
  return cells.column_of(options.target);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

Column read_target(const Cells& cells, std::int64_t index, const TableOptions& options) {
  Column target =
      column_of(cells, index,
                options.task == kClassification ||
                    contains(options.class_columns, cells.names[static_cast<std::size_t>(index)]));
  PODIUM_REQUIRE(options.task != kRegression || !target.has_words(), ExitCode::kData,
                 cells.place(0, index), ": \"", cells.at(0, index),
                 "\" is no number, and `data.task` = \"regression\" predicts one; name another "
                 "data.target, or predict classes: data.task=classification");
  PODIUM_REQUIRE(
      target.has_words()
          ? target.words.size() > 1
          : std::ranges::count(target.numbers, target.numbers[0]) != std::ssize(target.numbers),
      ExitCode::kData, cells.file, ": the target \"", target.name, "\" is \"", cells.at(0, index),
      "\" in every row, so there is nothing to predict; name another column: "
      "data.target=COLUMN");
  return target;
}

// Every class that is evaluated is trained on.
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

}  // namespace

TableSource::TableSource(std::string file, std::vector<Field> fields, std::vector<float> features,
                         std::vector<std::int32_t> targets)
    : file_(std::move(file)),
      fields_(std::move(fields)),
      width_(fields_.at(0).shape[0]),
      features_(std::move(features)),
      targets_(std::move(targets)) {}

std::int64_t TableSource::examples() const { return std::ssize(features_) / width_; }

void TableSource::read(std::int64_t index, const ExampleKey* /*key*/, FieldMemory to) const {
  std::copy_n(features_.begin() + index * width_, width_, to.at<float>(0));
  if (!targets_.empty()) *to.at<std::int32_t>(1) = targets_[static_cast<std::size_t>(index)];
}

void TableSource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(examples() > 0, ExitCode::kData, file_, ": ", what,
                 " has no rows; give a table with more rows");
}

std::string TableSource::identity(StopToken stop) const {
  const auto hash_of = [&](const auto& values) {
    return hash_bytes({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * 4},
                      stop);
  };
  std::uint64_t hash = hash_append(hash_of(features_), hash_of(targets_));
  for (const Field& field : fields_)
    for (const std::string& word : field.words)
      hash = hash_append(
          hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(word.data()), word.size()}));
  return cat(count_text(examples(), "row"), " of ", count_text(width_, "feature"), ", hash ",
             hash_text(hash));
}

std::int64_t TableSource::memory_bytes() const {
  return 4 * (std::ssize(features_) + std::ssize(targets_));
}

std::string find_table(const std::string& path, const std::string& data_dir) {
  return find_own_file(path, data_dir, kTableData, "a file with a table", "ROWS.csv");
}

Cells read_cells(const std::string& file) {
  const std::string text = read_text(file, kMostTableBytes).value_or("");
  if (text.starts_with("\x93NUMPY"))
    return parse_npy({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, file);
  return parse_csv(text, file);
}

TableParts parts_of(const Cells& cells, const TableOptions& options, double held_out) {
  PODIUM_REQUIRE(cells.rows() >= 2, ExitCode::kData, cells.file, " has ",
                 count_text(cells.rows(), "row"),
                 "; at least one to train on and one to evaluate are needed");
  require_known(cells, options.ignore, "data.ignore");
  require_known(cells, options.class_columns, "data.class_columns");
  const std::int64_t target_at = target_column(cells, options);
  const Column target = read_target(cells, target_at, options);
  PODIUM_REQUIRE(!contains(options.ignore, target.name), ExitCode::kData, cells.file,
                 ": the target \"", target.name,
                 "\" is one of `data.ignore`; name another column: data.target=COLUMN");
  const std::vector<bool> chosen = held_out_rows(cells.rows(), held_out, options.split_seed);
  std::vector<std::int64_t> train, test;
  for (std::int64_t r = 0; r < cells.rows(); ++r)
    (chosen[static_cast<std::size_t>(r)] ? test : train).push_back(r);
  PODIUM_REQUIRE(!train.empty(), ExitCode::kData, cells.file, ": `data.held_out` = ", held_out,
                 " leaves no row to train on; hold out fewer");
  if (target.has_words()) require_trained(cells, target, chosen);

  Field features{.name = kFeaturesField, .unit = "row"};
  std::vector<Column> columns;
  for (std::int64_t c = 0; c < cells.columns(); ++c) {
    const std::string& name = cells.names[static_cast<std::size_t>(c)];
    if (c == target_at || contains(options.ignore, name)) continue;
    Column& own = columns.emplace_back(column_of(cells, c, contains(options.class_columns, name)));
    PODIUM_REQUIRE(std::ssize(own.words) <= kMostFeatureWords, ExitCode::kData, cells.file,
                   ": the column \"", name, "\" has ", own.words.size(),
                   " different words; at most ", kMostFeatureWords,
                   " can be features, so ignore it: data.ignore='[\"", name, "\"]'");
    const Moments moments = own.has_words() ? Moments{0, 0} : moments_of(own.numbers, train);
    for (const std::string& word : own.words) features.words.push_back(feature_name(name, word));
    if (!own.has_words()) features.words.push_back(name);
    features.mean.resize(features.words.size(), moments.mean);
    features.deviation.resize(features.words.size(), moments.deviation);
  }
  PODIUM_REQUIRE(!features.words.empty(), ExitCode::kData, cells.file,
                 " has no column beside the target; a network needs one to read");
  features.shape = Shape{std::ssize(features.words)};

  Field answer{.name = target.name, .target = true};
  if (answer.name == kFeaturesField) answer.name = "target";
  if (target.has_words()) {
    answer.dtype = DType::kI32, answer.below = std::ssize(target.words),
    answer.words = target.words;
  } else {
    const Moments moments = moments_of(target.numbers, train);
    answer.mean = {moments.mean}, answer.deviation = {moments.deviation};
  }
  const auto part = [&](const std::vector<std::int64_t>& rows) {
    std::vector<float> values;
    std::vector<std::int32_t> targets;
    for (const std::int64_t row : rows) {
      const auto r = static_cast<std::size_t>(row);
      for (const Column& column : columns) {
        const std::size_t at = values.size() % features.words.size();
        if (!column.has_words())
          values.push_back(
              normalised(column.numbers[r], features.mean[at], features.deviation[at]));
        else
          for (std::int64_t word = 0; word < std::ssize(column.words); ++word)
            values.push_back(word == column.classes[r] ? 1.0f : 0.0f);
      }
      targets.push_back(target.has_words()
                            ? target.classes[r]
                            : std::bit_cast<std::int32_t>(normalised(
                                  target.numbers[r], answer.mean[0], answer.deviation[0])));
    }
    return std::make_shared<const TableSource>(cells.file, std::vector<Field>{features, answer},
                                               std::move(values), std::move(targets));
  };
  return {part(train), part(test)};
}

TableParts open_table(const std::string& path, const TableOptions& options, double held_out,
                      const std::string& data_dir) {
  return parts_of(read_cells(find_table(path, data_dir)), options, held_out);
}

TableSource rows_to_predict(const Cells& cells, const std::vector<Field>& fields) {
  const Field* const features = find_field(fields, kFeaturesField);
  PODIUM_REQUIRE(features != nullptr && features->words.size() == features->deviation.size() &&
                     features->mean.size() == features->deviation.size() &&
                     std::ssize(features->words) == features->shape.elements(),
                 ExitCode::kData, "the run is not one on a table, but on ", to_text(fields));
  // The column of each feature, and the word that it stands for.
  struct Feature {
    std::int64_t column;
    std::string word;
  };
  std::vector<Feature> plan;
  for (std::size_t i = 0; i < features->words.size(); ++i) {
    const std::string& name = features->words[i];
    std::int64_t column = cells.column_of(name);
    std::string word;
    if (features->deviation[i] == 0) {
      column = -1;
      for (std::size_t at = name.find('='); column < 0 && at != std::string::npos;
           at = name.find('=', at + 1)) {
        column = cells.column_of(name.substr(0, at));
        word = name.substr(at + 1);
      }
    }
    PODIUM_REQUIRE(column >= 0, ExitCode::kData, cells.file, ": has no column for \"", name,
                   "\", which the network reads; it has ", join_words(cells.names));
    plan.push_back({column, word});
  }
  std::vector<float> values;
  for (std::int64_t r = 0; r < cells.rows(); ++r) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const Feature& own = plan[i];
      if (features->deviation[i] != 0) {
        values.push_back(
            normalised(number_at(cells, r, own.column), features->mean[i], features->deviation[i]));
        continue;
      }
      require_cell(cells, r, own.column);
      const bool first = i == 0 || plan[i - 1].column != own.column;
      const bool known = !first || std::ranges::any_of(plan, [&](const Feature& other) {
        return other.column == own.column && other.word == cells.at(r, own.column);
      });
      if (!known)
        refuse(cells, r, own.column,
               cat("\"", cells.at(r, own.column),
                   "\" is a word that the training did not have, so the network knows nothing of "
                   "it; leave out the row"));
      values.push_back(cells.at(r, own.column) == own.word ? 1.0f : 0.0f);
    }
  }
  return {cells.file, {*features}, std::move(values), {}};
}

}  // namespace podium
