#include "report/trackers/mlflow.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/environment_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numerics/contract.h"
#include "base/numerics/hash.h"
#include "base/version.h"
#include "files/base64.h"
#include "files/file_io.h"
#include "report/trackers/wall_clock.h"
#include "store/address.h"

namespace podium {
namespace {

using nlohmann::json;

// What MLflow takes in one request.
constexpr std::size_t kBatchPoints = 1000, kBatchSettings = 100;
// What waits for a server that is away: more than runs have, of some bytes each.
constexpr std::size_t kMostWaiting = 500'000;

std::string experiment_name() {
  const std::string name = environment_text("MLFLOW_EXPERIMENT_NAME");
  return name.empty() ? "podium" : name;
}

std::string without_slashes_at_the_end(std::string address) {
  while (address.ends_with('/')) address.pop_back();
  return address;
}

// Of a request's header; empty: none.
std::string authorization() {
  const std::string user = environment_text("MLFLOW_TRACKING_USERNAME"),
                    token = environment_text("MLFLOW_TRACKING_TOKEN");
  if (!user.empty()) {
    const std::string both = cat(user, ":", environment_text("MLFLOW_TRACKING_PASSWORD"));
    return "Authorization: Basic " +
           base64({reinterpret_cast<const std::uint8_t*>(both.data()), both.size()});
  }
  return token.empty() ? "" : "Authorization: Bearer " + token;
}

}  // namespace

// Requests to the server, each of JSON, with an answer of JSON.
class MlflowTracker::Server {
 public:
  Server(const std::string& address, const HttpPatience& patience)
      : address_(address), http_(patience) {}

  // Nothing: there is no such thing.
  std::optional<json> ask(const std::string& method, const std::string& path,
                          const json& body = nullptr) {
    const std::string what = cat("MLflow at ", address_),
                      text = body.is_null() ? std::string() : body.dump();
    const HttpAnswer answer = http_.send(what, [&] {
      HttpRequest request{.method = method,
                          .url = cat(address_, "/api/2.0/mlflow/", path),
                          .headers = {"Content-Type: application/json"},
                          .body = text};
      if (const std::string header = authorization(); !header.empty())
        request.headers.push_back(header);
      return request;
    });
    const json read = json::parse(answer.body, nullptr, false);
    const auto word = [&](const char* name) {
      return read.is_object() && read.contains(name) && read[name].is_string()
                 ? read[name].get<std::string>()
                 : std::string();
    };
    if (answer.status == 404 && word("error_code") == "RESOURCE_DOES_NOT_EXIST")
      return std::nullopt;
    PODIUM_REQUIRE(answer.status != 401 && answer.status != 403, ExitCode::kData, what,
                   " refuses (status ", answer.status,
                   "): it wants the user and password of $MLFLOW_TRACKING_USERNAME and "
                   "$MLFLOW_TRACKING_PASSWORD, or $MLFLOW_TRACKING_TOKEN");
    PODIUM_REQUIRE(answer.status == 200, ExitCode::kData, what, " answers with status ",
                   answer.status, " to ", path, word("message").empty() ? "" : ": ",
                   word("message"));
    PODIUM_REQUIRE(read.is_object(), ExitCode::kData, what, ": the answer to ", path,
                   " is not JSON; is it the address of a tracking server?");
    // By itself, `read` could be converted in two ways with nlohmann-json 3.10.
    return std::optional<json>(std::in_place, read);
  }
  // Of what must be there.
  json require(const std::string& path, const json& body) {
    std::optional<json> answer = ask("POST", path, body);
    PODIUM_REQUIRE(answer, ExitCode::kData, "MLflow at ", address_, " has lost what ", path,
                   " concerns");
    return *std::move(answer);
  }
  // The text at a place of an answer.
  std::string text_at(const json& answer, const char* place) const {
    const json::json_pointer pointer(place);
    PODIUM_REQUIRE(answer.contains(pointer) && answer[pointer].is_string(), ExitCode::kData,
                   "MLflow at ", address_, ": an answer lacks ", place);
    return answer[pointer].get<std::string>();
  }

 private:
  const std::string address_;
  Http http_;
};

MlflowTracker::MlflowTracker(const std::string& address, const std::filesystem::path& run_folder,
                             const MlflowPatience& patience)
    : address_(without_slashes_at_the_end(address)),
      folder_(run_folder),
      record_(run_folder / "mlflow.json"),
      patience_(patience) {
  PODIUM_REQUIRE(address_.starts_with("http://") || address_.starts_with("https://"),
                 ExitCode::kUsage, "--mlflow ", address,
                 ": the address of a tracking server begins with http:// or https://");
  Server server(address_, patience_.start);
  const std::string name = experiment_name();
  const std::optional<json> found =
      server.ask("GET", "experiments/get-by-name?experiment_name=" + percent_encoded(name));
  experiment_ = found ? server.text_at(*found, "/experiment/experiment_id")
                      : server.text_at(server.require("experiments/create", {{"name", name}}),
                                       "/experiment_id");
}

MlflowTracker::~MlflowTracker() { end("FAILED", ""); }

void MlflowTracker::started(const Trainer& trainer, std::int64_t first_step,
                            std::int64_t last_step) {
  // A run that goes on after an audit starts again, and is the same one.
  if (first_step >= last_step || thread_.joinable()) return;
  rate_key_ = trainer.words().rate_key();
  Server server(address_, patience_.start);
  const json record = json::parse(read_text(record_).value_or(""), nullptr, false);
  std::string known;
  if (record.is_object() && record.value("address", "") == address_)
    known = record.value("run_id", "");
  if (!known.empty() &&
      server.ask("POST", "runs/update", {{"run_id", known}, {"status", "RUNNING"}})) {
    run_id_ = known;
  } else {
    const auto tag = [](const char* key, const std::string& value) {
      return json{{"key", key}, {"value", value}};
    };
    const json made = server.require(
        "runs/create",
        {{"experiment_id", experiment_},
         {"run_name", run_name_of(folder_)},
         {"start_time", wall_milliseconds().count()},
         {"tags",
          {tag("podium.version", std::string(kVersion)), tag("podium.kind", trainer.kind()),
           tag("podium.contract", cat(numerical_contract(precision_of(trainer.recipe()))))}}});
    run_id_ = server.text_at(made, "/run/info/run_id");
    const auto values = deciding_values(trainer.recipe());
    for (std::size_t i = 0; i < values.size(); i += kBatchSettings) {
      json settings = json::array();
      for (std::size_t k = i; k < std::min(values.size(), i + kBatchSettings); ++k)
        settings.push_back({{"key", values[k].first}, {"value", without_quotes(values[k].second)}});
      server.require("runs/log-batch", {{"run_id", run_id_}, {"params", settings}});
    }
    replace_text(record_, json{{"address", address_}, {"run_id", run_id_}}.dump(1) + "\n");
  }
  thread_ = std::thread([this] { work(); });
}

void MlflowTracker::measured(const RunMetrics& metrics) {
  add(metrics.step, scalars_of(metrics, rate_key_));
}

void MlflowTracker::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  add(result.step, scalars_of(trainer, result));
}

void MlflowTracker::add(std::int64_t step, const std::vector<NamedScalar>& scalars) {
  if (!thread_.joinable()) return;
  const std::scoped_lock lock(mutex_);
  const std::int64_t now = wall_milliseconds().count();
  for (const NamedScalar& one : scalars)
    if (std::isfinite(one.value)) points_.push_back({one.name, one.value, step, now});
  for (; points_.size() > kMostWaiting; ++forgotten_) points_.pop_front();
  changed_.notify_one();
}

std::vector<MlflowTracker::Point> MlflowTracker::take_points() {
  const auto end =
      points_.begin() + static_cast<std::ptrdiff_t>(std::min(points_.size(), kBatchPoints));
  std::vector<Point> points(points_.begin(), end);
  points_.erase(points_.begin(), end);
  return points;
}

void MlflowTracker::send_points(Server& server, const std::vector<Point>& points) const {
  json metrics = json::array();
  for (const Point& point : points)
    metrics.push_back({{"key", point.name},
                       {"value", point.value},
                       {"step", point.step},
                       {"timestamp", point.milliseconds}});
  server.require("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}});
}

// Sends what comes, until the run ends. What remains then is sent by end().
void MlflowTracker::work() {
  Server server(address_, patience_.run);
  bool has_failed = false;
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (points_.empty()) {
      changed_.wait(lock);
      continue;
    }
    std::vector<Point> points = take_points();
    lock.unlock();
    try {
      send_points(server, points);
      points.clear();
      if (std::exchange(has_failed, false)) log(LogLevel::kInfo, "MLflow has the curves again");
    } catch (const std::exception& error) {
      if (!std::exchange(has_failed, true))
        log(LogLevel::kWarning,
            cat("the curves do not reach MLflow for now, and are sent later: ", error.what()));
    }
    lock.lock();
    points_.insert(points_.begin(), points.begin(), points.end());
    if (has_failed)
      changed_.wait_for(lock, std::chrono::duration<double>(patience_.pause_seconds),
                        [&] { return ends_; });
  }
}

void MlflowTracker::finish(const RunResult& result) {
  end(result.stopped ? "KILLED" : "FINISHED", hash_text(result.parameter_hash));
}

void MlflowTracker::end(const std::string& status, const std::string& parameter_hash) {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
  std::vector<Point> points;
  try {
    Server server(address_, patience_.run);
    while (!points_.empty()) {
      points = take_points();
      send_points(server, points);
      points.clear();
    }
    if (!parameter_hash.empty())
      server.require(
          "runs/set-tag",
          {{"run_id", run_id_}, {"key", "podium.parameter_hash"}, {"value", parameter_hash}});
    server.require(
        "runs/update",
        {{"run_id", run_id_}, {"status", status}, {"end_time", wall_milliseconds().count()}});
  } catch (const std::exception& error) {
    log(LogLevel::kWarning,
        cat("MLflow does not have the end of the run: ", error.what(), "; ",
            points.size() + points_.size(), " values are in RUN/metrics.jsonl alone"));
  }
  if (forgotten_ > 0)
    log(LogLevel::kWarning,
        cat("MLflow lacks ", forgotten_, " values, which waited for too long; RUN/metrics.jsonl ",
            "has them"));
  points_.clear();
}

}  // namespace podium
