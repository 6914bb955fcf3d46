// The recorded course of a run: recipe, metrics and hashes, for commands that read the folders of
// earlier runs.
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

  std::int64_t last_step() const;  // with a recorded line
};

// Throws UserError(kData), which names file and line, if the folder contains no run or a line is
// malformed. An incomplete last line, left by a killed run, is ignored.
RunHistory read_history(const std::filesystem::path& run);
std::map<std::int64_t, std::string> read_hashes(const std::filesystem::path& run);

// The same from text; `source` names it in errors.
Course parse_metrics(std::string_view text, const std::string& source);
std::map<std::int64_t, std::string> parse_hashes(std::string_view text, const std::string& source);

}  // namespace podium
