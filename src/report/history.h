// The recorded course of a run: recipe, metrics and hashes, for commands that read the folders of
// earlier runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/recipe/recipe.h"
#include "train/run/run_lines.h"

namespace podium {

struct Course {
  // Of the lines' values; empty: no line has one.
  std::string training_metric, test_metric, item;
  std::vector<TrainingPoint> training;
  std::vector<TestPoint> tests;
};

// Hashes of the parameters, by rising step.
using StepHashes = std::vector<std::pair<std::int64_t, std::uint64_t>>;

// The steps of which both have a hash, up to the first at which these differ.
struct HashComparison {
  std::int64_t compared = 0;
  std::optional<std::int64_t> first_difference;
  std::int64_t last_equal = 0;  // the last compared step before it
};
HashComparison compare_hashes(const StepHashes& a, const StepHashes& b);

struct RunHistory {
  std::filesystem::path folder;
  Recipe recipe;
  Course course;
  StepHashes hashes;

  std::int64_t last_step() const;  // with a recorded line
  // Steps per second of a point; NaN or 0 if its line has no speed.
  double steps_per_second(const TrainingPoint& point) const;
};

// Throws UserError(kData), which names file and line, if the folder contains no run or a line is
// malformed. An incomplete last line, left by a killed run, is ignored.
RunHistory read_history(const std::filesystem::path& run);
StepHashes read_hashes(const std::filesystem::path& run);

// The same from text; `source` names it in errors.
Course parse_metrics(std::string_view text, const std::string& source);
StepHashes parse_hashes(std::string_view text, const std::string& source);

}  // namespace podium
