#include "report/run_board.h"

#include <charconv>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "report/example_pictures.h"
#include "report/tensorboard.h"
#include "train/recipe/recipe_keys.h"

namespace podium {

namespace {

// The value of a recipe key, as TOML has it, as one that can be sorted.
Hyperparameter hyperparameter(const RecipeKey& key, const Recipe& recipe) {
  const std::string text = value_text(key, recipe);
  if (text == "true" || text == "false") return {key.path(), text == "true"};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end) return {key.path(), number};
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return {key.path(), quoted ? text.substr(1, text.size() - 2) : text};
}

struct NamedScalar {
  std::string tag;
  double value;
};

void write_scalars(TensorBoardWriter& writer, std::int64_t step,
                   const std::vector<NamedScalar>& scalars) {
  std::vector<ScalarValue> values;
  for (const NamedScalar& one : scalars) values.push_back({one.tag, one.value});
  writer.scalars(step, values);
}

}  // namespace

RunBoard::RunBoard(const std::filesystem::path& run_folder) : folder_(run_folder / "tensorboard") {}

RunBoard::~RunBoard() = default;

void RunBoard::started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) {
  writer_.reset();
  if (first_step >= last_step) return;
  writer_ = std::make_unique<TensorBoardWriter>(folder_, first_step);
  const Recipe& recipe = trainer.recipe();
  std::vector<Hyperparameter> values;
  for (const RecipeKey& key : recipe_keys(recipe.optimizer_groups.size()))
    if (key.decides_result) values.push_back(hyperparameter(key, recipe));
  writer_->hyperparameters(values);
  rate_key_ = trainer.words().rate_key();
}

void RunBoard::measured(const RunMetrics& metrics) {
  std::vector<NamedScalar> scalars = {{"train/loss", metrics.loss}};
  for (const MetricValue& metric : metrics.metrics)
    scalars.push_back({"train/" + metric.name, metric.value});
  scalars.push_back({"train/learning_rate", metrics.learning_rate});
  scalars.push_back({"speed/steps_per_second", metrics.steps_per_second});
  scalars.push_back({"speed/" + rate_key_, metrics.items_per_second});
  scalars.push_back({"speed/input_wait_percent", metrics.input_wait_percent});
  write_scalars(*writer_, metrics.step, scalars);
}

void RunBoard::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!writer_) return;
  const std::string held_out = trainer.recipe().validation != 0 ? "validation" : "test";
  std::vector<NamedScalar> scalars;
  for (const MetricValue& metric : result.metrics)
    scalars.push_back({cat(held_out, "/", metric.name), metric.value});
  scalars.push_back({held_out + "/loss", static_cast<double>(result.sums.loss)});
  write_scalars(*writer_, result.step, scalars);
  write_mistakes(*writer_, trainer.evaluation_set(), result);
  std::string translations;
  for (const ShownTranslation& one : result.translations)
    translations += cat("| ", one.source, " | ", one.translation, " | ", one.reference, " |\n");
  if (!translations.empty())
    writer_->text("translations", result.step,
                  "| sentence | translation | reference |\n| --- | --- | --- |\n" + translations);
  if (trainer.recipe().histograms)
    trainer.read_parameters([&](const std::string& name, std::span<const float> values) {
      writer_->histogram("parameters/" + name, result.step, values);
    });
  writer_->flush();
}

void RunBoard::finish() {
  if (!writer_) return;
  writer_->finished();
  writer_->flush();
}

void RunBoard::saving(std::int64_t) {
  if (writer_) writer_->flush();
}

}  // namespace podium
