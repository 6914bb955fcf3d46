// What a run's folder tells of its course, for commands that read runs that others made: recipe,
// metrics and hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/recipe.h"
#include "train/run_lines.h"

namespace podium {

struct Course {
  std::vector<TrainingPoint> training;
  std::vector<TestPoint> tests;
};

struct RunHistory {
  std::filesystem::path folder;
  Recipe recipe;
  Course course;
  std::map<std::int64_t, std::string> hashes;  // of the parameters, by step

  std::int64_t last_step() const;  // that left a trace
};

// UserError (kData) where the folder holds no run, or a line is not what it should be; it names
// file and line. A last line that a killed run left torn counts for nothing.
RunHistory read_history(const std::filesystem::path& run);
std::map<std::int64_t, std::string> read_hashes(const std::filesystem::path& run);

// The same of text; `source` stands in errors.
Course parse_metrics(std::string_view text, const std::string& source);
std::map<std::int64_t, std::string> parse_hashes(std::string_view text, const std::string& source);

}  // namespace podium
