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

// {"step": N, "loss": ..., "accuracy": ..., ...}: of training. NaN if the file has null, and for
// values that older Podiums did not write: `seconds` since the command that wrote the line began.
struct TrainingPoint {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, images_per_second = 0;
  double input_wait_percent = kNoValue, seconds = kNoValue;
};
// {"step": N, "test_accuracy": ..., "test_loss": ..., ...}: of the held-out set.
struct TestPoint {
  std::int64_t step = 0;
  double accuracy = 0, loss = 0;
};
using MetricsLine = std::variant<TrainingPoint, TestPoint>;

// Nothing if the text is not a complete line of that form. `line` has no newline.
std::optional<HashLine> parse_hash_line(std::string_view line);
std::optional<MetricsLine> parse_metrics_line(std::string_view line);

}  // namespace podium
