#include "train/run/run.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "files/file_io.h"
#include "nn/models.h"
#include "parallel/failure_record.h"
#include "store/address.h"
#include "train/loop/run_ranks.h"
#include "train/machine/environment.h"
#include "train/machine/memory.h"
#include "train/plugin/plugin.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/initial.h"
#include "train/run/last_failure.h"
#include "train/run/run_data.h"
#include "train/run/run_folder.h"
#include "train/run/run_lines.h"
#include "train/run/run_pictures.h"
#include "train/run/run_trace.h"
#include "train/run/session.h"

namespace podium {
namespace {

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
            require_same_contract(checkpoint, precision_of(recipe));
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
  // The others were there when the program was measured.
  if (options.data.train || has_files(recipe)) planned.data = options.placement.keep_decoded;
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

// Of audits, one after the other, after each of which a run goes on.
constexpr int kMostFaults = 3;

struct Faults {
  int count = 0;                // one after the other
  std::int64_t failed_at = -1;  // the last step that an audit spoke against
};

RunResult run_with_audits(const Recipe& recipe, const Model& model, RunOptions options,
                          RunObserver& observer, Faults faults) {
  std::vector<int> left_out;
  while (left_out.empty()) {
    try {
      return run_untraced(recipe, model, options, observer);
    } catch (const AuditFault& fault) {
      // A fault that comes at once again is no accident.
      faults.count = fault.proven() >= faults.failed_at ? 1 : faults.count + 1;
      if (!fault.goes_on() || faults.count > kMostFaults) throw;
      faults.failed_at = fault.step();
      observer.warning(fault.what());
      options.fresh = false;
      left_out = fault.left_out();
    }
  }
  Transport& ranks = *options.placement.ranks;
  if (std::ranges::find(left_out, ranks.rank()) != left_out.end()) {
    ranks.await_end();
    return {.prepared = false};
  }
  const std::unique_ptr<Transport> rest = ranks.without(left_out);
  options.placement.ranks = rest.get();
  return run_with_audits(recipe, model, options, observer, faults);
}

}  // namespace

RunResult run(const Recipe& recipe, const Model& model, const RunOptions& options,
              RunObserver& observer) {
  PODIUM_REQUIRE(!is_remote(options.out.string()), ExitCode::kUsage, "RunOptions::out is ",
                 options.out.string(),
                 ": run() writes into a folder of this machine; StoredRun (train/run/stored_run.h) "
                 "has one for an address");
  return with_trace(options, observer, [&](const RunOptions& traced) {
    return run_with_audits(recipe, model, traced, observer, {});
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
