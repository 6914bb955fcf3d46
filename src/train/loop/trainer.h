// The trainer: the state of a run (parameters, optimizer state, running statistics) in memory. Any
// number of workers advances it one step at a time. Its results depend on the recipe alone;
// workers, threads and backend only change the speed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "data/pictures/image_set.h"
#include "nn/model.h"
#include "nn/task_words.h"
#include "train/loop/checkpoint.h"
#include "train/loop/evaluation.h"
#include "train/program/program.h"
#include "train/recipe/recipe.h"

namespace podium {

class Trace;      // base/trace.h
class Transport;  // parallel/transport.h

// Where a recipe is computed. No result depends on it.
struct Placement {
  // 0: the smaller of the replicas and the cores. With several ranks, those of this rank.
  std::int64_t workers = 0;
  int threads = 1;  // per worker
  // Threads that prepare batches in advance. 0: workers prepare their own; but where examples are
  // slow to read there is one for each computing thread, and with a device of its own (a GPU) there
  // are as many as the host has cores without a worker, up to 8 unless examples are slow to read.
  int input_threads = 0;
  // Bytes for what is decoded of the data, kept from one epoch to the next.
  std::int64_t keep_decoded = 0;
  std::string backend;  // empty: the default
  // Of a backend for GPUs: those of the host that this process uses, in this order; empty: all, or,
  // of several processes on the host, one for each.
  std::vector<int> gpus = {};
  // Least size of a bucket, the gradients that ranks exchange at once; 0: chosen by the size of the
  // model. Must be equal on all ranks.
  std::int64_t bucket_bytes = 0;
  // Connects the processes of the run, which all make the same calls of their trainers in the same
  // order; null: there is one process. It must outlive the trainer.
  Transport* ranks = nullptr;
  // Records spans of time; null: none. It must outlive the trainer.
  Trace* trace = nullptr;
};

// Memory in bytes, known before step 1 (train/run/rank_plan.h). Activations are the arenas of a
// replica's program and of the evaluation program.
struct MemoryUse {
  std::int64_t parameters = 0, statistics = 0, optimizer = 0, gradients = 0;
  std::int64_t carried = 0;   // of this rank's replicas, twice
  std::int64_t exchange = 0;  // with several ranks: sums received from the others
  std::int64_t training_activations = 0, evaluation_activations = 0, batches = 0;
  std::int64_t checkpoint = 0;  // what is written at once: a copy of the state in the host's memory
  std::int64_t data = 0;        // both sets, in the host's memory
  MemoryUse& operator+=(const MemoryUse& other);
  std::int64_t total() const;
  // Of it, what lies on a device that has memory of its own.
  std::int64_t on_device() const { return total() - data - checkpoint; }
  bool operator==(const MemoryUse&) const = default;
};

// A tensor in a trainer's memory, row-major: the trainer continues with the values that you write
// to it.
struct TensorSpan {
  std::string name;
  Shape shape;
  std::span<float> values;
};

// What an audited step found.
struct Disagreement {
  std::int64_t step = 0;   // the audited step, counted from 1
  std::string text;        // which tensors differ, and which device is wrong, as far as that shows
  std::vector<int> ranks;  // whose devices are wrong, where that shows; all ranks know it
  // The step as `podium inspect` writes one: the batch, and the values before and after it. Of what
  // became another value the second time, second/NAME, too.
  std::vector<NamedTensor> tensors;
};

// Options of a step.
struct StepOptions {
  bool hash = false;  // compute StepResult::hash
  // False: the recipe's optimizers change nothing, because the caller changes Trainer::parameters()
  // itself. The step counts, and running statistics are updated.
  bool update_parameters = true;
  // true: a step that diverges throws. false: it returns, and StepResult::non_finite says why.
  bool throw_on_divergence = true;
  // Make the step twice, by other threads the second time, and compare every bit of what the two
  // leave; with several devices or ranks, also compute a replica, drawn by the step, on another
  // one. The result is that of a step that is made once. It takes memory for three copies of the
  // state. Recipe::audit_backend computes such a replica beside the steps that follow: what that
  // finds is in the result of the next audited step, which is not made then, or of end_audit().
  bool audit = false;
};

// The result of a step.
struct StepResult {
  std::int64_t step = 0;  // number of the step, counted from 1
  double learning_rate = 0;
  Sums sums;  // over the global batch
  double seconds = 0;
  // Parts of `seconds`, as means over workers: waiting for the batch; waiting for other workers
  // with no part of their work to help with.
  double input_seconds = 0, waiting_seconds = 0;
  // Of all parameters after the step, and of what the model carries to the next one; 0 if not
  // requested.
  std::uint64_t hash = 0;
  // The norm of all gradients before clipping; 0 if the recipe has no optimizer.clip_norm.
  float gradient_norm = 0;
  // Of an audited step whose computations differ; null: they are equal. Do not use the trainer
  // further then.
  std::shared_ptr<const Disagreement> disagreement = {};
  std::string non_finite;  // not empty: the loss (or, if the recipe clips it, the norm of the
                           // gradients) is not finite, and nothing was updated. The name of the
                           // first operation with such a result

  // For a step that diverged: text that states what is not finite and where it began.
  std::string divergence() const;
};

// A step and everything that it computed.
struct InspectedStep {
  StepResult result;
  std::vector<NamedTensor> tensors;
};

// The state of a recipe, advanced step by step. Used by one thread at a time.
class Trainer {
 public:
  // evaluate() evaluates `held_out`. The sets must have the same fields; they are prepared as the
  // recipe says. Throws UserError: kData if a set is not usable; kUsage if the recipe does not
  // fit the placement (more workers than replicas) or the data (a batch that is not a multiple of
  // the replicas, or larger than the set); kMemory if there is not enough memory or no thread can
  // be started. Throws Stopped if `stop` requests it.
  Trainer(Recipe recipe, Model model, std::shared_ptr<const Source> train,
          std::shared_ptr<const Source> held_out, Placement placement, StopToken stop = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const Recipe& recipe() const;
  const Placement& placement() const;  // resolved
  Device& device() const;
  // Results of one kind are equal to the bit: "exact fp32", "exact bf16" (in the order of AMX),
  // "exact bf16 hopper", "cuda bf16 on sm_120", ...
  std::string kind() const;
  // Whether other backends have its bits, too.
  bool is_exact() const { return kind().starts_with("exact "); }
  // As planned; once compile_step() was called, what the device's compiler says of a step instead,
  // as training_activations: it includes the gradients.
  MemoryUse memory_use() const;
  // Compiles what the next step needs. Without it, the step does that.
  void compile_step();
  std::int64_t evaluation_batch() const;
  // Of the gradients that ranks send each other at once, in their order; one where there is one
  // rank.
  std::vector<std::int64_t> bucket_bytes() const;
  std::int64_t steps_per_epoch() const;
  std::int64_t total_steps() const;  // of the recipe
  const FlatLayout& layout() const;
  const Source& training_set() const;
  const Source& evaluation_set() const;
  // The numbers that people look at, and what they and the data's items are called.
  std::vector<Metric> metrics() const;
  TaskWords words() const;
  // Losses of a step's batch, and the names of its counts.
  std::int64_t items_per_step() const;  // of examples of the greatest length
  const std::vector<std::string>& counts() const;

  std::int64_t steps_done() const;
  // Throws UserError(kDiverged), which names the step and the operation, if the loss (or, if the
  // recipe clips it, the norm of the gradients) is not finite: nothing was updated, and the same
  // step would diverge again. After any other exception (no memory, an error of the loader), the
  // trainer makes no further steps.
  StepResult step(const StepOptions& options = {});
  // The same, and calls `between` after the gradients are summed and before the update. It may read
  // and change gradients() and parameters().
  StepResult step(const StepOptions& options, const std::function<void(Trainer&)>& between);

  // A step in two halves, for loops that read or change gradients:
  //
  //   trainer.compute_gradients();
  //   for (const TensorSpan& gradient : trainer.gradients()) ...
  //   trainer.apply_update();
  //
  // The caller sees whole tensors, in one order, for any placement. If its changes are a function
  // of these tensors, the run's result does not depend on the placement. compute_gradients() runs
  // every replica forward and backward and sums the gradients; another call computes the same
  // again. apply_update() makes the recipe's update from the current gradients and completes the
  // step. Both throw as step() does. apply_update() and gradients() throw UserError(kUsage) if this
  // step's gradients have not been computed, and step() throws it if they have.
  StepResult compute_gradients(const StepOptions& options = {});
  StepResult apply_update(const StepOptions& options = {});
  // Waits for what another backend computes beside the steps since the last audit
  // (StepOptions::audit). Null: nothing does, or all is equal. With ranks: must be called on all of
  // them.
  std::shared_ptr<const Disagreement> end_audit();
  // The gradients of the trained parameters, under the parameters' names: of the mean loss over the
  // global batch, without weight decay, not clipped. Valid until the step ends.
  std::span<const TensorSpan> gradients();
  // All parameters. They may be changed between steps or between the halves of a step.
  std::span<const TensorSpan> parameters();
  // Stops early once `*stop` is not 0 (null: never); the result then has 0 `examples`.
  EvaluationResult evaluate(const std::atomic<int>* stop = nullptr);
  std::uint64_t parameter_hash() const;
  // The same, and what the model carries to the next step: StepResult::hash. With ranks: must be
  // called on all of them.
  std::uint64_t state_hash() const;
  // Calls read(name, values) for each parameter, in order. The values are valid during the call.
  void read_parameters(
      const std::function<void(const std::string&, std::span<const float>)>& read) const;
  // The name of the first parameter, running statistic or carried value that is not finite; empty:
  // none. With ranks, where a model carries values: must be called on all of them.
  std::string first_non_finite() const;

  // Hashes both sets once, for the functions below. Throws Stopped if `stop` requests it.
  void identify_data(StopToken stop = {}) const;
  // The number of examples and their hash, as text for people.
  std::string training_identity() const;
  std::string evaluation_identity() const;
  // The same, and their origin.
  std::string training_data() const;
  std::string evaluation_data() const;
  // With ranks: must be called on all of them, and returns the same on each.
  Checkpoint checkpoint() const;
  // Throws UserError(kData) if the checkpoint was trained on other examples than these.
  void require_same_data(const Checkpoint& checkpoint) const;
  // Throws UserError(kData) if the checkpoint's run was evaluated on other examples, unless these
  // are files of the same names and classes, of which one may have been repaired:
  // evaluation changes no parameter. Returns what people should then know, or that the checkpoint
  // does not state its evaluation set, because an older Podium wrote it; empty: all is as it was.
  std::string check_evaluation_data(const Checkpoint& checkpoint) const;
  // Throws UserError(kData) if tensors are missing or their shapes are not those of this recipe.
  void restore(const Checkpoint& checkpoint);

  // Of the next step: a hash of all that a replica's program gives to the sums over replicas, of
  // each of these replicas. The step itself is not made. With ranks: must be called on all of them,
  // and returns the same on each.
  std::vector<std::uint64_t> replica_hashes(const std::vector<std::int64_t>& replicas);

  // With ranks, on all of them: copies the state and the number of steps of rank 0.
  void take_state_of_first_rank();

  // Makes the next step and returns everything that it computes, with the names and layouts that
  // docs/recipes.md lists; on request with the activations of the network, which take far more
  // memory than the rest.
  InspectedStep inspect_step(bool activations = false);

  void start_profile();
  void stop_profile();
  // The profile of one worker: its replicas' program, then its update.
  std::vector<KernelProfile> profile(std::int64_t worker) const;

  // The trainer's data (trainer_state.h).
  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The names of the classes that are the trainer's target; empty if it has none.
std::vector<std::string> class_names_of(const Trainer& trainer);

// The default number of workers of this rank: as many as the devices of its backend, which this
// opens, or its share of the host's cores.
std::int64_t default_workers(std::int64_t replicas, const Placement& placement);

// Throws UserError(kUsage) if a run of so many replicas cannot have so many workers, or ranks.
void require_workers(std::int64_t workers, std::int64_t replicas);
void require_ranks(std::int64_t ranks, std::int64_t replicas);

// A warning if the CPU backend's threads of all ranks on this host are more than its usable cores;
// otherwise empty.
std::string oversubscription(const Trainer& trainer);

}  // namespace podium
