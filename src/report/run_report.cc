#include "report/run_report.h"

#include <exception>

#include "base/log.h"
#include "data/dataset.h"
#include "report/metrics.h"
#include "report/run_page.h"
#include "train/file_io.h"
#include "train/last_failure.h"

namespace podium {
namespace {

constexpr double kEverySeconds = 10;

std::vector<std::string> class_names_of(const Recipe& recipe) {
  for (const DatasetInfo& info : dataset_list())
    if (info.name == recipe.data) return info.class_names;
  return {};
}

}  // namespace

RunReport::RunReport(const std::filesystem::path& run_folder) : folder_(run_folder) {}

RunReport::~RunReport() {
  try {
    finish();
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, cat("report.html is not written: ", error.what()));
  }
}

void RunReport::started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) {
  page_.reset();
  if (first_step >= last_step) return;  // nothing new
  page_ = std::make_unique<RunPage>(read_run_page(folder_));
  page_->resolved = describe(trainer);
  page_->class_names = class_names_of(trainer.recipe());
  write(true);
}

void RunReport::measured(const RunMetrics& metrics) {
  if (!page_) return;
  page_->history.course.training.push_back({.step = metrics.step,
                                            .loss = metrics.loss,
                                            .accuracy = metrics.accuracy,
                                            .images_per_second = metrics.images_per_second,
                                            .input_wait_percent = metrics.input_wait_percent});
  if (steady_seconds() - written_ >= kEverySeconds) write(true);
}

void RunReport::evaluated(const Trainer&, const EvaluationResult& result) {
  if (!page_) return;
  page_->history.course.tests.push_back({.step = result.step,
                                         .accuracy = result.accuracy(),
                                         .loss = static_cast<double>(result.loss)});
  page_->confusion = result.confusion;
  page_->confusion_step = result.step;
  if (steady_seconds() - written_ >= kEverySeconds) write(true);
}

void RunReport::finish() {
  if (!page_) return;
  try {
    page_->starts = read_starts(folder_);
    page_->failure = last_failure(folder_);
  } catch (const UserError& error) {
    log(LogLevel::kWarning, cat("report.html lacks the starts of the run: ", error.what()));
  }
  write(false);
  page_.reset();
}

void RunReport::write(bool goes_on) {
  page_->goes_on = goes_on;
  try {
    replace_text(folder_ / "report.html", run_page(*page_));
  } catch (const UserError& error) {
    if (!failed_) log(LogLevel::kWarning, cat("report.html is not written: ", error.what()));
    failed_ = true;
  }
  written_ = steady_seconds();
}

}  // namespace podium
