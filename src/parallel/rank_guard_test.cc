#include "parallel/rank_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/scratch_test_util.h"

namespace podium {
namespace {

struct Fate {
  int status = 0;  // of waitpid
  std::string said;
  double seconds = 0;
};

// Runs `rank` in a process with a guard, in a process group of its own, until both have ended.
Fate fate_of(const std::function<void(RankGuard&)>& rank, double timeout = 60,
             const std::function<void(pid_t)>& meanwhile = {}, bool kills_at_once = false,
             bool is_started = true) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const auto start = Clock::now();
  const pid_t process = fork();
  if (process == 0) {
    setpgid(0, 0);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    // No core file, and no words of a sanitizer.
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) ::signal(signal, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    RankGuard guard(timeout, kills_at_once, "start it by mpirun");
    if (is_started) guard.watch("rank 2 on host b");
    guard.at(12, "gradients");
    rank(guard);
    guard.expect_end();
    _exit(0);
  }
  close(ends[1]);
  if (meanwhile) meanwhile(process);
  Fate fate;
  char byte = 0;
  // Until nobody has the other end: the guard, too, has ended.
  while (::read(ends[0], &byte, 1) == 1) fate.said += byte;
  close(ends[0]);
  waitpid(process, &fate.status, 0);
  fate.seconds = seconds_since(start);
  return fate;
}

constexpr char kWho[] = "podium: rank 2 on host b, step 12 (gradients): ";

TEST(RankGuard, says_what_signal_ended_the_rank_and_where_it_was) {
  const Fate fate = fate_of([](RankGuard&) { raise(SIGSEGV); });
  EXPECT_TRUE(WIFSIGNALED(fate.status) && WTERMSIG(fate.status) == SIGSEGV);
  EXPECT_EQ(fate.said,
            std::string(kWho) + "a segmentation fault (SIGSEGV) ended it; the run ends\n");
  EXPECT_EQ(fate_of([](RankGuard&) { abort(); }).said,
            std::string(kWho) + "it aborted (SIGABRT); the run ends\n");
}

TEST(RankGuard, says_that_the_rank_exited_with_which_code) {
  const Fate fate = fate_of([](RankGuard&) { exit(3); });
  EXPECT_EQ(WEXITSTATUS(fate.status), 3);
  EXPECT_EQ(fate.said,
            std::string(kWho) + "it ended with exit code 3, before the others; the run ends\n");
}

TEST(RankGuard, says_that_the_rank_was_killed_and_ends) {
  const Fate fate = fate_of([](RankGuard&) { raise(SIGKILL); });
  EXPECT_EQ(fate.said, std::string(kWho) +
                           "it was killed from outside (SIGKILL: by a user, or by the kernel "
                           "because memory ran out); the run ends\n");
  EXPECT_LT(fate.seconds, 2);
}

TEST(RankGuard, says_that_mpi_did_not_start_and_how_to_start_it) {
  // One guard of a launcher speaks for all, and the one before may not be gone yet.
  const auto start_fails = [](const std::function<void(RankGuard&)>& how) {
    std::string said;
    for (int i = 0; i < 50 && said.empty(); ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      said = fate_of(how, 60, {}, false, false).said;
    }
    return said;
  };
  const std::string exits = start_fails([](RankGuard&) { exit(1); }),
                    ends = start_fails([](RankGuard&) { _exit(1); });
  EXPECT_NE(
      exits.find("MPI could not start, for the reason above (exit code 1); start it by mpirun"),
      std::string::npos)
      << exits;
  EXPECT_NE(ends.find("MPI did not start: if it says why above, start it by mpirun"),
            std::string::npos)
      << ends;
}

TEST(RankGuard, names_a_request_to_stop_that_came_before_anybody_heard_it) {
  for (const bool is_started : {false, true}) {
    const Fate fate = fate_of([](RankGuard&) { raise(SIGTERM); }, 60, {}, false, is_started);
    EXPECT_TRUE(WIFSIGNALED(fate.status) && WTERMSIG(fate.status) == SIGTERM);
    EXPECT_NE(fate.said.find("SIGTERM ended it, from outside, before it heard requests to stop"),
              std::string::npos)
        << fate.said;
  }
}

TEST(RankGuard, says_what_was_prepared_where_a_launcher_ends_the_rank) {
  const auto prepared = [](RankGuard& guard) {
    guard.prepare("ranks 4 and 5 on host c, step 11 (gradients): silent", 4);
    ::signal(SIGTERM, SIG_IGN);  // hears the request, and goes on
    for (;;) pause();
  };
  const Fate fate = fate_of(prepared, 60, [](pid_t process) {
    usleep(300'000);
    kill(-process, SIGCONT);
    kill(-process, SIGTERM);
    usleep(400'000);  // by now the guard has left the group
    kill(-process, SIGKILL);
  });
  EXPECT_EQ(fate.said,
            "podium: ranks 4 and 5 on host c, step 11 (gradients): silent; the run ends\n");
}

TEST(RankGuard, says_nothing_of_what_was_prepared_where_the_rank_goes_on) {
  const Fate fate = fate_of(
      [](RankGuard& guard) {
        guard.prepare("ranks 4 and 5 on host c, step 11 (gradients): silent", 4);
        ::signal(SIGTERM, SIG_IGN);
        usleep(800'000);
      },
      60,
      [](pid_t process) {
        usleep(300'000);
        kill(-process, SIGTERM);
      });
  EXPECT_EQ(fate.said, "");
}

TEST(RankGuard, writes_why_the_run_ended_into_the_folder_that_it_was_told_and_no_other) {
  const TestFolder folder;
  std::ofstream(folder / ".lock") << "17\n";
  const auto killed = [&](const std::string& lock) {
    fate_of([&](RankGuard& guard) {
      guard.record_in(folder.path().string(), lock);
      raise(SIGKILL);
    });
    return file_text(folder / "failures.jsonl");
  };
  EXPECT_EQ(killed("18\n"), "");
  const std::string line = killed("17\n");
  EXPECT_NE(line.find("\"step\": 12, \"failure\": \"rank 2 on host b, step 12 (gradients): it was "
                      "killed from outside"),
            std::string::npos)
      << line;
  EXPECT_NE(line.find("\"heard\": 1}\n"), std::string::npos) << line;
}

TEST(RankGuard, is_silent_about_an_end_that_is_expected) {
  EXPECT_EQ(fate_of([](RankGuard&) {}).said, "");
  EXPECT_EQ(fate_of([](RankGuard& guard) {
              guard.expect_end();
              raise(SIGKILL);
            }).said,
            "");
}

TEST(RankGuard, is_silent_where_a_launcher_ended_the_whole_process_group) {
  for (const int signal : {SIGCONT, SIGTERM}) {
    const Fate fate = fate_of([](RankGuard&) { pause(); }, 60,
                              [&](pid_t process) {
                                usleep(200'000);
                                kill(-process, signal);
                                usleep(50'000);
                                kill(process, SIGKILL);
                              });
    EXPECT_EQ(fate.said, "") << signal;
  }
}

TEST(RankGuard, outlives_a_launcher_s_kill_of_the_whole_process_group_and_speaks) {
  const Fate fate = fate_of([](RankGuard&) { pause(); }, 60,
                            [](pid_t process) {
                              usleep(200'000);
                              kill(-process, SIGKILL);
                            },
                            true);
  EXPECT_EQ(fate.said, std::string(kWho) +
                           "it was killed from outside (SIGKILL: by a user, or by the kernel "
                           "because memory ran out); the run ends\n");
}

TEST(RankGuard, ends_a_rank_that_is_stopped_and_whose_communication_stands_still) {
  const double timeout = 1;
  const Fate fate = fate_of(
      [](RankGuard& guard) {
        guard.beat();
        raise(SIGSTOP);
      },
      timeout);
  EXPECT_TRUE(WIFSIGNALED(fate.status) && WTERMSIG(fate.status) == SIGKILL);
  EXPECT_EQ(fate.said, std::string(kWho) +
                           "its communication has made no progress for 4 s: it is stopped or "
                           "hangs, and is killed; the run ends\n");
  EXPECT_GT(fate.seconds, timeout + RankGuard::kGrace);
  EXPECT_LT(fate.seconds, timeout + 5);
}

TEST(RankGuard, leaves_a_rank_alone_that_gives_signs_of_life) {
  const Fate fate = fate_of(
      [](RankGuard& guard) {
        for (int i = 0; i < 50; ++i) {
          guard.beat();
          usleep(100'000);
        }
      },
      0.5);
  EXPECT_EQ(fate.status, 0);
  EXPECT_EQ(fate.said, "");
}

TEST(RankGuard, a_child_of_the_rank_that_exits_is_no_exit_of_the_rank) {
  const Fate fate = fate_of([](RankGuard&) {
    const pid_t child = fork();
    if (child == 0) exit(5);
    waitpid(child, nullptr, 0);
    raise(SIGKILL);
  });
  EXPECT_NE(fate.said.find("killed from outside"), std::string::npos) << fate.said;
}

}  // namespace
}  // namespace podium
