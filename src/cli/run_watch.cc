#include "cli/run_watch.h"

#include <cmath>

#include "base/words.h"
#include "cli/talk.h"

namespace podium {

RunWatch::RunWatch(const Recipe& recipe, const RunOptions& options, bool quiet)
    : recipe_(recipe), options_(options), quiet_(quiet) {}

RunWatch::~RunWatch() { set_talk_route(nullptr); }

void RunWatch::started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) {
  preparing_.reset();
  workers_ = trainer.placement().workers;
  backend_ = trainer.device().name();
  last_step_ = last_step;
  words_ = trainer.words();
  counts_ = trainer.counts();

  std::string resolved = describe(trainer);
  if (!resolved.empty() && resolved.back() == '\n') resolved.pop_back();
  say(resolved);
  if (first_step >= last_step_) {
    say(cat("the run has already finished its ", count_text(first_step, "step"), "; evaluating"));
    return;
  }
  if (first_step > 0) say(cat("resuming from the checkpoint of step ", first_step));
  meter_.emplace(steady_seconds());
  if (quiet_) return;
  const Progress::Options options = Progress::for_stderr();
  progress_ = std::make_unique<Progress>(options);
  if (options.live) {
    set_talk_route([this](std::string_view line) { progress_->print_above(line); });
  }
}

void RunWatch::measured(const RunMetrics& metrics) {
  metric_ = kUnknownValue;
  for (const MetricValue& metric : metrics.metrics)
    if (metric.name == words_.metric) metric_ = metric.value;
}

void RunWatch::stepped(const Trainer& trainer, const StepResult& step) {
  const double now = steady_seconds();
  if (paused_) meter_->resume(now - step.seconds);
  paused_ = false;
  meter_->step(now, step.sums.items, step.input_seconds);
  items_made_ += step.sums.items;
  loss_ = static_cast<double>(step.sums.loss);
  if (progress_ == nullptr) return;
  if (step.step % trainer.steps_per_epoch() == 0) {
    progress_->epoch_done(progress_state(trainer));
  } else if (progress_->due()) {
    progress_->update(progress_state(trainer));
  }
  if (step.step == last_step_) last_ = progress_state(trainer);
}

void RunWatch::evaluated(const Trainer& trainer, const EvaluationResult& result) {
  pause(result.seconds);
  test_metric_ = result.metric();
  test_step_ = result.step;
  if (last_) last_ = with_test(*last_, trainer);
}

void RunWatch::saving(std::int64_t) { pause(0); }

void RunWatch::warning(const std::string& text) { warn(text); }

void RunWatch::preparing(const std::string& progress) {
  if (quiet_) return;
  if (!preparing_) preparing_.emplace();
  (*preparing_)(progress);
}

void RunWatch::finish() {
  if (progress_ != nullptr && last_) progress_->finish(*last_);
  set_talk_route(nullptr);
}

void RunWatch::pause(double seconds_ago) {
  if (meter_ && !paused_) meter_->pause(steady_seconds() - seconds_ago);
  paused_ = true;
}

ProgressState RunWatch::progress_state(const Trainer& trainer) const {
  ProgressState state;
  state.recipe = recipe_.name;
  state.held_out = recipe_.validation != 0 ? "held out" : "test";
  state.step = trainer.steps_done();
  state.steps = last_step_;
  state.epoch = static_cast<double>(state.step) / static_cast<double>(trainer.steps_per_epoch());
  state.epochs = 0.1 * std::round(10 * static_cast<double>(last_step_) /
                                  static_cast<double>(trainer.steps_per_epoch()));
  state.loss = loss_;
  state.words = words_;
  state.metric = metric_;
  state.steps_per_second = meter_->steps_per_second();
  state.items_per_second = meter_->items_per_second();
  state.seconds_left = meter_->seconds_left(last_step_ - state.step);
  state.input_wait_percent = meter_->input_wait_percent();
  if (options_.price) {
    state.usd = options_.price->usd(steady_seconds() - begun_);
    state.price = options_.price->text();
  }
  return with_test(std::move(state), trainer);
}

ProgressState RunWatch::with_test(ProgressState state, const Trainer& trainer) const {
  state.test_metric = test_metric_;
  state.test_epoch =
      static_cast<double>(test_step_) / static_cast<double>(trainer.steps_per_epoch());
  state.test_is_current = test_step_ == state.step;
  return state;
}

}  // namespace podium
