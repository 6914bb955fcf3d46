#include "report/trackers/scalars.h"

#include "train/recipe/recipe_keys.h"

namespace podium {

std::vector<NamedScalar> scalars_of(const RunMetrics& metrics, const std::string& rate_key) {
  std::vector<NamedScalar> scalars = {{"train/loss", metrics.loss}};
  for (const MetricValue& metric : metrics.metrics)
    scalars.push_back({"train/" + metric.name, metric.value});
  scalars.push_back({"train/learning_rate", metrics.learning_rate});
  scalars.push_back({"speed/steps_per_second", metrics.steps_per_second});
  scalars.push_back({"speed/" + rate_key, metrics.items_per_second});
  scalars.push_back({"speed/input_wait_percent", metrics.input_wait_percent});
  return scalars;
}

std::vector<NamedScalar> scalars_of(const Trainer& trainer, const EvaluationResult& result) {
  const std::string held_out = trainer.recipe().validation != 0 ? "validation/" : "test/";
  std::vector<NamedScalar> scalars;
  for (const MetricValue& metric : result.metrics)
    scalars.push_back({held_out + metric.name, metric.value});
  scalars.push_back({held_out + "loss", static_cast<double>(result.sums.loss)});
  return scalars;
}

std::string run_name_of(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  // Of a path with a slash at its end, too.
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::vector<std::pair<std::string, std::string>> deciding_values(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const RecipeKey& key : recipe_keys(recipe.optimizer_groups.size()))
    if (key.decides_result) values.emplace_back(key.path(), value_text(key, recipe));
  return values;
}

std::string without_quotes(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace podium
