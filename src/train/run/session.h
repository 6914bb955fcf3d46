// One call of run(): the loop over steps and its bookkeeping. For run.cc alone.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/numerics/hash.h"
#include "base/trace.h"
#include "files/file_io.h"
#include "files/safetensors.h"
#include "train/loop/run_ranks.h"
#include "train/machine/energy.h"
#include "train/machine/environment.h"
#include "train/predict/translate.h"
#include "train/run/run.h"
#include "train/run/run_folder.h"
#include "train/run/run_lines.h"
#include "train/run/window.h"

namespace podium {

// An audit found that a device computed wrongly.
class AuditFault : public UserError {
 public:
  // Of step `step`; `proven`: the last step that an audit has found sound; `left_out`: the ranks
  // without which the run goes on.
  AuditFault(const std::string& what, std::int64_t step, std::int64_t proven, bool goes_on,
             std::vector<int> left_out)
      : UserError(what, ExitCode::kFault),
        step_(step),
        proven_(proven),
        goes_on_(goes_on),
        left_out_(std::move(left_out)) {}
  std::int64_t step() const { return step_; }
  std::int64_t proven() const { return proven_; }
  bool goes_on() const { return goes_on_; }
  const std::vector<int>& left_out() const { return left_out_; }

 private:
  std::int64_t step_, proven_;
  bool goes_on_;
  std::vector<int> left_out_;
};

// One call of run(): the loop and its bookkeeping.
class Session {
 public:
  // `folder` is null on ranks that do not lead.
  Session(Trainer& trainer, RunFolder* folder, const RunOptions& options, RunObserver& observer)
      : trainer_(trainer),
        folder_(folder),
        ranks_(options.placement),
        options_(options),
        observer_(observer),
        recipe_(trainer.recipe()),
        trace_(options.placement.trace) {
    if (trace_ != nullptr) lane_ = trace_->lane("run");
    const std::int64_t epoch = trainer.steps_per_epoch();
    checkpoint_every_ =
        recipe_.checkpoint_every_steps != 0 ? recipe_.checkpoint_every_steps : epoch;
    evaluate_every_ = recipe_.evaluation.every_epochs * epoch;
    log_every_ = recipe_.log_every_steps != 0 ? recipe_.log_every_steps
                                              : std::max<std::int64_t>(epoch / 20, 1);
    last_ = trainer.total_steps();
    if (options.stop_steps != 0) last_ = std::min(last_, options.stop_steps);
    if (options.stop_epochs != 0 && options.stop_epochs < last_ / epoch + 1)
      last_ = std::min(last_, options.stop_epochs * epoch);
  }

  RunResult run(double start_seconds) {
    result_.start_seconds = start_seconds;
    begin_ = Clock::now();
    look_for_stop();
    observer_.started(trainer_, trainer_.steps_done(), last_);
    // Values from elsewhere, which need not be there when the run goes on.
    if (!recipe_.init.from.empty() && trainer_.steps_done() == 0 && saved_ != 0 && !stopping_)
      save();
    if (recipe_.keep_best) {
      if (folder_ != nullptr) find_best();
      best_ = std::bit_cast<double>(ranks_.decide(std::bit_cast<std::uint64_t>(best_)));
    }
    // Where a run was stopped between a checkpoint and its evaluation.
    if (evaluation_is_due() && !evaluation_is_held()) evaluate();
    while (trainer_.steps_done() < last_ && !stopping_ && !result_.ended) step();
    end_profile();
    // A run that was stopped before its first step has nothing to save.
    if (const auto found = trainer_.end_audit()) disagreed(*found);
    if (saved_ != trainer_.steps_done() && trainer_.steps_done() > 0) save();
    // Where the observer ended the run, its last evaluation may be of this step.
    const EvaluationResult& last = result_.last_evaluation;
    if (!stopping_ && (last.sums.examples == 0 || last.step != trainer_.steps_done())) evaluate();
    if (folder_ != nullptr) folder_->flush();
    result_.steps = trainer_.steps_done();
    if (result_.last_evaluation.step == result_.steps) result_.evaluation = result_.last_evaluation;
    result_.stopped =
        (result_.steps < last_ && !result_.ended) || result_.evaluation.sums.examples == 0;
    result_.total_steps = trainer_.total_steps();
    result_.epochs =
        static_cast<double>(result_.steps) / static_cast<double>(trainer_.steps_per_epoch());
    result_.parameter_hash = trainer_.parameter_hash();
    result_.input_wait_percent =
        result_.train_seconds > 0 ? 100 * input_seconds_ / result_.train_seconds : 0;
    result_.peak_memory_bytes = peak_memory_bytes();
    result_.seconds = seconds();
    result_.joules = energy_.joules();
    if (result_.joules) result_.joules_of = energy_.of();
    return result_;
  }

  void resumed_from(const Checkpoint& checkpoint) {
    saved_ = proven_ = audited_ = checkpoint.step;
    window_.take_from(checkpoint, trainer_.counts());
  }
  // With ranks: what resumed_from() took on rank 0.
  void take_from_first_rank() {
    saved_ = static_cast<std::int64_t>(ranks_.decide(static_cast<std::uint64_t>(saved_ + 1))) - 1;
    proven_ = audited_ = trainer_.steps_done();
    window_.steps =
        static_cast<std::int64_t>(ranks_.decide(static_cast<std::uint64_t>(window_.steps)));
    for (const std::string& name : trainer_.counts()) {
      std::int64_t& count = window_.counts[name];
      count = static_cast<std::int64_t>(ranks_.decide(static_cast<std::uint64_t>(count)));
    }
  }

 private:
  // All ranks stop, or end, after the same step.
  void look_for_stop() {
    const bool requested = options_.stop_request != nullptr && options_.stop_request->load() != 0;
    const std::uint64_t flags = ranks_.agree((requested ? 1U : 0U) | (result_.ended ? 2U : 0U));
    stopping_ = (flags & 1) != 0;
    result_.ended = (flags & 2) != 0;
  }

  void step() {
    const std::int64_t next = trainer_.steps_done() + 1;
    const bool hashed = next == trainer_.total_steps() ||
                        (recipe_.hash_every_steps != 0 && next % recipe_.hash_every_steps == 0);
    const bool audits = recipe_.audit_every_steps != 0 && next % recipe_.audit_every_steps == 0 &&
                        !options_.on_gradients;  // which may not be called twice
    const StepOptions how{.hash = hashed, .throw_on_divergence = false, .audit = audits};
    ranks_.at(next, "training");
    const TraceSpan span(trace_, lane_, "step", next);
    const StepResult step =
        options_.on_gradients ? trainer_.step(how, options_.on_gradients) : trainer_.step(how);
    if (audits) {
      // What another backend computes beside the steps is known at the next audit.
      const bool is_earlier = step.disagreement && step.disagreement->step == audited_;
      if (!is_earlier) proven_ = audited_;
      audited_ = next;
    }
    if (step.disagreement) disagreed(*step.disagreement);
    if (audits && recipe_.audit_backend == "none") proven_ = next;
    if (!step.non_finite.empty()) diverged(step.divergence(), step.step);
    ++result_.steps_made;
    result_.train_seconds += step.seconds;
    result_.train_loss = step.sums.loss;
    input_seconds_ += step.input_seconds;
    if (hashed && folder_ != nullptr) folder_->append_hash(step.step, step.hash);
    window_.add(step);
    profile(step);
    if (step.step % log_every_ == 0) measure(step);
    observer_.stepped(trainer_, step);
    // First the checkpoint: an evaluation takes long, and may be made again.
    if (step.step % checkpoint_every_ == 0 && step.step < last_) save();
    if (evaluation_is_due()) evaluate();
    result_.ended = trainer_.steps_done() < last_ && observer_.ends_run(trainer_);
    look_for_stop();
  }

  // Times the kernels of some steps, after those in which caches and clocks warm up: each kernel
  // takes a look at the clock, so not of all.
  void profile(const StepResult& step) {
    constexpr std::int64_t kWarmUp = 2, kSteps = 20;
    constexpr double kSeconds = 5;
    if (result_.steps_made == kWarmUp) {
      trainer_.start_profile();
      profiled_ = {.first = step.step + 1};
    } else if (profiled_.first != 0) {
      ++profiled_.count;
      profiled_.seconds += step.seconds;
      if (profiled_.count == kSteps || profiled_.seconds > kSeconds) end_profile();
    }
  }
  void end_profile() {
    trainer_.stop_profile();
    if (profiled_.count > 0) observer_.profiled(trainer_, profiled_);
    profiled_ = {};
  }

  // The last step's evaluation is the run's, after the loop.
  bool evaluation_is_due() const {
    const std::int64_t step = trainer_.steps_done();
    return evaluate_every_ != 0 && step > 0 && step % evaluate_every_ == 0 && step < last_;
  }
  bool evaluation_is_held() {
    const bool held = folder_ != nullptr && folder_->has_evaluation(trainer_.steps_done());
    return ranks_.decide(held ? 1U : 0U) != 0;
  }

  void measure(const StepResult& step) {
    const RunMetrics metrics = window_.metrics(step, metrics_);
    energy_.joules();  // its counters wrap around
    window_ = {};
    if (folder_ != nullptr) append(metrics);
    observer_.measured(metrics);
  }

  void append(const RunMetrics& metrics) {
    std::vector<MetricField> line = {{"loss", metrics.loss}};
    for (const MetricValue& metric : metrics.metrics) line.push_back({metric.name, metric.value});
    line.push_back({"learning_rate", metrics.learning_rate});
    line.push_back({"steps_per_second", metrics.steps_per_second});
    line.push_back({trainer_.words().rate_key(), metrics.items_per_second});
    line.push_back({"input_wait_percent", metrics.input_wait_percent});
    line.push_back({"seconds", seconds()});
    folder_->append_metrics(metrics.step, line);
  }

  // Since this call of run() began, all included.
  double seconds() const { return result_.start_seconds + seconds_since(begin_); }

  void evaluate() {
    ranks_.at(trainer_.steps_done(), "evaluation");
    const TraceSpan span(trace_, lane_, "evaluation");
    EvaluationResult made = trainer_.evaluate(options_.stop_request);
    if (made.sums.examples == 0) {  // made when the run goes on
      stopping_ = true;
      return;
    }
    if (!std::isfinite(made.sums.loss))
      diverged("the loss of the evaluation is not finite", made.step);
    result_.eval_seconds += made.seconds;
    if (recipe_.evaluation.translations != 0) translate(made);
    result_.last_evaluation = made;
    // A run that was at its end already: a second line of this step would double it.
    if (result_.steps_made == 0 && evaluation_is_held()) return;
    observer_.evaluated(trainer_, made);
    // First the checkpoint: an evaluation that is written down is not made again.
    if (recipe_.keep_best && goodness(made) > best_) save_best(made);
    if (folder_ == nullptr) return;
    std::vector<MetricField> line;
    for (const MetricValue& metric : made.metrics)
      line.push_back({"test_" + metric.name, metric.value});
    line.push_back({"test_loss", static_cast<double>(made.sums.loss)});
    for (const auto& [name, count] : made.sums.counts) line.push_back({"test_" + name, count});
    line.push_back({"test_examples", made.sums.examples});
    folder_->append_metrics(made.step, line);
  }

  // All ranks have a part in the checkpoint; one translates.
  void translate(EvaluationResult& made) {
    const auto start = Clock::now();
    const Checkpoint checkpoint = trainer_.checkpoint();
    if (folder_ != nullptr) add_translations(trainer_, checkpoint, made);
    result_.eval_seconds += seconds_since(start);
  }

  // Reads back as the same number.
  static std::string shortest_text(double value) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
  }

  // By which the best checkpoint is chosen: more is better.
  static double goodness(const EvaluationResult& made) {
    const MetricValue* metric = made.main_metric();
    if (metric == nullptr) return -static_cast<double>(made.sums.loss);
    return metric->more_is_better ? metric->value : -metric->value;
  }

  // The best so far, of this run before it went on.
  void find_best() {
    const std::filesystem::path place = best_checkpoint(folder_->dir());
    if (std::error_code error; !std::filesystem::exists(place, error)) return;
    try {
      const Checkpoint best = load_checkpoint(place);
      require_same_recipe(best, folder_->dir());
      best_ = goodness_of(best);
      result_.best_step = best.step;
    } catch (const UserError& error) {
      observer_.warning(
          cat("the best checkpoint is ignored, and the next evaluation counts as the best so far: ",
              error.what()));
    }
  }

  // What save_best() wrote; before that was written, the counts of a classifier.
  static double goodness_of(const Checkpoint& best) {
    const auto number = [&](const char* key) {
      const auto found = best.metadata.find(key);
      return found == best.metadata.end() ? kNoValue : std::atof(found->second.c_str());
    };
    if (best.metadata.contains(kGoodness)) return number(kGoodness);
    const double share = number("test_correct") / number("test_examples");
    return std::isnan(share) ? -std::numeric_limits<double>::infinity() : share;
  }

  Checkpoint begin_saving() {
    require_finite();
    ranks_.at(trainer_.steps_done(), "saving");
    observer_.saving(trainer_.steps_done());
    Checkpoint checkpoint = trainer_.checkpoint();
    window_.keep_in(checkpoint);
    return checkpoint;
  }

  void save_best(const EvaluationResult& made) {
    const TraceSpan span(trace_, lane_, "checkpoint");
    Checkpoint checkpoint = begin_saving();
    for (const auto& [name, count] : made.sums.counts)
      checkpoint.metadata["test_" + name] = std::to_string(count);
    checkpoint.metadata["test_examples"] = std::to_string(made.sums.examples);
    checkpoint.metadata[kGoodness] = shortest_text(goodness(made));
    if (folder_ != nullptr) folder_->save_best(checkpoint);
    best_ = goodness(made);
    result_.best_step = made.step;
  }

  void save() {
    const TraceSpan span(trace_, lane_, "checkpoint");
    Checkpoint checkpoint = begin_saving();
    if (recipe_.witness && trainer_.steps_done() < trainer_.total_steps())
      checkpoint.metadata[kWitnessKey] = witness();
    if (folder_ != nullptr) folder_->save(checkpoint, static_cast<int>(recipe_.checkpoints_kept));
    saved_ = trainer_.steps_done();
    checkpoint = {};
    return_free_memory();
  }

  // Of the next step, which whoever has the checkpoint can compute.
  std::string witness() {
    std::vector<std::int64_t> replicas(static_cast<std::size_t>(recipe_.replicas));
    std::iota(replicas.begin(), replicas.end(), 0);
    const std::vector<std::uint64_t> hashes = trainer_.replica_hashes(replicas);
    std::string text;
    for (const std::uint64_t hash : hashes) text += (text.empty() ? "" : " ") + hash_text(hash);
    return text;
  }

  // What the loss of the next step would say: no checkpoint may hold it.
  void require_finite() {
    const std::string name = trainer_.first_non_finite();
    if (!name.empty())
      diverged(cat("after this step \"", name, "\" is not finite"), trainer_.steps_done());
  }

  [[noreturn]] void diverged(const std::string& what, std::int64_t step) {
    if (folder_ != nullptr) folder_->flush();
    const std::string folder = options_.out.string();
    throw UserError(cat("step ", step, ": ", what, ". ",
                        saved_ < 0 ? cat("No checkpoint had been saved in ", folder)
                                   : cat("The checkpoint of step ", saved_, " in ", folder,
                                         " is the last good state"),
                        "; try a smaller optimizer.learning_rate, with --fresh or another --out"),
                    ExitCode::kDiverged);
  }

  // What was computed since the last audit may be wrong.
  [[noreturn]] void disagreed(const Disagreement& found) {
    const std::int64_t step = found.step;
    std::string kept;
    if (folder_ != nullptr) {
      const std::filesystem::path file = folder_->dir() / cat("audit-step-", step, ".safetensors");
      write_safetensors(file, found.tensors, {{"step", cat(step)}, {"found", found.text}});
      folder_->flush();
      kept = cat(" What it was computed from, and what it became both times, is in ", file.string(),
                 ".");
      if (set_aside_checkpoints(folder_->dir(), proven_) > 0)
        kept += cat(" The checkpoints after step ", proven_,
                    ", the last that no audit speaks against, were set aside as damaged.");
    }
    std::vector<int> left_out;
    if (recipe_.audit_then == "leave-out") left_out = found.ranks;
    // Rank 0 has the run's folder.
    const bool goes_on =
        recipe_.audit_then != "stop" && std::ranges::find(left_out, 0) == left_out.end();
    std::string without;
    for (const int rank : left_out)
      without += cat(without.empty() ? " without " : " and ", ranks_.name(rank));
    throw AuditFault(
        cat("step ", step, ": a device computed wrongly. ", found.text, ".", kept,
            goes_on ? cat(" The run goes on", without,
                          " (run.audit_then), or, where this came again at once, ends here. The "
                          "same command resumes it")
                    : " Start the same command again without that device, or on another machine: "
                      "it goes on",
            " from the last checkpoint up to step ", proven_, ". docs/trust.md says more"),
        step, proven_, goes_on, std::move(left_out));
  }

  Trainer& trainer_;
  RunFolder* folder_;
  const RunRanks ranks_;
  const RunOptions& options_;
  RunObserver& observer_;
  const Recipe& recipe_;
  Trace* const trace_;
  int lane_ = 0;
  std::int64_t checkpoint_every_, evaluate_every_, log_every_, last_;
  std::int64_t saved_ = -1;
  std::int64_t proven_ = trainer_.steps_done();  // by the last audit, or before this call
  std::int64_t audited_ = proven_;               // the last audited step
  double best_ = -std::numeric_limits<double>::infinity();
  static constexpr const char* kGoodness = "best_value";  // of the key by which it was chosen
  const std::vector<Metric> metrics_ = trainer_.metrics();
  RunResult result_;
  double input_seconds_ = 0;
  Clock::time_point begin_;
  EnergyMeter energy_;
  bool stopping_ = false;
  ProfiledSteps profiled_;  // first is 0: not now
  Window window_;
};

}  // namespace podium
