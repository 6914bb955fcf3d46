// Runs the program as a user does, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"

namespace podium::test {

struct Outcome {
  int code = -1;  // of exit; 128 + signal where one ended it
  std::string out, err;
};

struct RunOptions {
  std::map<std::string, std::string> environment;
  std::uint64_t most_file_bytes = 0;  // larger files cannot be written, as on a full disk; 0: any
  std::uint64_t thread_stack_bytes = 0;  // more than there are, and no thread can be started
  bool ignore_hangup = false;            // SIGHUP is ignored from the start, as under nohup
  bool nobody_reads = false;             // stdout and stderr are pipes whose reader has gone
  bool closed_stdout = false;            // there is none
  std::string stdout_file;  // stdout is this file; empty: one that becomes Outcome::out
};

// A new folder for a test's life, in which its commands run.
class CommandLine : public ::testing::Test {
 protected:
  // Runs `podium WORDS...` to its end.
  Outcome podium(const std::vector<std::string>& words, const RunOptions& options = {}) const;
  // Starts it and returns; wait_for() gives the outcome.
  pid_t start(const std::vector<std::string>& words, const RunOptions& options = {}) const;
  Outcome wait_for(pid_t process) const;
  // Waits until the file of this name holds something (with `part`: this); false when the process
  // ends before.
  bool wait_for_output(pid_t process, const std::string& name, const std::string& part = "") const;
  // The file that a process that was started writes its talk to.
  static std::string talk_of(pid_t process);

  // `train` of a run that takes a moment: drawn digits, 4 replicas, 8 steps an epoch, 2 epochs.
  static std::vector<std::string> train_small(const std::string& out,
                                              const std::vector<std::string>& more = {});

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;

 private:
  TestFolder folder_;
};

// Processor time of the programs that have ended.
double children_seconds();

// That it ended with this code and says all these parts on stderr, and nothing on stdout.
void expect_refusal(const Outcome& outcome, int code, const std::vector<std::string>& parts);

}  // namespace podium::test
