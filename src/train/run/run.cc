#include "train/run/run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <system_error>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "files/file_io.h"
#include "nn/models.h"
#include "parallel/failure_record.h"
#include "train/loop/run_ranks.h"
#include "train/plugin/plugin.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/energy.h"
#include "train/run/environment.h"
#include "train/run/initial.h"
#include "train/run/last_failure.h"
#include "train/run/memory.h"
#include "train/run/run_data.h"
#include "train/run/run_folder.h"
#include "train/run/run_lines.h"
#include "train/run/run_pictures.h"
#include "train/run/run_trace.h"
#include "train/run/window.h"

namespace podium {
namespace {

// Reads back as the same number.
std::string shortest_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// The law holds within a kind.
void warn_of_other_kind(const Trainer& trainer, const Checkpoint& checkpoint,
                        RunObserver& observer) {
  const auto before = checkpoint.metadata.find(kKindKey);
  if (before == checkpoint.metadata.end() || before->second == trainer.kind()) return;
  observer.warning(cat("until step ", checkpoint.step, ", this run was computed as ",
                       before->second, ", and goes on as ", trainer.kind(),
                       ": from here on, its hashes are those of neither. For equal hashes, resume "
                       "it on a device of the first kind"));
}

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
    saved_ = checkpoint.step;
    window_.take_from(checkpoint, trainer_.counts());
  }
  // With ranks: what resumed_from() took on rank 0.
  void take_from_first_rank() {
    saved_ = static_cast<std::int64_t>(ranks_.decide(static_cast<std::uint64_t>(saved_ + 1))) - 1;
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
    const StepOptions how{.hash = hashed, .throw_on_divergence = false};
    ranks_.at(next, "training");
    const TraceSpan span(trace_, lane_, "step", next);
    const StepResult step =
        options_.on_gradients ? trainer_.step(how, options_.on_gradients) : trainer_.step(how);
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
    const EvaluationResult made = trainer_.evaluate(options_.stop_request);
    if (made.sums.examples == 0) {  // made when the run goes on
      stopping_ = true;
      return;
    }
    result_.last_evaluation = made;
    result_.eval_seconds += made.seconds;
    if (!std::isfinite(made.sums.loss))
      diverged("the loss of the evaluation is not finite", made.step);
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

  void save_best(const EvaluationResult& made) {
    require_finite();
    ranks_.at(trainer_.steps_done(), "saving");
    const TraceSpan span(trace_, lane_, "checkpoint");
    observer_.saving(trainer_.steps_done());
    Checkpoint checkpoint = trainer_.checkpoint();
    window_.keep_in(checkpoint);
    for (const auto& [name, count] : made.sums.counts)
      checkpoint.metadata["test_" + name] = std::to_string(count);
    checkpoint.metadata["test_examples"] = std::to_string(made.sums.examples);
    checkpoint.metadata[kGoodness] = shortest_text(goodness(made));
    if (folder_ != nullptr) folder_->save_best(checkpoint);
    best_ = goodness(made);
    result_.best_step = made.step;
  }

  void save() {
    require_finite();
    ranks_.at(trainer_.steps_done(), "saving");
    const TraceSpan span(trace_, lane_, "checkpoint");
    observer_.saving(trainer_.steps_done());
    Checkpoint checkpoint = trainer_.checkpoint();
    window_.keep_in(checkpoint);
    if (folder_ != nullptr) folder_->save(checkpoint, static_cast<int>(recipe_.checkpoints_kept));
    saved_ = trainer_.steps_done();
    checkpoint = {};
    return_free_memory();
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

}  // namespace

namespace {

// The recipe as it is recorded where the data are the program's own.
Recipe with_own_data(Recipe recipe, const RunData& data) {
  PODIUM_REQUIRE(data.train && data.held_out, ExitCode::kData, "RunOptions::data has no ",
                 data.train ? "held-out" : "training", " set; give both, or neither");
  PODIUM_REQUIRE(recipe.validation == 0, ExitCode::kUsage, "validation = ", recipe.validation,
                 ": with your own sets, hold the examples out in the program");
  recipe.data = kOwnData;
  recipe.train_examples = data.train->examples();
  recipe.test_examples = data.held_out->examples();
  check_counts(recipe);
  return recipe;
}

// A run that is ready for its next step, as far as it was prepared.
struct PreparedRun {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<Session> session;
  std::string initial;             // about what it started from, where that is [init]
  std::int64_t program_bytes = 0;  // RankPlan::program_bytes
  std::vector<std::string> notes;  // about its data
};

// The order of BF16 sums for a recipe that names none: that of the run in the folder, and for a run
// that begins now the device's first. Empty: the device has its own, or an older Podium began the
// run, whose recipe has none.
std::string order_of_run(const Recipe& recipe, Device& device, const RunOptions& options) {
  if (!options.fresh) {
    if (const auto text = read_text(options.out / "recipe.toml")) {
      try {
        const Recipe held = parse_recipe(*text, "recipe.toml", {}, ModelNames::kAny);
        if (held.precision == recipe.precision) return held.bf16_order;
      } catch (const UserError&) {
        // What the folder holds is for others to say.
      }
    }
  }
  const Bf16Support support = device.bf16();
  return support.orders.empty() ? "" : std::string(name_of(support.orders.front()));
}

// Throws Stopped where that is requested; nothing was made then.
PreparedRun prepare(const Recipe& its_recipe, const Model& model, const RunOptions& options,
                    RunObserver& observer) {
  const StopToken stop(options.stop_request);
  const RunRanks ranks(options.placement);
  PreparedRun run;
  const bool own = options.data.train || options.data.held_out;
  Recipe recipe = own ? with_own_data(its_recipe, options.data) : its_recipe;
  ranks.require_same_program(recipe);
  if (ranks.leads()) {
    require_own_folder(options.out);
    recipe = with_initial_hash(recipe, options.fresh ? "" : options.out);
  }
  recipe.init.hash = ranks.decide(recipe.init.hash);
  // Whoever opens it again until the trainer has it shares what takes long to open.
  const std::unique_ptr<Device> device = open_for(options.placement);
  if (precision_of(recipe).bf16 && recipe.bf16_order.empty())
    recipe.bf16_order = ranks.decide(ranks.leads() ? order_of_run(recipe, *device, options) : "");
  const auto require_memory = [&](const DataShape& shape, std::int64_t loaded) {
    run.program_bytes = check_memory(recipe, model, shape, options.placement, options.memory_limit,
                                     usable_memory_bytes(), stop, loaded);
  };
  if (own) {
    options.data.train->require_usable("the training set");
    options.data.held_out->require_usable("the held-out set");
  } else if (!has_files(recipe)) {
    require_memory(stated_shape(recipe), 0);
  }
  if (!own) require_outside(options.out, recipe, options.data_dir);
  const auto reading = [&](const char* what, std::int64_t done, std::int64_t all) {
    observer.preparing(cat(done, " of ", all, " ", what));
  };
  const RunData data = own ? options.data
                           : load_data(recipe, options.data_dir,
                                       {.check_files = true, .stop = stop, .reading = reading});
  run.notes = data.notes;
  recipe = with_counts(std::move(recipe), data);
  if (options.memory_limit != 0 && !own && has_files(recipe)) {
    for (const Source* set : {data.train.get(), data.held_out.get()})
      static_cast<void>(set->identity(stop));
    require_decoding_memory(data, resident_memory_bytes(), usable_cores(), options.memory_limit);
  }
  if (ranks.leads())
    require_decodable(data, !options.fresh && !list_checkpoints(options.out).empty(), stop);
  const DataShape shape = shape_of(*data.train, *data.held_out);
  if (own || has_files(recipe) || ranks.agree(shape != stated_shape(recipe) ? 1 : 0) != 0)
    require_memory(shape, shape.bytes());
  run.trainer =
      std::make_unique<Trainer>(recipe, model, data.train, data.held_out, options.placement, stop);
  Trainer& trainer = *run.trainer;
  trainer.identify_data(stop);
  if (options.memory_limit != 0)
    require_decoding_memory(data, trainer.memory_use().total() + run.program_bytes,
                            trainer.placement().workers + trainer.placement().input_threads,
                            options.memory_limit);
  ranks.require_same_data(trainer);

  if (ranks.leads()) {
    // Of a run that begins now, before it has a folder: what does not fit leaves nothing behind.
    if (options.fresh || list_checkpoints(options.out).empty()) {
      run.initial = take_initial(trainer);
      compile_within_memory(trainer, options.memory_limit);
    }
    run.folder = std::make_unique<RunFolder>(options.out);
    if (options.fresh) run.folder->start_afresh();
    run.folder->adopt_recipe(to_toml(recipe));
    run.folder->keep_tokenizer(data.tokenizer_files);
  }
  run.session = std::make_unique<Session>(trainer, run.folder.get(), options, observer);
  if (ranks.leads()) {
    RunFolder& folder = *run.folder;
    bool resumed = false;
    folder.resume(
        [&](const Checkpoint& checkpoint) {
          require_same_recipe(checkpoint, folder.dir());
          if (checkpoint.step < trainer.total_steps()) {
            require_same_contract(checkpoint);
            trainer.require_same_data(checkpoint);
          }
          if (const std::string note = trainer.check_evaluation_data(checkpoint); !note.empty())
            run.notes.push_back(note);
          if (checkpoint.step < trainer.total_steps())
            warn_of_other_kind(trainer, checkpoint, observer);
          trainer.restore(checkpoint);
          run.session->resumed_from(checkpoint);
          resumed = true;
        },
        [&](const std::string& line) { observer.warning(line); }, stop);
    folder.keep_place(to_toml(recipe));
    if (!resumed && run.initial.empty()) run.initial = take_initial(trainer);
    if (trainer.steps_done() < trainer.total_steps())
      compile_within_memory(trainer, options.memory_limit);
  }
  ranks.record_in(options.out);
  if (ranks.several()) {
    trainer.take_state_of_first_rank();
    run.session->take_from_first_rank();
  }
  return run;
}

Environment environment_of(const Trainer& trainer, const RunOptions& options) {
  const auto& placement = trainer.placement();
  Environment e = collect_environment(options.command_line, trainer.device().description(),
                                      static_cast<int>(placement.workers));
  e.backend = trainer.device().name();
  e.kind = trainer.kind();
  e.threads = static_cast<int>(placement.threads);
  e.input_threads = static_cast<int>(placement.input_threads);
  e.ranks = RunRanks(placement).count();
  e.training_data = trainer.training_data();
  e.evaluation_data = trainer.evaluation_data();
  e.price = options.price;
  e.words = trainer.words();
  return e;
}

RunResult run_untraced(const Recipe& recipe, const Model& model, const RunOptions& options,
                       RunObserver& observer) {
  const auto start = Clock::now();
  PreparedRun run;
  try {
    run = prepare(recipe, model, options, observer);
  } catch (const Stopped&) {
    // Ranks hear of signals at different moments, and wait for each other in between.
    if (RunRanks(options.placement).several())
      options.placement.ranks->abort("stopped on request before the first step",
                                     ExitCode::kStopped);
    return {.stopped = true, .prepared = false};
  }
  return_free_memory();  // of loading and of initial values
  const Trainer& trainer = *run.trainer;
  if (const std::string warning = oversubscription(trainer); !warning.empty())
    observer.warning(warning);
  std::string notes;
  for (const std::string& note : run.notes) {
    observer.warning(note);
    notes += cat("note          ", note, "\n");
  }
  if (run.folder) {
    for (const std::string& line : changed_plugins(run.folder->dir())) observer.warning(line);
    if (const std::string failure = last_failure(run.folder->dir()); !failure.empty())
      observer.warning(cat("the last start of this run ended with a failure: ", failure));
    Environment environment = environment_of(trainer, options);
    environment.notes = run.notes;
    record_environment(run.folder->dir(), environment, trainer.steps_done());
    replace_text(run.folder->dir() / "resolved.txt",
                 describe(trainer) +
                     (run.initial.empty() ? "" : cat("init          ", run.initial, "\n")) + notes);
  }
  RunResult result;
  try {
    result = run.session->run(seconds_since(start));
  } catch (const UserError& error) {
    if (run.folder && error.code() != ExitCode::kRankLost)  // which is recorded already
      record_failure(run.folder->dir(), trainer.steps_done(), error.what(),
                     RunRanks(options.placement).count());
    throw;
  }
  MemoryUse planned = trainer.memory_use();
  // These were there when the program was measured.
  if (options.data.train || has_files(recipe)) planned.data = 0;
  if (run.folder)
    record_outcome(run.folder->dir(), {.to_step = result.steps,
                                       .seconds = result.seconds,
                                       .start_seconds = result.start_seconds,
                                       .train_seconds = result.train_seconds,
                                       .eval_seconds = result.eval_seconds,
                                       .input_wait_percent = result.input_wait_percent,
                                       .peak_memory_bytes = result.peak_memory_bytes,
                                       .planned_memory_bytes = run.program_bytes + planned.total(),
                                       .joules = result.joules,
                                       .joules_of = result.joules_of});
  return result;
}

}  // namespace

RunResult run(const Recipe& recipe, const Model& model, const RunOptions& options,
              RunObserver& observer) {
  return with_trace(options, observer, [&](const RunOptions& traced) {
    return run_untraced(recipe, model, traced, observer);
  });
}

LoadedRun load_run(const std::filesystem::path& folder, const std::string& data_dir,
                   const Placement& placement, const std::vector<std::string>& overrides,
                   const std::string& step) {
  require_run(folder);
  LoadedRun loaded;
  loaded.recipe = read_run_recipe(folder, overrides);
  const RunData data = load_data(loaded.recipe, data_dir);
  loaded.trainer = std::make_unique<Trainer>(loaded.recipe, model_of(loaded.recipe), data.train,
                                             data.held_out, placement);
  const Checkpoint checkpoint = checkpoint_of(folder, step);
  if (const std::string note = loaded.trainer->check_evaluation_data(checkpoint); !note.empty())
    log(LogLevel::kWarning, note);
  loaded.trainer->restore(checkpoint);
  return loaded;
}

}  // namespace podium
