// G2 from outside: a run of the real program, killed with SIGKILL again and again at random moments
// and resumed each time under another placement, ends with the hashes of the undisturbed run. How
// many kills: PODIUM_KILLS in the environment, 12 otherwise; PODIUM_KILL_SEED draws other moments.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <system_error>

#include "base/clock.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Of `"name": value` in a line of JSON; empty where there is no such name.
std::string field(const std::string& line, const std::string& name) {
  const std::string key = "\"" + name + "\": ";
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

// metrics.jsonl without times: of each line its step and what the recipe decides, which must be
// what it is in the undisturbed run, each step once.
std::vector<std::string> decided_metrics(const std::string& metrics) {
  std::vector<std::string> decided;
  for (const std::string& line : lines_of(metrics)) {
    std::string kept;
    for (const char* name : {"step", "loss", "accuracy", "learning_rate", "test_accuracy",
                             "test_loss", "test_correct", "test_examples"})
      kept += field(line, name) + " ";
    decided.push_back(kept);
  }
  return decided;
}

// The first line that differs says more than two files.
void expect_same_lines(const std::vector<std::string>& actual,
                       const std::vector<std::string>& expected, const std::string& what) {
  const std::size_t most = std::max(actual.size(), expected.size());
  for (std::size_t i = 0; i < most; ++i) {
    const std::string found = i < actual.size() ? actual[i] : "nothing",
                      wanted = i < expected.size() ? expected[i] : "nothing";
    ASSERT_EQ(found, wanted) << "line " << i + 1 << " of " << what;
  }
}

enum class Moment { kAnyTime, kStart, kCheckpoint };

class Kill : public CommandLine {
 protected:
  static constexpr double kLongestRun = 120;  // seconds; a run takes about one

  // 8 replicas, 90 steps, a checkpoint every 3; drawn digits, so that no file is needed.
  std::vector<std::string> train(const std::string& out, std::int64_t workers, int threads) const {
    return {"train",
            "glyphs",
            "train_examples=480",
            "test_examples=64",
            "batch=16",
            "replicas=8",
            "epochs=3",
            "run.checkpoint_every_steps=3",
            "run.log_every_steps=4",
            "--quiet",
            "--json",
            "--workers",
            std::to_string(workers),
            "--threads",
            std::to_string(threads),
            "--out",
            out};
  }

  // Whether a checkpoint is being written, or a killed process left one half written.
  bool is_writing(const std::string& out) const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path(out) / "checkpoints", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(".writing-") || name.starts_with(".removing-")) return true;
    }
    return false;
  }

  static bool has_ended(pid_t process) {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  }

  // Waits for its end, and kills it where that takes too long.
  Outcome finish(pid_t process) const {
    const auto start = Clock::now();
    while (!has_ended(process) && seconds_since(start) < kLongestRun) usleep(2000);
    if (!has_ended(process)) {
      ADD_FAILURE() << "the run did not end within " << kLongestRun << " s";
      kill(process, SIGKILL);
    }
    return wait_for(process);
  }

  // Sleeps, but not past the process's end.
  static void wait_while_running(pid_t process, microseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end && !has_ended(process)) {
      const auto left = std::chrono::duration_cast<microseconds>(end - Clock::now()).count();
      usleep(static_cast<useconds_t>(std::clamp<long long>(left, 1, 2000)));
    }
  }

  std::mt19937_64 random_{
      static_cast<std::uint64_t>(number_from("PODIUM_KILL_SEED", 1))};  // the same on any machine
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
};

TEST_F(Kill, resumed_under_any_placement_a_run_ends_as_if_undisturbed) {
  const int wanted = number_from("PODIUM_KILLS", 12);
  const auto start = Clock::now();
  const Outcome undisturbed = finish(this->start(train("undisturbed", 2, 1)));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.err;
  const std::string hashes = read("undisturbed/hashes.jsonl");
  const std::vector<std::string> metrics = decided_metrics(read("undisturbed/metrics.jsonl"));
  ASSERT_EQ(lines_of(hashes).size(), 90u);
  // Moments follow this machine's speed; as many come within the first half of such a run as after.
  const auto whole = std::chrono::duration_cast<microseconds>(Clock::now() - start).count();

  const std::vector<std::int64_t> worker_counts = {1, 2, 3, 5, 8, 4, 7};
  int kills = 0, torn = 0, lives = 0, resumed = 0;
  std::map<Moment, int> by_moment;
  for (int attempt = 0; kills < wanted; ++lives) {
    const std::string out = "life" + std::to_string(lives);
    std::vector<std::string> history;  // of this life, for a failure's message
    Outcome last;
    while (true) {
      ASSERT_LT(attempt, 10 * wanted + 100) << "most processes end before they are killed";
      const std::int64_t workers =
          worker_counts[static_cast<std::size_t>(attempt) % worker_counts.size()];
      const int threads = below(4) == 0 ? 2 : 1;
      const auto moment = static_cast<Moment>(attempt % 3);
      ++attempt;
      resumed += fs::exists(path(out) / "checkpoints") ? 1 : 0;
      const pid_t process = this->start(train(out, workers, threads));
      history.push_back(std::to_string(workers) + "x" + std::to_string(threads));
      if (kills < wanted) {
        if (moment == Moment::kAnyTime) {
          wait_while_running(process, microseconds(below(whole)));
        } else if (moment == Moment::kStart) {
          wait_while_running(process, microseconds(below(whole / 8 + 1)));
        } else {
          // The first to fourth checkpoint that it begins to write, and up to 3 ms into it.
          const auto waited = Clock::now();
          for (std::int64_t nth = below(4); nth >= 0; --nth) {
            while (is_writing(out) && !has_ended(process) && seconds_since(waited) < kLongestRun)
              usleep(100);
            while (!is_writing(out) && !has_ended(process) && seconds_since(waited) < kLongestRun)
              usleep(100);
          }
          wait_while_running(process, microseconds(below(3000)));
        }
        kill(process, SIGKILL);
      }
      last = finish(process);
      if (last.code != 128 + SIGKILL) break;
      ++kills, ++by_moment[moment];
      torn += moment == Moment::kCheckpoint && is_writing(out) ? 1 : 0;
      history.back() += " killed";
    }
    std::string text;
    for (const std::string& placement : history) text += placement + ", ";
    ASSERT_EQ(last.code, 0) << last.err << text;
    // The parameter hash of the command's result is that of the last line.
    ASSERT_NO_FATAL_FAILURE(expect_same_lines(lines_of(read(out + "/hashes.jsonl")),
                                              lines_of(hashes), "hashes.jsonl: " + text));
    ASSERT_EQ(read(out + "/hashes.jsonl"), hashes);
    EXPECT_NE(last.out.find(field(lines_of(hashes).back(), "hash")), std::string::npos) << last.out;
    expect_same_lines(decided_metrics(read(out + "/metrics.jsonl")), metrics,
                      "metrics.jsonl: " + text);
  }
  std::printf(
      "%d kills in %d runs of 90 steps: %d at any time, %d at the start, %d at a "
      "checkpoint; %d left one half written, %d starts resumed; %.1f s\n",
      kills, lives, by_moment[Moment::kAnyTime], by_moment[Moment::kStart],
      by_moment[Moment::kCheckpoint], torn, resumed, seconds_since(start));
  EXPECT_GE(kills, wanted);
  EXPECT_GE(torn, wanted / 30);
  EXPECT_GE(by_moment[Moment::kCheckpoint], wanted / 10);
}

TEST_F(Kill, a_finished_run_started_again_adds_no_line) {
  ASSERT_EQ(finish(start(train("run", 3, 1))).code, 0);
  const std::string hashes = read("run/hashes.jsonl"), metrics = read("run/metrics.jsonl");
  ASSERT_EQ(finish(start(train("run", 2, 1))).code, 0);
  EXPECT_EQ(read("run/hashes.jsonl"), hashes);
  EXPECT_EQ(read("run/metrics.jsonl"), metrics);
}

}  // namespace
}  // namespace podium::test
