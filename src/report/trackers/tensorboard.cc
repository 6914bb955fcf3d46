#include "report/trackers/tensorboard.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "data/storage/record_file.h"
#include "report/trackers/event.pb.h"
#include "report/trackers/wall_clock.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::chrono::milliseconds kFlushInterval{1000};

// The largest time in the names of the folder's event files, where there is any.
std::optional<std::int64_t> latest_file(const fs::path& dir) {
  std::optional<std::int64_t> latest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t seconds = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
    latest = std::max(latest.value_or(0), seconds);
  }
  return latest;
}

events::Event event_at(std::int64_t step) {
  events::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  return event;
}

constexpr int kTensors = 2;  // SummaryMetadata.data_class

// A value that its metadata are all of: its tensor is empty.
events::Event hparams_event(const char* tag, const events::HparamsData& data) {
  constexpr int kFloats = 1;
  events::Event event = event_at(0);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  value.mutable_metadata()->mutable_plugin_data()->set_content(data.SerializeAsString());
  value.mutable_metadata()->set_data_class(kTensors);
  value.mutable_tensor()->set_dtype(kFloats);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
  return event;
}

// Limits of a histogram's buckets, by size: kLeast, and each kGrowth times the one before.
constexpr double kLeast = 1e-12, kGrowth = 1.1;
double limit_of_size(double power) { return kLeast * std::pow(kGrowth, power); }
double power_of_size(double size) { return std::log(size / kLeast) / std::log(kGrowth); }

// Of the bucket that holds the value: the least limit that is not below it.
double bucket_limit(double value) {
  if (value > kLeast) return limit_of_size(std::ceil(power_of_size(value) - 1e-9));
  if (value > -kLeast) return kLeast;
  return -limit_of_size(std::floor(power_of_size(-value) + 1e-9));
}

// Where the bucket with this limit begins.
double bucket_begin(double limit) {
  const double power = std::round(power_of_size(std::abs(limit)));
  if (limit > 0) return power < 0.5 ? -kLeast : limit_of_size(power - 1);
  return -limit_of_size(power + 1);
}

void append_event(std::string& buffer, const events::Event& event) {
  append_record(buffer, event.SerializeAsString());
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& dir, std::int64_t from_step) {
  make_folders(dir);
  const std::optional<std::int64_t> latest = latest_file(dir);
  const double now = wall_seconds();
  // TensorBoard reads files in the order of their names; this one must come last, even if the run
  // was resumed within a second or the clock was set back.
  std::int64_t seconds = static_cast<std::int64_t>(now);
  if (latest) seconds = std::max(seconds, *latest + 1);
  std::string digits = std::to_string(seconds);
  if (digits.size() < 10) digits.insert(0, 10 - digits.size(), '0');
  file_ = OutputFile(dir / cat(kPrefix, digits, ".", host_name()), OutputFile::Mode::kReplace);

  events::Event version;
  version.set_wall_time(now);
  version.set_file_version("brain.Event:2");
  append_event(buffer_, version);
  // In every file: readers take the first START as a beginning and any later one as a restart.
  events::Event start;
  start.set_wall_time(now);
  start.set_step(from_step + 1);
  start.mutable_session_log()->set_status(events::SessionLog::START);
  append_event(buffer_, start);
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, error.what());
  }
}

void TensorBoardWriter::write(std::int64_t step, std::span<const ScalarValue> values,
                              double wall_time) {
  events::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  events::Summary& summary = *event.mutable_summary();
  for (const ScalarValue& scalar : values) {
    events::Summary::Value& value = *summary.add_value();
    value.set_tag(std::string(scalar.tag));
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  append(event);
}

void TensorBoardWriter::append(const events::Event& event) {
  append_event(buffer_, event);
  if (std::chrono::steady_clock::now() - flushed_ >= kFlushInterval) flush();
}

void TensorBoardWriter::histogram(const std::string& tag, std::int64_t step,
                                  std::span<const float> values) {
  events::Event event = event_at(step);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  events::Histogram& histogram = *value.mutable_histo();
  // The buckets around 0, ..., -1.1e-12, -1e-12, 1e-12, 1.1e-12, ...: those up to the last value.
  std::map<double, double> buckets;  // by limit
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0, squares = 0,
         count = 0;
  for (const float one : values) {
    if (!std::isfinite(one)) continue;
    const auto number = static_cast<double>(one);
    low = std::min(low, number), high = std::max(high, number);
    sum += number, squares += number * number, ++count;
    ++buckets[bucket_limit(number)];
  }
  if (count == 0) return;
  histogram.set_min(low), histogram.set_max(high), histogram.set_num(count);
  histogram.set_sum(sum), histogram.set_sum_squares(squares);
  for (const auto& [limit, number] : buckets) {
    // A bucket begins where the one before ends; without these, a gap would belong to the next.
    const double begin = bucket_begin(limit);
    if (histogram.bucket_limit_size() == 0 ||
        histogram.bucket_limit(histogram.bucket_limit_size() - 1) < begin) {
      histogram.add_bucket_limit(begin);
      histogram.add_bucket(0);
    }
    histogram.add_bucket_limit(limit);
    histogram.add_bucket(number);
  }
  append(event);
}

void TensorBoardWriter::picture(const std::string& tag, std::int64_t step,
                                std::span<const std::uint8_t> png, std::int64_t height,
                                std::int64_t width) {
  events::Event event = event_at(step);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  events::Summary::Image& image = *value.mutable_image();
  image.set_height(static_cast<std::int32_t>(height));
  image.set_width(static_cast<std::int32_t>(width));
  image.set_colorspace(3);
  image.set_encoded_image_string(png.data(), png.size());
  append(event);
}

void TensorBoardWriter::text(const std::string& tag, std::int64_t step,
                             const std::string& markdown) {
  constexpr int kStrings = 7;
  events::Event event = event_at(step);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_metadata()->set_data_class(kTensors);
  value.mutable_tensor()->set_dtype(kStrings);
  value.mutable_tensor()->mutable_tensor_shape();
  value.mutable_tensor()->add_string_val(markdown);
  append(event);
}

void TensorBoardWriter::hyperparameters(const std::vector<Hyperparameter>& values) {
  events::HparamsData data;
  events::SessionStart& start = *data.mutable_session_start_info();
  start.set_start_time_secs(wall_seconds());
  for (const auto& [name, value] : values) {
    events::SessionStart::Value& shown = (*start.mutable_hparams())[name];
    if (const auto* yes = std::get_if<bool>(&value)) shown.set_bool_value(*yes);
    if (const auto* number = std::get_if<double>(&value)) shown.set_number_value(*number);
    if (const auto* text = std::get_if<std::string>(&value)) shown.set_string_value(*text);
  }
  append(hparams_event("_hparams_/session_start_info", data));
}

void TensorBoardWriter::finished() {
  events::HparamsData data;
  data.mutable_session_end_info()->set_status(1);
  data.mutable_session_end_info()->set_end_time_secs(wall_seconds());
  append(hparams_event("_hparams_/session_end_info", data));
}

void TensorBoardWriter::scalar(std::string_view tag, std::int64_t step, double value,
                               double wall_time) {
  const ScalarValue one = {tag, value};
  write(step, std::span(&one, 1), wall_time);
}

void TensorBoardWriter::scalar(std::string_view tag, std::int64_t step, double value) {
  scalar(tag, step, value, wall_seconds());
}

void TensorBoardWriter::scalars(std::int64_t step, std::span<const ScalarValue> values) {
  write(step, values, wall_seconds());
}

void TensorBoardWriter::flush() {
  flushed_ = std::chrono::steady_clock::now();
  // Dropped even if writing fails: a second try would tear a record.
  const std::string text = std::exchange(buffer_, {});
  if (!text.empty()) file_.write(text);
}

}  // namespace podium
