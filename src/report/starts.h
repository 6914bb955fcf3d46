// Where and how a run was computed, for each start, from its environment.json. Complements
// report/history.h for comparisons. Values that older Podiums did not write are empty, 0 or NaN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/task_words.h"
#include "report/history.h"
#include "train/machine/environment.h"

namespace podium {

struct RunStart {
  std::int64_t from_step = 0;
  std::string date, hostname, cpu, vector_target, kind, backend;
  std::string podium_version, git_commit, compiler;
  std::int64_t workers = 0, threads = 0, input_threads = 0, ranks = 1;
  std::string training_data, evaluation_data;
  std::optional<TaskWords> words;  // nothing: it is from before tasks had words of their own
  std::optional<ChosenPrice> price;
  std::optional<StartOutcome> outcome;  // nothing if the program did not end normally

  // "2 workers", "2 ranks of 1 worker", "1 worker of 4 threads, backend reference".
  std::string placement() const;
};

// What a run's starts record, or else what its lines say.
TaskWords words_of(const std::vector<RunStart>& starts, const Course& course);

// Empty if there is no file. Throws UserError(kData) if record_environment() did not write it.
std::vector<RunStart> read_starts(const std::filesystem::path& run);
// The same from text; `source` names it in errors.
std::vector<RunStart> parse_starts(std::string_view text, const std::string& source);

}  // namespace podium
