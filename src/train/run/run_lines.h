// Parses the lines of a run's hashes.jsonl and metrics.jsonl. All readers use it;
// train/run/run_folder.h writes the files.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace podium {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// {"step": N, "hash": "..."}: of the parameters after a step, sixteen hexadecimal digits.
struct HashLine {
  std::int64_t step = 0;
  std::uint64_t hash = 0;
};

// {"step": N, "loss": ..., "accuracy": ..., ..., "tokens_per_second": ...}: of training. `metric`
// is the first value that is none of those that every line has; the rate is what ends in
// "s_per_second" and is not of steps; a step may have more items than examples. NaN if the file has
// null, for values that are missing, and for those that older Podiums did not write: `seconds`
// since the command that wrote the line began.
struct TrainingPoint {
  std::int64_t step = 0;
  double loss = 0, metric = kNoValue, items_per_second = 0;
  double steps_per_second = kNoValue;
  double input_wait_percent = kNoValue, seconds = kNoValue;
};
// {"step": N, "test_accuracy": ..., "test_loss": ..., ...}: of the held-out set. `metric` is
// the first value of the test that is not its loss; NaN as above.
struct TestPoint {
  std::int64_t step = 0;
  double metric = kNoValue, loss = 0;
  double bleu = kNoValue;  // of sentences that were translated
};
using MetricsLine = std::variant<TrainingPoint, TestPoint>;

// Nothing if the text is not a complete line of that form. `line` has no newline.
std::optional<HashLine> parse_hash_line(std::string_view line);
std::optional<MetricsLine> parse_metrics_line(std::string_view line);

// What the values of a line are called.
struct LineNames {
  std::string metric;  // "accuracy"; empty: the line has none
  std::string unit;    // of a training line's rate: "token"
};
// Nothing if the text is not a complete line.
std::optional<LineNames> names_of_metrics_line(std::string_view line);

}  // namespace podium
