#include "data/table/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "data/source/own_files.h"
#include "data/table/columns.h"
#include "files/file_io.h"

namespace podium {
namespace {

constexpr std::int64_t kMostFeatureWords = 1000;  // of a column of classes that is not the target
constexpr std::uint64_t kMostTableBytes = std::uint64_t{4} << 30;

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

std::int32_t bits_of(float value) { return std::bit_cast<std::int32_t>(value); }

// "sex=male": a feature of a column of classes. Its deviation is 0, which no number's is.
std::string feature_name(const std::string& column, const std::string& word) {
  return column + "=" + word;
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

}  // namespace

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
    std::vector<std::int32_t> values, targets;
    for (const std::int64_t row : rows) {
      const auto r = static_cast<std::size_t>(row);
      for (const Column& column : columns) {
        const std::size_t at = values.size() % features.words.size();
        if (!column.has_words())
          values.push_back(
              bits_of(normalised(column.numbers[r], features.mean[at], features.deviation[at])));
        else
          for (std::int64_t word = 0; word < std::ssize(column.words); ++word)
            values.push_back(bits_of(word == column.classes[r] ? 1.0f : 0.0f));
      }
      targets.push_back(target.has_words() ? target.classes[r]
                                           : bits_of(normalised(target.numbers[r], answer.mean[0],
                                                                answer.deviation[0])));
    }
    return std::make_shared<const RowSource>(cells.file, std::vector<Field>{features, answer},
                                             "feature", std::move(values), std::move(targets));
  };
  return {part(train), part(test)};
}

TableParts open_table(const std::string& path, const TableOptions& options, double held_out,
                      const std::string& data_dir) {
  return parts_of(read_cells(find_own_file(*own_file(kTableData), path, data_dir)), options,
                  held_out);
}

RowSource rows_to_predict(const Cells& cells, const std::vector<Field>& fields) {
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
  std::vector<std::int32_t> values;
  for (std::int64_t r = 0; r < cells.rows(); ++r) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const Feature& own = plan[i];
      if (features->deviation[i] != 0) {
        values.push_back(bits_of(normalised(number_at(cells, r, own.column), features->mean[i],
                                            features->deviation[i])));
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
      values.push_back(bits_of(cells.at(r, own.column) == own.word ? 1.0f : 0.0f));
    }
  }
  return {cells.file, {*features}, "feature", std::move(values), {}};
}

}  // namespace podium
