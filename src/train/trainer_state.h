// What a trainer holds; shared by trainer.cc, trainer_setup.cc, step.cc, evaluator.cc and
// inspect.cc, and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/staging.h"
#include "base/thread_pool.h"
#include "data/prefetch.h"
#include "train/inference.h"
#include "train/step_programs.h"
#include "train/trainer.h"

namespace podium {

// One worker: its programs, its memory, the sums of its replicas.
struct Worker {
  int number = 0;
  ReplicaRange replicas;
  std::int64_t shard_begin = 0,
               shard_end = 0;  // of the flat bytes [parameters | statistics | loss]
  BoundExecutable program, update, evaluation_loss;
  BoundExecutable means, hashes, squares, norm, scale;  // train/step_programs.h
  std::unique_ptr<Inference> evaluation;

  Staging images, labels;                        // of one replica
  std::vector<std::unique_ptr<Buffer>> buffers;  // flat: gradients and statistics of nodes
  std::vector<Buffer*> free_buffers;
  std::vector<Buffer*> held_buffers;  // published in this step
  Staging place;                      // u32 step, u32 replica: scalars that the program reads
  // Of each replica: f32 losses, then i32 counts of correct answers.
  Staging results;
  // What is bound anew for each replica: its examples, and what its program writes.
  struct FlatOutput {
    std::size_t slot;
    std::int64_t offset, bytes;  // in the buffer
  };
  std::size_t images_slot = 0, labels_slot = 0, correct_slot = 0;
  std::vector<FlatOutput> flat_outputs;
  // Batches that were made ahead, as memory of the device, where that can be the host's.
  struct AdoptedBatch {
    const Prefetcher::Batch* batch;
    std::unique_ptr<Buffer> images, labels;
  };
  std::vector<AdoptedBatch> adopted;

  // Inputs that lie in the sum over all replicas, wherever that is in this step.
  struct FlatInput {
    std::size_t slot;
    FlatRange range;
  };
  std::vector<FlatInput> update_gradients, mean_sums, square_gradients;
  Staging scalars;                                // of the optimizers
  std::vector<std::size_t> hashed;                // parameters that its shard has a share of
  Staging hash_words;                             // u32[2] of each of these
  Staging norm_values;                            // f32 norm, f32 factor
  double input_seconds = 0, waiting_seconds = 0;  // of this step

  Staging evaluation_labels, evaluation_losses, guesses;  // of an evaluation batch
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
  std::shared_ptr<const Loader> loader;
  std::unique_ptr<Prefetcher> prefetcher;  // from the first step on, if threads make batches ahead
  std::shared_ptr<const ImageSet> held_out;
  std::unique_ptr<Loader> held_out_loader;
  ReplicaProgram program;
  // All workers of all ranks, and the first of this one's among them; what each of all has.
  std::int64_t first_worker = 0;
  Shards shards;
  ReplicaRange replicas;  // of this rank
  std::int64_t replica_images = 0, evaluation_batch = 0, total_steps = 0;
  // What tells a set from another. Read from memory once: checkpoints ask for it, and trainers that
  // nobody runs do not.
  struct Identity {
    std::string text;
    const std::string& of(const ImageSet& set, StopToken stop = {});
  } training_identity, evaluation_identity;
  std::int64_t done = 0;

  std::unique_ptr<Buffer> parameters,
      statistics;  // flat; statistics are [layout.parameter_bytes, loss_offset) moved to 0
  std::vector<std::unique_ptr<Buffer>> states;  // of the optimizers, flat as the parameters
  std::vector<float> losses;                    // by replica
  std::vector<std::int32_t> correct;            // by replica
  bool finite = true;                           // whether the step may update
  bool gradients_ready = false;  // compute_gradients() was called, apply_update() not yet
  double seconds_before = 0;     // of the half of the step that was made before
  std::vector<TensorSpan> parameter_spans, gradient_spans;
  Mirror parameter_mirror, gradient_mirror;

  // Of recipe.clip_norm (gradient_norm.cc).
  SquareRuns runs;
  std::unique_ptr<Buffer> squares;  // by run
  std::vector<View> square_parts;   // of it, by rank
  float gradient_norm = 0;

  BoundExecutable mean_loss;
  Staging mean_loss_value;
  std::vector<Worker> workers;
  std::unique_ptr<Exchange> exchange;
  // With several ranks, what each of them tells the others in a step: sums of hashes by parameter
  // and the mean loss, of which one rank knows it. [rank][parameters + 1]
  std::vector<std::uint64_t> tails;
  std::unique_ptr<ThreadPool> threads;  // one for each worker

  const FlatLayout& layout() const { return program.layout; }
  // Parameters, running statistics, the optimizer's state: all that a checkpoint holds, in order
  // and by its names there.
  std::vector<DeviceTensor> places() const;
  std::vector<DeviceTensor> values() const;  // the parameters and running statistics alone

  // The steps of making a trainer, in this order (trainer_setup.cc).
  std::int64_t default_workers_of_rank() const;
  void resolve_placement();
  void take_data(std::shared_ptr<const ImageSet> train, std::shared_ptr<const ImageSet> held_out);
  void build_program();
  void set_start_values(StopToken stop);
  void make_workers(StopToken stop);
  void prepare_exchange();
  void prepare_program(Worker& worker);
  void prepare_update(Worker& worker);
  void prepare_means(Worker& worker);
  void prepare_hashes(Worker& worker);
  void prepare_evaluation();

  ReplicaInputs inputs_of(std::int64_t images) const;
  // Parameters and running statistics, as inputs of a training program of the model.
  void bind_values(BoundExecutable& executable);

  PrefetchOptions prefetch_options() const;
  void bind_batch(Worker& worker, std::int64_t replica);
  void run_replica(Worker& worker, std::int64_t replica, Buffer& buffer);
  Buffer& run_node(Worker& worker, ReplicaRange node);
  void read_results(Worker& worker);
  Worker& owner(std::int64_t replica);
  // A step, or a half of it: up to the sum of the gradients, and from there on.
  enum class Part { kWhole, kGradients, kUpdate };
  StepResult make(Part part, const StepOptions& options);
  void run_part(std::int64_t worker, Part part, const StepOptions& options);
  void release_buffers(Worker& worker);
  void bind_sums(BoundExecutable& program, const std::vector<Worker::FlatInput>& inputs) const;
  void require_gradients(const char* call) const;
  void prepare_clipping();
  bool clip_gradients(Worker& worker);
  void wait_for_others(Worker& worker, double patience);
  void update_shard(Worker& worker, const StepOptions& options);
  bool losses_are_finite() const;  // of all replicas
  bool is_mine(std::int64_t replica) const {
    return replica >= replicas.begin && replica < replicas.end;
  }
  int ranks() const { return static_cast<int>(shards.workers.size()); }
  std::uint64_t* tail(int rank) {
    return tails.data() + static_cast<std::size_t>(rank) * (layout().parameters.size() + 1);
  }
  void share_updates(const StepOptions& options, StepResult& result);
  float total_loss();
  std::vector<TensorSpan> spans_of(float* flat, bool trained_only) const;
  void add_hashes(std::uint64_t* sums) const;
  std::string first_bad_operation();
  std::string diagnose();
};

}  // namespace podium
