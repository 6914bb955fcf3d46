// Runs beside a server of MLflow's kind (mlflow_test_server.py), which has chosen faults.
#include "report/trackers/mlflow.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "base/numerics/hash.h"
#include "files/test_files.h"
#include "files/test_server.h"
#include "report/trackers/small_run_test_util.h"

namespace podium {
namespace {

using nlohmann::json;
using test_files::ScopedEnvironment;

constexpr HttpPatience kQuick = {.deadline_seconds = 0.3,
                                 .first_pause_seconds = 0.01,
                                 .longest_pause_seconds = 0.05,
                                 .silent_seconds = 1,
                                 .connect_seconds = 1};
constexpr MlflowPatience kQuickTracker = {.start = kQuick, .run = kQuick, .pause_seconds = 0.02};

class Mlflow : public testing::Test {
 protected:
  void SetUp() override {
    if (server_.port() == 0) GTEST_SKIP() << "needs python3";
    set_log_sink([this](LogLevel, const std::string& line) { warnings_ += line + "\n"; });
  }
  void TearDown() override { set_log_sink({}); }

  std::string address() const { return cat("http://127.0.0.1:", server_.port()); }
  std::string ask(const std::string& path) {
    Http http(kQuick);
    return http
        .send("the server",
              [&] {
                return HttpRequest{.method = path == "/_state" ? "GET" : "POST",
                                   .url = address() + path};
              })
        .body;
  }
  json state() { return json::parse(ask("/_state")); }
  void fault(const std::string& kind, int count) {
    ask(cat("/_fault?kind=", kind, "&count=", count));
  }
  RunResult train(const Recipe& recipe = small_run_recipe()) {
    RunOptions options = small_run_options(folder_);
    options.stop_request = &stop_request_;
    MlflowTracker tracker(address() + "/", options.out, kQuickTracker);
    Observers both{&notes_, &tracker};
    const RunResult result = run(recipe, find_model(recipe.model).build, options, both);
    tracker.finish(result);
    return result;
  }
  // What the constructor says.
  std::string refusal(const std::string& address, ExitCode code) {
    try {
      const MlflowTracker tracker(address, folder_ / "run", kQuickTracker);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "";
  }
  // Whether the one run has all points of the curves that run() told, and no others.
  void expect_all_points() {
    const json all = state();
    ASSERT_EQ(all["runs"].size(), 1U);
    std::map<std::string, std::map<std::int64_t, double>> points;
    for (const json& point : all["runs"]["run0"]["points"]) points[point[0]][point[1]] = point[2];
    EXPECT_EQ(points["train/loss"], notes_.losses);
    EXPECT_EQ(points["test/accuracy"], notes_.accuracies);
    EXPECT_EQ(points["speed/images_per_second"].size(), notes_.losses.size());
  }

  TestFolder folder_;
  test_files::Server server_{"src/report/trackers/mlflow_test_server.py"};
  ScopedEnvironment user_{"MLFLOW_TRACKING_USERNAME", ""};
  ScopedEnvironment token_{"MLFLOW_TRACKING_TOKEN", ""};
  ScopedEnvironment experiment_{"MLFLOW_EXPERIMENT_NAME", ""};
  CurveNotes notes_;
  std::atomic<int> stop_request_{0};
  std::string warnings_;
};

TEST_F(Mlflow, has_a_runs_settings_curves_and_end) {
  const RunResult result = train();
  expect_all_points();
  const json all = state(), run = all["runs"]["run0"];
  EXPECT_EQ(all["experiments"], (json{{"podium", "1"}}));
  EXPECT_EQ(run["name"], "run");
  EXPECT_EQ(run["status"], "FINISHED");
  EXPECT_EQ(run["params"]["batch"], "16");
  EXPECT_EQ(run["params"]["model"], "mnist");
  EXPECT_EQ(run["params"].size(), deciding_values(small_run_recipe()).size());
  EXPECT_EQ(run["tags"]["podium.kind"], "exact fp32");
  EXPECT_EQ(run["tags"]["podium.parameter_hash"], hash_text(result.parameter_hash));
  EXPECT_EQ(warnings_, "");
}

TEST_F(Mlflow, has_a_resumed_run_as_one) {
  const ScopedEnvironment experiment("MLFLOW_EXPERIMENT_NAME", "digits & more");
  notes_.after_first = [&] { stop_request_ = 1; };
  EXPECT_TRUE(train().stopped);
  EXPECT_EQ(state()["runs"]["run0"]["status"], "KILLED");
  stop_request_ = 0;
  train();
  expect_all_points();
  EXPECT_EQ(state()["runs"]["run0"]["status"], "FINISHED");
  EXPECT_EQ(state()["experiments"], (json{{"digits & more", "1"}}));
  train();  // nothing is left to do
  EXPECT_EQ(state()["runs"].size(), 1U);
}

// As after an audit.
TEST_F(Mlflow, has_a_run_that_starts_again_within_a_command_as_one) {
  class Twice : public Observers {
   public:
    using Observers::Observers;
    void started(const Trainer& trainer, std::int64_t first, std::int64_t last) override {
      for (int i = 0; i < 2; ++i) Observers::started(trainer, first, last);
    }
  };
  const Recipe recipe = small_run_recipe();
  const RunOptions options = small_run_options(folder_);
  MlflowTracker tracker(address(), options.out, kQuickTracker);
  Twice twice{&notes_, &tracker};
  tracker.finish(run(recipe, find_model(recipe.model).build, options, twice));
  expect_all_points();
}

TEST_F(Mlflow, outlasts_answers_that_are_lost) {
  fault("lost", 1);
  notes_.after_first = [&] { fault("lost", 2); };
  train();
  expect_all_points();
}

// A server that is away for a time has everything in the end.
TEST_F(Mlflow, gets_later_what_it_did_not_take) {
  notes_.after_first = [&] { fault("500", 12); };
  train();
  expect_all_points();
  EXPECT_EQ(state()["runs"]["run0"]["status"], "FINISHED");
  EXPECT_NE(warnings_.find("the curves do not reach MLflow for now, and are sent later: "),
            std::string::npos)
      << warnings_;
}

TEST_F(Mlflow, does_not_change_a_run_when_it_goes_away) {
  const std::uint64_t expected = train().parameter_hash;
  std::filesystem::remove_all(folder_ / "run");
  warnings_.clear();
  notes_.after_first = [&] { fault("500", 1'000'000); };
  EXPECT_EQ(train().parameter_hash, expected);
  EXPECT_NE(warnings_.find("MLflow does not have the end of the run: "), std::string::npos)
      << warnings_;
  EXPECT_NE(warnings_.find("are in RUN/metrics.jsonl alone"), std::string::npos) << warnings_;
}

TEST_F(Mlflow, is_told_of_a_run_that_fails) {
  Recipe recipe = small_run_recipe();
  recipe.optimizer.learning_rate = 1e30f;
  EXPECT_THROW(train(recipe), UserError);
  EXPECT_EQ(state()["runs"]["run0"]["status"], "FAILED");
}

TEST_F(Mlflow, says_what_is_wrong_before_the_run) {
  EXPECT_NE(refusal("localhost:5000", ExitCode::kUsage).find("begins with http:// or https://"),
            std::string::npos);
  EXPECT_NE(refusal("http://127.0.0.1:1", ExitCode::kData).find("MLflow at http://127.0.0.1:1"),
            std::string::npos);
  EXPECT_NE(refusal(address() + "/other", ExitCode::kData).find("answers with status 404"),
            std::string::npos);
  fault("page", 1);
  EXPECT_NE(refusal(address(), ExitCode::kData).find("is it the address of a tracking server?"),
            std::string::npos);
  ask("/_guard");
  EXPECT_NE(refusal(address(), ExitCode::kData).find("$MLFLOW_TRACKING_USERNAME"),
            std::string::npos);
  const ScopedEnvironment user("MLFLOW_TRACKING_USERNAME", "ada"),
      password("MLFLOW_TRACKING_PASSWORD", "secret");
  EXPECT_EQ(refusal(address(), ExitCode::kData), "");
}

}  // namespace
}  // namespace podium
