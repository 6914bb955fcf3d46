// The convergence band of a recipe: its final metrics over seeds, and whether another run is
// inside it. Guarantee G5 is stated in terms of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "nn/task_words.h"
#include "train/recipe/recipe.h"

namespace podium {

// Fewer runs do not predict further ones: with two runs that happen to agree, the bounds would be
// their metric; with two that do not, nearly everything would be inside.
inline constexpr std::size_t kLeastBandRuns = 5;

struct BandRun {
  std::uint64_t seed = 0;
  double metric = 0;  // at the end, of the held-out set
  std::string parameter_hash;
};

struct Band {
  std::string recipe;  // resolved, with seed 0
  std::vector<BandRun> runs;
  TaskWords words = {};  // of the metric

  double mean() const;
  double deviation() const;  // of one run: the root of the sum of squares over n - 1
  // Where 99 of 100 further runs of the recipe end, if their metrics are normal: mean -+ t *
  // deviation * sqrt(1 + 1 / n), t the 99.5% quantile of Student's distribution of n - 1 degrees;
  // of shares (in "%"), within [0, 1]. At least two runs are needed, and kLeastBandRuns for it to
  // mean something.
  double low() const;
  double high() const;
};

// The recipe as a band has it: its name, and every key that decides its result but the seed.
std::string band_recipe(Recipe recipe);

// The band of a recipe: that which came with Podium, which is found relative to the program, in
// $PODIUM_BANDS or in a checkout; else the one that `podium band` made below the current folder.
// Empty: there is none.
std::filesystem::path find_band(const std::string& recipe);

// Adds a run, in place of the one with its seed if there is one; runs stand by rising seed.
void add_run(Band& band, BandRun run);

// JSON, whole or not at all, with low and high from kLeastBandRuns on. Reading throws
// UserError(kUsage) that names the file and the fault.
void write_band(const std::filesystem::path& file, const Band& band);
// `least` is how many runs it must have.
Band read_band(const std::filesystem::path& file, std::size_t least = kLeastBandRuns);
// The same of text; `source` stands in errors.
Band parse_band(std::string_view text, const std::string& source,
                std::size_t least = kLeastBandRuns);

// The 99.5% quantile of Student's t distribution.
double student_quantile(std::int64_t degrees);

}  // namespace podium
