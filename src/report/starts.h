// Where and how a run was computed, start by start, as its environment.json tells: the other half
// of report/history.h, for comparisons. What older Podiums did not write is empty, 0 or NaN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/environment.h"

namespace podium {

struct RunStart {
  std::int64_t from_step = 0;
  std::string date, hostname, cpu, vector_target, kind, backend;
  std::string podium_version, git_commit, compiler;
  std::int64_t workers = 0, threads = 0, input_threads = 0, ranks = 1;
  std::string training_data, evaluation_data;
  std::optional<ChosenPrice> price;
  std::optional<StartOutcome> outcome;  // nothing where the program did not come to its end

  // "2 workers", "2 ranks of 1 worker", "1 worker of 4 threads, backend reference".
  std::string placement() const;
};

// Empty where there is no file. UserError (kData) where it is not what record_environment() writes.
std::vector<RunStart> read_starts(const std::filesystem::path& run);
// The same of text; `source` stands in errors.
std::vector<RunStart> parse_starts(std::string_view text, const std::string& source);

}  // namespace podium
