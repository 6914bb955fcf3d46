#include "report/trackers/run_board.h"

#include <charconv>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "report/pages/example_pictures.h"
#include "report/trackers/scalars.h"
#include "report/trackers/tensorboard.h"

namespace podium {

namespace {

// The value of a recipe key, as TOML has it, as one that can be sorted.
Hyperparameter hyperparameter(const std::string& key, const std::string& text) {
  if (text == "true" || text == "false") return {key, text == "true"};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end) return {key, number};
  return {key, without_quotes(text)};
}

void write_scalars(TensorBoardWriter& writer, std::int64_t step,
                   const std::vector<NamedScalar>& scalars) {
  std::vector<ScalarValue> values;
  for (const NamedScalar& one : scalars) values.push_back({one.name, one.value});
  writer.scalars(step, values);
}

}  // namespace

RunBoard::RunBoard(const std::filesystem::path& run_folder) : folder_(run_folder / "tensorboard") {}

RunBoard::~RunBoard() = default;

void RunBoard::started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) {
  writer_.reset();
  if (first_step >= last_step) return;
  writer_ = std::make_unique<TensorBoardWriter>(folder_, first_step);
  std::vector<Hyperparameter> values;
  for (const auto& [key, value] : deciding_values(trainer.recipe()))
    values.push_back(hyperparameter(key, value));
  writer_->hyperparameters(values);
  rate_key_ = trainer.words().rate_key();
}

void RunBoard::measured(const RunMetrics& metrics) {
  write_scalars(*writer_, metrics.step, scalars_of(metrics, rate_key_));
}

void RunBoard::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!writer_) return;
  write_scalars(*writer_, result.step, scalars_of(trainer, result));
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
