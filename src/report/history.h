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

namespace podium {

// After a step, of its batch; NaN where the file has null.
struct TrainingPoint {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, images_per_second = 0;
};
// Of the held-out set.
struct TestPoint {
  std::int64_t step = 0;
  double accuracy = 0, loss = 0;
};

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
