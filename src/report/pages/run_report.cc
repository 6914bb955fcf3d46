#include "report/pages/run_report.h"

#include <exception>

#include "base/log.h"
#include "files/file_io.h"
#include "report/metrics.h"
#include "report/pages/example_pictures.h"
#include "report/pages/run_page.h"
#include "train/run/last_failure.h"

namespace podium {
namespace {

constexpr double kEverySeconds = 10;

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
  page_->class_names = class_names_of(trainer);
  page_->words = trainer.words();
  write(true);
}

void RunReport::measured(const RunMetrics& metrics) {
  if (!page_) return;
  if (!metrics.metrics.empty()) page_->history.course.training_metric = metrics.metrics[0].name;
  page_->history.course.training.push_back(
      {.step = metrics.step,
       .loss = metrics.loss,
       .metric = metrics.metrics.empty() ? kNoValue : metrics.metrics[0].value,
       .items_per_second = metrics.items_per_second,
       .steps_per_second = metrics.steps_per_second,
       .input_wait_percent = metrics.input_wait_percent});
  if (steady_seconds() - written_ >= kEverySeconds) write(true);
}

void RunReport::profiled(const Trainer& trainer, const ProfiledSteps& steps) {
  if (!page_) return;
  const OperationTimes times = operation_times(trainer, steps);
  if (times.operations.empty()) return;  // a backend that has no profile
  page_->operations = times;
  try {
    write_operations(folder_, times);
  } catch (const UserError& error) {
    log(LogLevel::kWarning, cat("the times of operations are not kept: ", error.what()));
  }
}

void RunReport::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  if (!page_) return;
  show_examples(trainer.evaluation_set(), result);
  page_->history.course.tests.push_back({.step = result.step,
                                         .metric = result.metric(),
                                         .loss = static_cast<double>(result.sums.loss),
                                         .bleu = result.value_of(kBleuMetric)});
  page_->translations = result.translations;
  page_->confusion = result.confusion;
  page_->confusion_step = result.step;
  if (steady_seconds() - written_ >= kEverySeconds) write(true);
}

void RunReport::show_examples(const Source& set, const EvaluationResult& result) {
  try {
    std::vector<PageFigure> first = figures_of(set, result.first),
                            worst = figures_of(set, result.worst);
    page_->examples = std::move(first);
    page_->mistakes = std::move(worst);
  } catch (const UserError& error) {
    if (!failed_) log(LogLevel::kWarning, cat("report.html lacks examples: ", error.what()));
    failed_ = true;
  }
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
