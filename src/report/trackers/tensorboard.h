// Scalars, histograms, pictures, texts and hyperparameters for TensorBoard: `tensorboard --logdir
// RUN/tensorboard`, or a folder of several runs. One file for each start of the run,
// events.out.tfevents.SECONDS.HOST; a resumed run's curves continue without duplicate points.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "files/file_io.h"

namespace podium {

namespace events {
class Event;
}

// One value of a step.
struct ScalarValue {
  std::string_view tag;
  double value = 0;  // kept as FP32
};

// A hyperparameter, for the page that compares those of several runs.
using Hyperparameter = std::pair<std::string, std::variant<bool, double, std::string>>;

// Writes what TensorBoard shows of one start of a run.
class TensorBoardWriter {
 public:
  // Creates the folder and a new file in it. The file tells readers to drop points of earlier files
  // after `from_step`, the step from which the run resumes. Throws UserError(kData) if the folder
  // cannot be written.
  explicit TensorBoardWriter(const std::filesystem::path& dir, std::int64_t from_step = 0);
  ~TensorBoardWriter();  // flushes; errors are only logged, so call flush() if they matter
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // `wall_time` in seconds since 1970. Buffered; written about every second and by flush().
  void scalar(std::string_view tag, std::int64_t step, double value, double wall_time);
  void scalar(std::string_view tag, std::int64_t step, double value);  // now
  // Several values of one step in one record, with the current time.
  void scalars(std::int64_t step, std::span<const ScalarValue> values);
  void scalars(std::int64_t step, std::initializer_list<ScalarValue> values) {
    scalars(step, std::span(values.begin(), values.size()));
  }

  // How often values occur, in buckets whose limits grow by a tenth. Values that are not finite are
  // left out; without any other, nothing is written.
  void histogram(const std::string& tag, std::int64_t step, std::span<const float> values);
  // A picture, as the bytes of a PNG file.
  void picture(const std::string& tag, std::int64_t step, std::span<const std::uint8_t> png,
               std::int64_t height, std::int64_t width);
  // Markdown.
  void text(const std::string& tag, std::int64_t step, const std::string& markdown);

  // The hyperparameters of the run. TensorBoard takes the first of a run's files, so a later start
  // with the same values changes nothing. No `experiment` is written: of several it takes any one,
  // and would hide the values that this one does not list; without one it finds those of all runs.
  void hyperparameters(const std::vector<Hyperparameter>& values);
  // The run came to its end. For the same reason, only a run that did says so.
  void finished();

  // Passes the buffered records to the system. Call it before a checkpoint becomes visible, so that
  // the curves contain all steps up to it.
  void flush();
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write(std::int64_t step, std::span<const ScalarValue> values, double wall_time);
  void append(const events::Event& event);

  OutputFile file_;
  std::string buffer_;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace podium
