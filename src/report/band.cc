#include "report/band.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json_text.h"
#include "base/words.h"
#include "files/file_io.h"
#include "files/toml_records.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

constexpr std::uint64_t kMostBandBytes = 1 << 20;

double width(const Band& band) {
  const auto n = static_cast<double>(band.runs.size());
  return student_quantile(static_cast<std::int64_t>(band.runs.size()) - 1) * band.deviation() *
         std::sqrt(1 + 1 / n);
}

}  // namespace

double student_quantile(std::int64_t degrees) {
  // Degrees 1 to 30; then from the normal distribution's (Abramowitz, Stegun 26.7.5).
  constexpr double kTable[] = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355,
                               3.250,  3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
                               2.898,  2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797,
                               2.787,  2.779, 2.771, 2.763, 2.756, 2.750};
  PODIUM_CHECK(degrees >= 1, degrees);
  if (degrees <= std::ssize(kTable)) return kTable[degrees - 1];
  constexpr double x = 2.5758293, square = x * x;
  const auto n = static_cast<double>(degrees);
  return x + x * (square + 1) / (4 * n) +
         x * (5 * square * square + 16 * square + 3) / (96 * n * n);
}

double Band::mean() const {
  double sum = 0;
  for (const BandRun& run : runs) sum += run.metric;
  return sum / static_cast<double>(runs.size());
}

double Band::deviation() const {
  double squares = 0;
  for (const BandRun& run : runs) squares += (run.metric - mean()) * (run.metric - mean());
  return std::sqrt(squares / static_cast<double>(runs.size() - 1));
}

double Band::low() const {
  const double bound = mean() - width(*this);
  return words.unit == "%" ? std::max(0.0, bound) : bound;
}
double Band::high() const {
  const double bound = mean() + width(*this);
  return words.unit == "%" ? std::min(1.0, bound) : bound;
}

std::string band_recipe(Recipe recipe) {
  recipe.seed = 0;
  for (const RecipeKey& key : recipe_keys()) {
    if ((!key.decides_result && key.path() != "name") || key.decides_kind) reset_key(key, recipe);
  }
  // Of data in files, a run records how many there are, and a recipe need not.
  if (has_files(recipe)) {
    recipe.train_examples = recipe.test_examples = recipe.pictures.classes = 0;
    recipe.pictures.path = has_pictures(recipe) ? "pictures" : recipe.data;
  }
  return to_toml(recipe);
}

namespace {

// What an older Podium wrote as such a recipe, or other text, is taken as it is.
std::string band_recipe_in(const std::string& text) {
  try {
    return band_recipe(parse_recipe(text, "recipe"));
  } catch (const UserError&) {
    return text;
  }
}

}  // namespace

std::filesystem::path find_band(const std::string& recipe) {
  const std::string file = recipe + ".json";
  std::error_code error;
  std::vector<std::filesystem::path> folders = shared_folders("convergence", "PODIUM_BANDS");
  std::ranges::copy(shared_folders("docs/convergence", "PODIUM_BANDS"),
                    std::back_inserter(folders));  // of a checkout
  for (const std::filesystem::path& folder : folders)
    if (std::filesystem::is_regular_file(folder / file, error)) return folder / file;
  const std::filesystem::path own =
      std::filesystem::path("runs") / (recipe + "-band") / "band.json";
  return std::filesystem::is_regular_file(own, error) ? own : std::filesystem::path();
}

void add_run(Band& band, BandRun run) {
  const auto place = std::ranges::lower_bound(band.runs, run.seed, {}, &BandRun::seed);
  if (place != band.runs.end() && place->seed == run.seed)
    *place = std::move(run);
  else
    band.runs.insert(place, std::move(run));
}

void write_band(const std::filesystem::path& file, const Band& band) {
  const std::string metric = band.words.metric.empty() ? "loss" : band.words.metric;
  auto runs = nlohmann::ordered_json::array();
  for (const BandRun& run : band.runs)
    runs.push_back(
        {{"seed", run.seed}, {metric, run.metric}, {"parameter_hash", run.parameter_hash}});
  nlohmann::ordered_json json = {{"recipe", band.recipe},
                                 {"metric", {{"name", metric}, {"unit", band.words.unit}}},
                                 {"runs", runs}};
  if (band.runs.size() >= 2) {
    json["mean"] = band.mean();
    json["deviation"] = band.deviation();
  }
  if (band.runs.size() >= kLeastBandRuns) {
    json["low"] = band.low();
    json["high"] = band.high();
  }
  replace_text(file, json_text(json, 2) + "\n");
}

Band read_band(const std::filesystem::path& file, std::size_t least) {
  const auto text = read_text(file, kMostBandBytes);
  PODIUM_REQUIRE(text.has_value(), ExitCode::kUsage, file.string(),
                 ": no such band; `podium band RECIPE --seeds N` makes one");
  return parse_band(*text, file.string(), least);
}

Band parse_band(std::string_view text, const std::string& source, std::size_t least) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    Band band{.recipe = band_recipe_in(json.at("recipe").get<std::string>()), .runs = {}};
    // Older ones name no metric: they are of accuracies.
    if (const auto found = json.find("metric"); found != json.end()) {
      band.words.metric = found->at("name").get<std::string>();
      band.words.unit = found->at("unit").get<std::string>();
    }
    for (const auto& run : json.at("runs")) {
      const auto& seed = run.at("seed");
      PODIUM_REQUIRE(seed.is_number_unsigned(), ExitCode::kUsage, source,
                     ": is not a band: the seed of run ", band.runs.size() + 1,
                     " is not a whole number from 0 on; `podium band RECIPE --seeds N` makes one");
      band.runs.push_back({seed.get<std::uint64_t>(), run.at(band.words.metric).get<double>(),
                           run.at("parameter_hash").get<std::string>()});
    }
    PODIUM_REQUIRE(band.runs.size() >= least, ExitCode::kUsage, source, ": holds ",
                   count_text(std::ssize(band.runs), "run"), ", but a band needs at least ", least,
                   " runs; `podium band RECIPE --seeds ", kLeastBandRuns, "` adds to it");
    for (const BandRun& run : band.runs)
      PODIUM_REQUIRE(
          band.words.unit != "%" || (run.metric >= 0 && run.metric <= 1), ExitCode::kUsage, source,
          ": the ", band.words.metric_name(), " of seed ", run.seed, " is ", run.metric,
          ", which is not between 0 and 1; `podium band RECIPE --seeds N` makes a new band");
    return band;
  } catch (const nlohmann::json::exception& error) {
    throw UserError(cat(source, ": is not a band: ", error.what(),
                        "; `podium band RECIPE --seeds N` makes one"));
  }
}

}  // namespace podium
