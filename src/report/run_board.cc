#include "report/run_board.h"

#include <string>

#include "report/tensorboard.h"

namespace podium {

RunBoard::RunBoard(const std::filesystem::path& run_folder) : folder_(run_folder / "tensorboard") {}

RunBoard::~RunBoard() = default;

void RunBoard::started(const Trainer&, std::int64_t first_step, std::int64_t last_step) {
  writer_.reset();
  if (first_step < last_step) writer_ = std::make_unique<TensorBoardWriter>(folder_, first_step);
}

void RunBoard::measured(const RunMetrics& metrics) {
  writer_->scalars(metrics.step, {{"train/loss", metrics.loss},
                                  {"train/accuracy", metrics.accuracy},
                                  {"train/learning_rate", metrics.learning_rate},
                                  {"speed/steps_per_second", metrics.steps_per_second},
                                  {"speed/images_per_second", metrics.images_per_second},
                                  {"speed/input_wait_percent", metrics.input_wait_percent}});
}

void RunBoard::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!writer_) return;
  const std::string held_out = trainer.recipe().validation != 0 ? "validation" : "test";
  writer_->scalars(result.step, {{held_out + "/accuracy", result.accuracy()},
                                 {held_out + "/loss", static_cast<double>(result.loss)}});
  writer_->flush();
}

void RunBoard::saving(std::int64_t) {
  if (writer_) writer_->flush();
}

}  // namespace podium
