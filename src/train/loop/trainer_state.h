// What a trainer holds; shared by trainer.cc, trainer_setup.cc, rank_plan.cc, step.cc,
// whole_step.cc, audit.cc, evaluator.cc and inspect.cc, and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/staging.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "data/source/prefetch.h"
#include "parallel/exchange.h"
#include "train/loop/batch_memory.h"
#include "train/loop/inference.h"
#include "train/loop/trainer.h"
#include "train/program/step_programs.h"
#include "train/run/rank_plan.h"

namespace podium {

constexpr std::int64_t kWord = sizeof(float);

// What a worker updates of one bucket of the exchange, and the programs that do so
// (train/program/step_programs.h).
struct Shard {
  FlatRange range;  // of [parameters | statistics | loss]
  BoundExecutable update, means, hashes, squares, scale;
  // Inputs that lie in the sum over all replicas, wherever that is in this step.
  struct FlatInput {
    std::size_t slot;
    FlatRange range;
  };
  std::vector<FlatInput> update_gradients, mean_sums, square_gradients, scale_values;
  std::vector<std::size_t> hashed;  // parameters that it has a share of
  Staging hash_words;               // u32[2] of each of these
};

// What a worker runs for a replica whose examples have one of the lengths of the data.
struct ReplicaRun {
  BoundExecutable program;
  BatchMemory batch;  // of one replica
  // What is bound anew for each replica: its examples, and what its program writes.
  struct FlatOutput {
    std::size_t slot;
    std::int64_t offset, bytes;  // in the buffer
  };
  std::vector<std::size_t> field_slots, count_slots, carried_inputs, carried_outputs;
  std::vector<FlatOutput> flat_outputs;
};

struct ReplicaInputs;  // audit.cc

// One worker: its programs, its memory, the sums of its replicas.
struct Worker {
  int number = 0;
  int lane = 0;  // of Placement::trace
  ReplicaRange replicas;
  std::vector<ReplicaRange> nodes;        // the largest of the tree within these
  std::vector<Shard> shards;              // of each bucket
  std::vector<ReplicaRun> runs;           // by length, from the least
  BoundExecutable norm, evaluation_loss;  // the latter makes `scores`
  std::unique_ptr<Inference> evaluation;

  std::vector<std::unique_ptr<Buffer>> buffers;  // flat: gradients and statistics of nodes
  std::vector<Buffer*> free_buffers;
  std::vector<Buffer*> held_buffers;  // published in this step
  // While the last replica runs: the sums left of it that it is to be added to, the root's first.
  std::vector<Buffer*> left_sums;
  Buffer* last_buffer = nullptr;
  std::function<void(std::size_t)> reached;  // a milestone of the last replica's run: a bucket
  Staging place;  // u32 step, u32 replica: scalars that the program reads
  // f32 losses of all replicas, then their i32 counts, all of one count after those of another.
  Staging results;
  // Batches that were made ahead, as memory of the device, where that can be the host's.
  struct AdoptedBatch {
    const Prefetcher::Batch* batch;
    std::vector<std::unique_ptr<Buffer>> fields;
  };
  std::vector<AdoptedBatch> adopted;

  Staging scalars;                                // of the optimizers
  Staging norm_values;                            // f32 norm, f32 factor
  double input_seconds = 0, waiting_seconds = 0;  // of this step

  // Of the items' weights: what gradients are multiplied by, beside the factor of clipping.
  Staging correction;

  // Of all its replicas in a step, where they are one program, or a part of one (whole_step.cc).
  struct StepBatch {
    BatchMemory examples;
    Staging places;          // u32 step, u32 replica of each
    std::int64_t sent = -1;  // the step whose batch lies there
  } batch;
  std::unique_ptr<JointReplicas> all_replicas;  // null: they run one after the other

  BatchMemory evaluation_batch;
  // What the score makes of it, by name, if the mean over several views comes first; otherwise the
  // outputs of `evaluation` are that.
  std::vector<std::pair<std::string, Staging>> scores;
  // Null: the score gives none of this name.
  const Staging* score(std::string_view name) const;
};

// The step as one program, where the device takes it as such (whole_step.cc).
struct WholeStepState {
  std::unique_ptr<WholeStep> program;  // null: workers make the steps
  Staging hash_wanted;                 // u32; of nothing: the program has no hashes
  bool are_hashes_wanted = false;
};

// What replicas carry from step to step (carried.cc), each its own: the values of this rank's
// replicas, one replica after the other.
struct CarriedState {
  // Step s reads memory[s % 2] and writes the other one: they change places where the step counts,
  // and a step that is refused or made again finds what it found before.
  std::unique_ptr<Buffer> memory[2];
  std::unique_ptr<Buffer> zeros;             // of one replica: what its streams begin with
  std::vector<std::uint64_t> hashes;         // [replica][value], of all
  Exchange::Round hash_round;                // each rank's part of them
  std::vector<NamedTensor> of_all_replicas;  // as restored, for other ranks
  std::int64_t bytes() const {
    return memory[0] ? memory[0]->bytes() + memory[1]->bytes() + zeros->bytes() : 0;
  }
};

// Values of the device that the caller reads and changes (Trainer::parameters()): the device's
// where the host can reach them, otherwise a copy that goes to the device before it is used and
// comes back afterwards.
class Mirror {
 public:
  // Waits for the device. Valid until opened for another view.
  float* open(Device& device, View view) {
    device_ = &device;
    view_ = view;
    if (view.host() == nullptr && std::ssize(copy_) < view.bytes)
      copy_ = AlignedBytes(static_cast<std::size_t>(view.bytes));
    pull();
    return reinterpret_cast<float*>(view.host() == nullptr ? copy_.data() : view.host());
  }
  bool is_open() const { return device_ != nullptr; }
  void push() const {
    if (device_ != nullptr && view_.host() == nullptr) device_->upload(view_, copy_.data());
  }
  void pull() const {
    if (device_ == nullptr) return;
    if (view_.host() == nullptr) {
      device_->download(copy_.data(), view_);
    } else {
      device_->synchronise();
    }
  }

 private:
  Device* device_ = nullptr;
  View view_;
  AlignedBytes copy_;
};

struct Trainer::State {
  explicit State(Recipe its_recipe) : recipe(std::move(its_recipe)), optimizers(recipe) {}

  Recipe recipe;
  Optimizers optimizers;
  Model model;
  Placement placement;
  std::unique_ptr<Device> device;
  Precision precision;  // on this device
  DataShape data;
  std::shared_ptr<const Loader> loader;
  std::unique_ptr<Prefetcher> prefetcher;  // from the first step on, if threads make batches ahead
  std::shared_ptr<const Source> held_out;
  std::unique_ptr<Loader> held_out_loader;
  ReplicaProgram program;               // of examples of the greatest length,
  std::vector<ReplicaProgram> shorter;  // and of the others, from the least
  std::int64_t items_of_step = 0;       // of the whole batch
  Shards shards;
  ReplicaRange replicas;  // of this rank
  std::int64_t replica_rows = 0, evaluation_batch = 0, total_steps = 0;
  // What tells a set from another. Read from memory once: checkpoints ask for it, and trainers that
  // nobody runs do not.
  struct Identity {
    std::string text;
    const std::string& of(const Source& set, StopToken stop = {});
  } training_identity, evaluation_identity;
  std::int64_t done = 0;

  std::unique_ptr<Buffer> parameters,
      statistics;  // flat; statistics are [layout.parameter_bytes, loss_offset) moved to 0
  std::vector<std::unique_ptr<Buffer>> states;    // of the optimizers, flat as the parameters
  std::vector<float> losses;                      // by replica
  std::vector<std::vector<std::int32_t>> counts;  // of the program, each by replica
  bool finite = true;                             // whether the step may update
  bool gradients_ready = false;  // compute_gradients() was called, apply_update() not yet
  double seconds_before = 0;     // of the half of the step that was made before
  std::vector<TensorSpan> parameter_spans, gradient_spans;
  Mirror parameter_mirror, gradient_mirror;

  // Of recipe.clip_norm (gradient_norm.cc).
  SquareRuns runs;
  std::unique_ptr<Buffer> squares;  // by run
  Exchange::Round square_round;     // each rank's part of it
  float gradient_norm = 0;

  BoundExecutable mean_loss;
  std::vector<Shard::FlatInput> mean_loss_sum;
  Staging mean_loss_value;
  std::vector<Worker> workers;
  WholeStepState whole_step;
  CarriedState carried;
  bool is_whole = false;  // this step is one program
  std::unique_ptr<Exchange> exchange;
  // With several ranks, what each of them tells the others in a step: sums of hashes by parameter
  // and the mean loss, of which one rank knows it. [rank][parameters + 1]
  std::vector<std::uint64_t> tails;
  Exchange::Round tail_round;
  std::unique_ptr<ThreadPool> threads;  // one for each worker
  // While a step is audited: by how many threads the workers' parts are moved on, and whether the
  // step is made again, so that its batch is still needed.
  int moved_by = 0;
  bool is_repeated = false;
  struct Snapshot;
  struct BesideCheck;
  std::optional<std::uint64_t> last_hash;  // of the step before, where it was asked for
  bool is_checking = false;                // on some rank, a replica beside the steps (audit.cc)
  std::shared_ptr<BesideCheck> check;      // if it is this one

  const FlatLayout& layout() const { return program.layout; }
  std::size_t lengths() const { return shorter.size() + 1; }
  const ReplicaProgram& program_of(std::size_t length) const {
    return length < shorter.size() ? shorter[length] : program;
  }
  // What the worker runs in the step that comes, or is being made.
  ReplicaRun& run_of(Worker& worker) const { return worker.runs[loader->bucket_of(done)]; }
  // Parameters, running statistics, the optimizer's state: all that a checkpoint holds, in order
  // and by its names there.
  std::vector<DeviceTensor> places() const;
  std::vector<DeviceTensor> values() const;  // the parameters and running statistics alone

  // The steps of making a trainer, in this order (trainer_setup.cc). A plan of a run takes those
  // alone that need neither data nor threads, on a device that only counts (rank_plan.cc).
  // `workers_of_ranks`: empty: the ranks tell each other.
  void resolve_placement(std::vector<int> workers_of_ranks = {});
  void open_device();
  void take_data(std::shared_ptr<const Source> train, std::shared_ptr<const Source> held_out);
  void start_input_threads();
  void build_program();
  void allocate_values();
  void set_start_values(StopToken stop);
  void make_workers(StopToken stop);
  void prepare_exchange();
  void prepare_program(Worker& worker, std::size_t length);
  bool takes_whole_steps() const;
  bool joins_replicas() const;
  void prepare_whole_step();
  void prepare_all_replicas(Worker& worker);
  void allocate_batch(Worker& worker);
  std::vector<Call> replica_calls(Worker& worker, View sum);
  StepProgram::Worker whole_step_of(Worker& worker, View sum);
  // What a replica's program reads: its rows of a batch, and u32 step, u32 replica.
  void bind_examples(ReplicaRun& run, const BatchMemory& batch, std::int64_t first, View place);
  void bind_scalars(Shard& shard, View scalars);
  void prepare_update(Worker& worker, Shard& shard);
  void prepare_means(Worker& worker, Shard& shard);
  void prepare_hashes(Worker& worker, Shard& shard);
  void prepare_evaluation();

  MemoryUse shared_memory() const;  // by all workers
  MemoryUse memory_of(const Worker& worker) const;
  std::int64_t fetched_bytes(const Worker& worker) const;
  RankPlan plan() const;

  std::vector<Field> fields_of(std::size_t length) const;
  BatchInputs inputs_of(std::int64_t rows, std::size_t length) const;
  BatchInputs inputs_of(std::int64_t rows) const { return inputs_of(rows, lengths() - 1); }
  ReplicaProgram program_for(std::size_t length) const;
  void require_same_layout(const ReplicaProgram& other, std::size_t length) const;
  Sums sums_of_step() const;
  // Parameters and running statistics, as inputs of a training program of the model.
  void bind_values(BoundExecutable& executable);

  PrefetchOptions prefetch_options() const;
  void bind_batch(Worker& worker, std::int64_t replica);
  void send_place(Worker& worker, std::int64_t replica);
  void bind_outputs(Worker& worker, std::int64_t replica, std::int64_t own, Buffer& buffer);
  void bind_replica(Worker& worker, std::int64_t replica, Buffer& buffer);
  void run_replica(Worker& worker, std::int64_t replica, Buffer& buffer);
  void run_last_replica(Worker& worker, Buffer& buffer);
  void keep_loss(Worker& worker, std::int64_t replica, Buffer& buffer);
  void complete_bucket(Worker& worker, int bucket);
  Buffer& run_node(Worker& worker, ReplicaRange node);
  void run_nodes(Worker& worker);
  void read_results(Worker& worker);
  Worker& owner(std::int64_t replica);
  // A step, or a half of it: up to the sum of the gradients, and from there on.
  enum class Part { kWhole, kGradients, kUpdate };
  StepResult make(Part part, const StepOptions& options);
  void run_part(std::int64_t worker, Part part, const StepOptions& options);
  void run_whole_step(const StepOptions& options);
  void run_all_replicas(Worker& worker);
  void want_hashes(bool wanted);
  void send_batch(Worker& worker, std::int64_t step);
  // Before a step is made again, or another one than the next.
  void forget_batches();
  void release_buffers(Worker& worker);
  void bind_sums(BoundExecutable& program, const std::vector<Shard::FlatInput>& inputs) const;
  void require_gradients(const char* call) const;
  std::uint64_t parameter_hash();
  // The batch of a step, as inspect shows it (inspect.cc).
  std::vector<NamedTensor> batch_of(std::int64_t step) const;
  // A step made twice (audit.cc).
  StepResult audited(const StepOptions& options);
  void begin_check(std::int64_t replica, std::shared_ptr<const Snapshot> before);
  std::shared_ptr<const Disagreement> end_check();
  std::shared_ptr<const Disagreement> told_to_all(Disagreement found, const std::vector<int>& wrong,
                                                  const std::function<void(Disagreement&)>& add);
  void add_step_to(Disagreement& found, std::int64_t step, const Snapshot& before) const;
  std::vector<int> known_to_all(const std::vector<int>& numbers);
  Snapshot snapshot();
  void return_to(const Snapshot& snapshot, std::int64_t step);
  std::string cross_check(std::int64_t replica, std::vector<int>& wrong);
  std::string workers_that_differ();
  std::uint64_t replica_hash(Worker& worker, std::int64_t replica);
  ReplicaInputs inputs_of(Worker& worker);
  static std::uint64_t hash_on(Device& on, const Graph& graph, const ReplicaRun& run,
                               const ReplicaInputs& inputs);
  void prepare_scaling();
  void prepare_clipping();
  bool clip_gradients(Worker& worker);
  // Where items have weights (weights.cc).
  std::int64_t weight_of_step() const;
  float correction_of_step() const;
  void set_correction(Worker& worker, float correction) const;
  void correct_gradients(Worker& worker, int bucket) const;
  void require_weight() const;
  // What a model carries (carried.cc).
  void require_streams() const;
  void require_same_carried(const Graph& evaluation) const;
  void allocate_carried();
  void prepare_carried_hashes();
  TensorType all_carried(const FlatEntry& entry) const;  // of all replicas
  // Where it lies before step `step`.
  View carried_view(std::int64_t step, std::int64_t replica, const FlatEntry& entry) const;
  void bind_carried(Worker& worker, std::int64_t replica);
  std::string first_non_finite_carried() const;  // of all ranks; empty: none
  std::uint64_t with_carried_hash(std::uint64_t hash);
  void add_carried(Checkpoint& checkpoint);
  void check_carried(const Checkpoint& checkpoint, const std::vector<NamedTensor>& tensors) const;
  void take_carried(std::int64_t step, const std::vector<NamedTensor>& tensors);
  void share_carried_of_first_rank();
  void wait_for_others(Worker& worker, double patience);
  bool sum_and_update(Worker& worker, Part part, const StepOptions& options);
  void update_shard(Worker& worker, int bucket, const StepOptions& options);
  bool losses_are_finite() const;  // of all replicas
  bool may_update() const;         // as far as losses and weights say
  int rank() const { return placement.ranks == nullptr ? 0 : placement.ranks->rank(); }
  int ranks() const { return shards.ranks(); }
  // Before parameters, statistics or optimizer states are read or written by anything but a step:
  // what other ranks have updated is here, and what the caller has changed is on the device.
  void settle();
  std::uint64_t* tail(int rank) {
    return tails.data() + static_cast<std::size_t>(rank) * (layout().parameters.size() + 1);
  }
  void share_results(const StepOptions& options, StepResult& result);
  float total_loss();
  std::vector<TensorSpan> spans_of(float* flat, bool trained_only) const;
  void add_hashes(std::uint64_t* sums) const;
  std::string first_bad_operation();
  std::string diagnose();
};

// What a tensor of a checkpoint is called in an inspected step, "before" or "after" it.
std::string inspected_name(const std::string& tensor, const char* when);

}  // namespace podium
