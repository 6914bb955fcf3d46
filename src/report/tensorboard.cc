#include "report/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "data/record_file.h"
#include "report/event.pb.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::chrono::milliseconds kFlushInterval{1000};

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

void append_event(std::string& buffer, const events::Event& event) {
  append_record(buffer, event.SerializeAsString());
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& dir, std::int64_t from_step) {
  make_folders(dir);
  const std::optional<std::int64_t> latest = latest_file(dir);
  const double now = wall_clock();
  // TensorBoard reads files in the order of their names; this one must come last, even if the run
  // was resumed within a second or the clock was set back.
  std::int64_t seconds = static_cast<std::int64_t>(now);
  if (latest) seconds = std::max(seconds, *latest + 1);
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  std::string digits = std::to_string(seconds);
  if (digits.size() < 10) digits.insert(0, 10 - digits.size(), '0');
  file_ = OutputFile(dir / cat(kPrefix, digits, ".", host.data()), OutputFile::Mode::kReplace);

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
  append_event(buffer_, event);
  if (std::chrono::steady_clock::now() - flushed_ >= kFlushInterval) flush();
}

void TensorBoardWriter::scalar(std::string_view tag, std::int64_t step, double value,
                               double wall_time) {
  const ScalarValue one = {tag, value};
  write(step, std::span(&one, 1), wall_time);
}

void TensorBoardWriter::scalar(std::string_view tag, std::int64_t step, double value) {
  scalar(tag, step, value, wall_clock());
}

void TensorBoardWriter::scalars(std::int64_t step, std::span<const ScalarValue> values) {
  write(step, values, wall_clock());
}

void TensorBoardWriter::flush() {
  flushed_ = std::chrono::steady_clock::now();
  // Dropped even if writing fails: a second try would tear a record.
  const std::string text = std::exchange(buffer_, {});
  if (!text.empty()) file_.write(text);
}

}  // namespace podium
