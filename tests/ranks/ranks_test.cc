// Ranks that are processes of MPI: what they send arrives, and where one of them fails, the run
// ends in bounded time, says who failed where and why, and leaves no process behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/mpirun_test_util.h"

namespace podium::test {
namespace {

class Mpirun : public MpirunTest {
 protected:
  pid_t start(int ranks, const std::vector<std::string>& words, const Environment& more = {}) {
    std::ostringstream timeout;
    timeout << kTimeout;
    std::vector<std::string> all = {PODIUM_RANK_PROGRAM, timeout.str()};
    all.insert(all.end(), words.begin(), words.end());
    return start_program(ranks, all, more);
  }
  Outcome run(int ranks, const std::vector<std::string>& words, const Environment& more = {}) {
    return wait_for(start(ranks, words, more));
  }
};

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

INSTANTIATE_TEST_SUITE_P(Ranks, MpirunOf, testing::Values(1, 2, 3, 4));

TEST_F(Mpirun, is_not_needed_by_a_run_of_one_rank) {
  const Outcome outcome = run(0, {"transport"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(count(outcome.out, "rank 0 on host local of 1: "), 1) << outcome.out;
}

TEST_F(Mpirun, ranks_go_on_without_one_that_waits_for_their_end) {
  const Outcome outcome = run(3, {"without", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_GT(outcome.seconds, kTimeout);
  EXPECT_EQ(count(outcome.out, ": all is well\n"), 3) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

// --- failure ---

struct Failure {
  const char* how;
  std::string cause;
  bool at_once = true;  // without waiting for the timeout
  friend void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.how; }
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
                    Failure{"stop", "not heard for 4 s (--rank-timeout) by rank ", false},
                    Failure{"late", "late; rank ", false}),
    [](const auto& of) { return std::string(of.param.how); });

TEST_F(Mpirun, a_rank_whose_work_goes_on_is_waited_for) {
  const Outcome outcome = run(3, {"fail", "busy", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_GT(outcome.seconds, 1.5 * kTimeout);
  EXPECT_EQ(count(outcome.out, "podium: "), 0) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

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
  EXPECT_EQ(count(outcome.out, "error: rank 1 on host "), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, " has a different recipe than rank 0 on host "), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\"seed = 2\", not \"seed = 1\""), 1) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

TEST_F(Mpirun, a_rank_that_never_comes_ends_the_others_in_time) {
  const Outcome outcome = run(3, {"fail", "absent", "1"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, kTimeout + kMore) << outcome.out;
  EXPECT_GE(count(outcome.out, "not all ranks have started; the run ends\n"), 1) << outcome.out;
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

TEST_F(Mpirun, that_cannot_start_says_so_and_how_to_start_it) {
  // A component that there is none of.
  const Outcome outcome =
      run(0, {"transport"}, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_btl", "nope"}});
  if (outcome.out.find("Component: nope") == std::string::npos) GTEST_SKIP() << "another MPI";
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(count(outcome.out, "podium: "), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "MPI did not start: "), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "srun --mpi=pmix"), 1) << outcome.out;
}

}  // namespace
}  // namespace podium::test
