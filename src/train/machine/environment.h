// Where a run was computed: environment.json. Results do not depend on it. It explains speeds, and
// helps to find the cause if two runs ever differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/task_words.h"
#include "train/machine/price.h"

namespace podium {

struct Environment {
  std::string date;  // UTC, "2026-03-01T12:00:00Z"
  std::string hostname;
  std::vector<std::string> command_line;
  std::string podium_version, git_commit;  // "unknown" where the build did not know
  std::string compiler, os, kernel;
  std::string cpu;            // make and model
  std::string vector_target;  // what the kernels run on: "avx512", ...
  int cores = 0;              // of the machine
  int usable_cores = 0;       // of these, what this process may run on
  std::int64_t memory_bytes = 0;
  std::int64_t memory_limit_bytes = 0;  // the container's; 0 without one
  // The placement, and what was computed on, as the run describes them; empty where unknown.
  std::string backend;
  std::string kind;  // results of one kind are equal to the bit: "exact fp32", "cuda bf16", ...
  int workers = 0, threads = 0, input_threads = 0, ranks = 1;
  std::string training_data, evaluation_data;
  TaskWords words;
  std::vector<std::string> notes;  // about the data
  std::optional<ChosenPrice> price;
  struct Plugin {
    std::string path, sha256;
  };
  std::vector<Plugin> plugins;  // that were loaded
};

// Now, in UTC: "2026-03-01T12:00:00Z".
std::string utc_date();

Environment collect_environment(std::vector<std::string> command_line, std::string vector_target,
                                int workers);

// The cost of a start of a run. It is known if the program ended normally, stopped or not.
struct StartOutcome {
  std::int64_t to_step = 0;
  double seconds = 0;  // of all, from the command on
  double start_seconds = 0, train_seconds = 0, eval_seconds = 0;
  double input_wait_percent = 0;  // of the steps' time
  // Of rank 0. The planned memory is that of the run's plan and of the program itself
  // (train/run/rank_plan.h).
  std::int64_t peak_memory_bytes = 0, planned_memory_bytes = 0;
  std::optional<double>
      joules;                  // of the machine, including other programs (train/machine/energy.h)
  std::string joules_of = {};  // of what: "processors (RAPL)"; empty: nothing is reported
};

// Adds one entry to RUN/environment.json: {"starts": [{"from_step": ..., "date": ..., ...}]}. A run
// that was resumed has several. A file that cannot be read is replaced.
void record_environment(const std::filesystem::path& run_dir, const Environment& environment,
                        std::int64_t from_step);

// Adds the outcome to the last entry. Does nothing where there is none.
void record_outcome(const std::filesystem::path& run_dir, const StartOutcome& outcome);

// The memory that this process may use: the machine's, or less if its container has less.
std::int64_t usable_memory_bytes();

// The peak memory of this process so far.
std::int64_t peak_memory_bytes();
// What it holds now, with its libraries as far as they are in use, and with all of the program's
// file: the rest of that comes into memory when it is first used.
std::int64_t resident_memory_bytes();
// For tests, whose own memory comes and goes: what resident_memory_bytes() returns from now on; 0:
// what the process holds.
void state_resident_memory(std::int64_t bytes);

// Gives what was freed back to the system, where the allocator keeps it for later use.
void return_free_memory();

}  // namespace podium
