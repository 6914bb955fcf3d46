// Programs under mpirun, for tests: what they say, how they end, how long that takes, and what they
// leave behind.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/scratch_test_util.h"

#ifndef PODIUM_MPIRUN
#define PODIUM_MPIRUN ""
#endif

namespace podium::test {

inline constexpr double kTimeout = 4;  // of ranks, in seconds
inline constexpr double kMore = 5;     // within which a run ends after that

struct Outcome {
  int code = -1;
  std::string out;  // and stderr
  double seconds = 0;
  int left = 0;  // processes
};

using Environment = std::map<std::string, std::string>;

class MpirunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(PODIUM_MPIRUN).empty()) GTEST_SKIP() << "this build has no MPI";
  }

  // Starts a program, words[0], under mpirun, or alone for 0 ranks.
  pid_t start_program(int ranks, const std::vector<std::string>& words,
                      const Environment& more = {}) {
    // Marks the processes of this run, also those that nobody is the parent of any more.
    mark_ = "PODIUM_TEST_MARK=" + std::to_string(getpid()) + "-" + std::to_string(++runs_);
    std::vector<std::string> all;
    if (ranks > 0) all = {PODIUM_MPIRUN, "-n", std::to_string(ranks)};
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
    for (int i = 0; i < 40 && !marked().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    outcome.left = static_cast<int>(marked().size());
    for (const pid_t left : marked()) kill(left, SIGKILL);
    outcome.out = file_text(folder_ / "out");
    return outcome;
  }

  Outcome run_program(int ranks, const std::vector<std::string>& words,
                      const Environment& more = {}) {
    return wait_for(start_program(ranks, words, more));
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

  TestFolder folder_;

 private:
  std::string mark_;
  int runs_ = 0;
  Clock::time_point started_;
};

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace podium::test
