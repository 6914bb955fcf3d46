#include "report/trackers/prometheus.h"

#include <cmath>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "files/file_io.h"
#include "report/trackers/wall_clock.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

// A label's value.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + "\"";
}

// Of a curve's name: letters, digits and underscores.
std::string gauge_name(const std::string& curve) {
  std::string name = "podium_";
  for (const char c : curve) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain ? c : '_';
  }
  return name;
}

}  // namespace

PrometheusFile::PrometheusFile(std::filesystem::path file, const std::filesystem::path& run_folder)
    : file_(std::move(file)), run_(run_name_of(run_folder)) {
  PODIUM_REQUIRE(file_.extension() == ".prom", ExitCode::kUsage, "--prometheus ", file_.string(),
                 ": the textfile collector reads files that end in .prom alone");
  try {
    replace_text(file_, "");
  } catch (const UserError& error) {
    throw UserError(cat("--prometheus: ", error.what()));
  }
}

PrometheusFile::~PrometheusFile() { finish(); }

void PrometheusFile::started(const Trainer& trainer, std::int64_t first_step,
                             std::int64_t last_step) {
  if (first_step >= last_step) return;
  labels_ = cat("{run=", quoted(run_), ",recipe=", quoted(trainer.recipe().name), "}");
  rate_key_ = trainer.words().rate_key();
  is_running_ = true;
  set({{"step", static_cast<double>(first_step)}, {"last_step", static_cast<double>(last_step)}});
}

void PrometheusFile::measured(const RunMetrics& metrics) {
  std::vector<NamedScalar> scalars = scalars_of(metrics, rate_key_);
  scalars.push_back({"step", static_cast<double>(metrics.step)});
  set(scalars);
}

void PrometheusFile::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!is_running_) return;
  std::vector<NamedScalar> scalars = scalars_of(trainer, result);
  scalars.push_back({"step", static_cast<double>(result.step)});
  set(scalars);
}

void PrometheusFile::finish() {
  if (!std::exchange(is_running_, false)) return;
  write();
}

void PrometheusFile::set(const std::vector<NamedScalar>& scalars) {
  for (const NamedScalar& one : scalars) values_[gauge_name(one.name)] = one.value;
  write();
}

void PrometheusFile::write() {
  values_["podium_running"] = is_running_ ? 1 : 0;
  values_["podium_updated_seconds"] = wall_seconds();
  std::string text;
  for (const auto& [name, value] : values_)
    text += cat("# TYPE ", name, " gauge\n", name, labels_, " ",
                std::isnan(value) ? std::string("NaN") : number_text(value), "\n");
  try {
    replace_text(file_, text);
  } catch (const std::exception& error) {
    if (!std::exchange(has_failed_, true))
      log(LogLevel::kWarning, cat("the file for Prometheus is not written: ", error.what()));
  }
}

}  // namespace podium
