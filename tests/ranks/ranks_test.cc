// Ranks that are processes of MPI: what they send arrives, and where one of them fails, the run
// ends in bounded time, says who failed where and why, and leaves no process behind.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/scratch_test_util.h"

#ifndef PODIUM_MPIRUN
#define PODIUM_MPIRUN ""
#endif

namespace podium::test {
namespace {

constexpr double kTimeout = 4;  // of ranks, in seconds
constexpr double kMore = 5;     // within which a run ends after that

struct Outcome {
  int code = -1;
  std::string out;  // and stderr
  double seconds = 0;
  int left = 0;  // processes
};

using Environment = std::map<std::string, std::string>;

class Mpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(PODIUM_MPIRUN).empty()) GTEST_SKIP() << "this build has no MPI";
  }

  // Starts rank_program under mpirun, or alone for 0 ranks.
  pid_t start(int ranks, const std::vector<std::string>& words, const Environment& more = {}) {
    // Marks the processes of this run, also those that nobody is the parent of any more.
    mark_ = "PODIUM_TEST_MARK=" + std::to_string(getpid()) + "-" + std::to_string(++runs_);
    std::vector<std::string> all;
    if (ranks > 0) all = {PODIUM_MPIRUN, "-n", std::to_string(ranks)};
    all.push_back(PODIUM_RANK_PROGRAM);
    std::ostringstream timeout;
    timeout << kTimeout;
    all.push_back(timeout.str());
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    started_ = Clock::now();
    const pid_t process = fork();
    if (process != 0) return process;
    const int file = open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(STDIN_FILENO);
    open("/dev/null", O_RDONLY);
    Environment environment = {
        // Of Open MPI 4 and 5: as root in a container, more ranks than cores.
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
        {"PRTE_MCA_hwloc_default_binding_policy", "none"}};
    for (const auto& [name, value] : more) environment[name] = value;
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const auto equals = mark_.find('=');
    setenv(mark_.substr(0, equals).c_str(), mark_.substr(equals + 1).c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  Outcome wait_for(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.seconds = seconds_since(started_);
    // The launcher may be faster than those whom it has killed.
    for (int i = 0; i < 10 && !marked().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    outcome.left = static_cast<int>(marked().size());
    for (const pid_t left : marked()) kill(left, SIGKILL);
    outcome.out = file_text(folder_ / "out");
    return outcome;
  }

  Outcome run(int ranks, const std::vector<std::string>& words, const Environment& more = {}) {
    return wait_for(start(ranks, words, more));
  }

  bool wait_for_output(const std::string& part) {
    for (int i = 0; i < 1000; ++i) {
      if (file_text(folder_ / "out").find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  // Processes of the last run that still exist.
  std::vector<pid_t> marked() const {
    std::vector<pid_t> found;
    DIR* const folder = opendir("/proc");
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream file("/proc/" + name + "/environ", std::ios::binary);
      std::string variable;
      while (std::getline(file, variable, '\0')) {
        if (variable == mark_) found.push_back(static_cast<pid_t>(std::stoi(name)));
      }
    }
    closedir(folder);
    return found;
  }

 private:
  TestFolder folder_;
  std::string mark_;
  int runs_ = 0;
  Clock::time_point started_;
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// --- what is sent arrives ---

class MpirunOf : public Mpirun, public testing::WithParamInterface<int> {};

TEST_P(MpirunOf, every_byte_arrives_and_all_ranks_leave_together) {
  const int ranks = GetParam();
  const Outcome outcome = run(ranks, {"transport"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
  EXPECT_EQ(count(outcome.out, ": all is well\n"), ranks) << outcome.out;
  EXPECT_EQ(count(outcome.out, " of " + std::to_string(ranks) + ": "), ranks) << outcome.out;
}

TEST_P(MpirunOf, the_sums_over_replicas_have_the_bits_of_the_tree) {
  for (const char* replicas : {"1", "7", "8"}) {
    const Outcome outcome = run(GetParam(), {"exchange", replicas});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_EQ(count(outcome.out, ": all is well\n"), GetParam()) << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpirunOf, testing::Values(1, 2, 3, 4));

TEST_F(Mpirun, is_not_needed_by_a_run_of_one_rank) {
  const Outcome outcome = run(0, {"transport"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(count(outcome.out, "rank 0 on host local of 1: "), 1) << outcome.out;
}

// --- failure ---

struct Failure {
  const char* how;
  std::string cause;
  bool at_once = true;  // without waiting for the timeout
};

class Fails : public Mpirun, public testing::WithParamInterface<Failure> {};

TEST_P(Fails, and_the_run_ends_in_time_with_rank_host_step_and_cause_and_leaves_nothing) {
  const Failure& failure = GetParam();
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  for (const int who : {0, 2}) {
    const Outcome outcome = run(3, {"fail", failure.how, std::to_string(who)});
    EXPECT_NE(outcome.code, 0);
    EXPECT_LT(outcome.seconds, (failure.at_once ? 0 : kTimeout) + kMore) << outcome.out;
    EXPECT_EQ(outcome.left, 0) << outcome.out;
    const std::string who_and_where = "podium: rank " + std::to_string(who) + " on host " + host +
                                      ", step 5 (gradients): " + failure.cause;
    EXPECT_EQ(count(outcome.out, who_and_where), 1) << who_and_where << "\n" << outcome.out;
    EXPECT_EQ(count(outcome.out, "podium: "), 1) << "one line says why:\n" << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rank, Fails,
    testing::Values(Failure{"kill", "it was killed from outside"},
                    Failure{"exit", "it ended with exit code 3, before the others"},
                    Failure{"abort", "it aborted (SIGABRT)"},
                    Failure{"segfault", "a segmentation fault (SIGSEGV) ended it"},
                    Failure{"refuse", "the disk is full"},
                    Failure{"forget", "it ended before the others"},
                    Failure{"stop", "not heard of for 4 s (--rank-timeout) by rank ", false},
                    Failure{"late", "late; rank ", false}),
    [](const auto& of) { return std::string(of.param.how); });

TEST_F(Mpirun, a_rank_that_throws_ends_all_with_its_own_words_and_exit_code) {
  const Outcome outcome = run(3, {"fail", "throw", "1"});
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_EQ(count(outcome.out, "error: no such file\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "podium: "), 0) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

TEST_F(Mpirun, ranks_that_disagree_are_refused_together) {
  const Outcome outcome = run(3, {"fail", "differ", "1"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_GE(count(outcome.out, "error: rank 1 on host "), 1) << outcome.out;
  EXPECT_GE(count(outcome.out, " has another recipe than rank 0 on host "), 1) << outcome.out;
  EXPECT_GE(count(outcome.out, "\"seed = 2\", not \"seed = 1\""), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "podium: "), 0) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

TEST_F(Mpirun, a_rank_that_never_comes_ends_the_others_in_time) {
  const Outcome outcome = run(3, {"fail", "absent", "1"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, kTimeout + kMore) << outcome.out;
  EXPECT_GE(count(outcome.out, "not all ranks have come; the run ends\n"), 1) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

TEST_F(Mpirun, that_is_killed_itself_leaves_no_rank_behind) {
  const pid_t launcher = start(3, {"fail", "run", "-1"});
  ASSERT_TRUE(wait_for_output("the steps have begun"));
  const auto killed = Clock::now();
  kill(launcher, SIGKILL);
  int status = 0;
  waitpid(launcher, &status, 0);
  while (!marked().empty() && seconds_since(killed) < kTimeout + kMore)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::vector<pid_t> left = marked();
  EXPECT_TRUE(left.empty()) << left.size();
  for (const pid_t process : left) kill(process, SIGKILL);
}

// --- the world's size ---

TEST_F(Mpirun, programs_that_find_themselves_alone_are_refused) {
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const Outcome outcome = run(0, {"transport"}, {{variable, "4"}});
    EXPECT_EQ(outcome.code, 2) << variable << "\n" << outcome.out;
    EXPECT_NE(outcome.out.find(std::string("error: the launcher started 4 ranks (") + variable +
                               "), but MPI finds 1: "),
              std::string::npos)
        << outcome.out;
  }
}

}  // namespace
}  // namespace podium::test
