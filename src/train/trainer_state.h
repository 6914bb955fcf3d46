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
#include "base/thread_pool.h"
#include "data/prefetch.h"
#include "train/inference.h"
#include "train/trainer.h"

namespace podium {

inline std::size_t float_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

// One worker: its programs, its memory, the sums of its replicas.
struct Worker {
  ReplicaRange replicas;
  BoundExecutable program, evaluation_loss, update;
  std::unique_ptr<Inference> evaluation;
  std::vector<UpdatePiece> pieces;
  std::int64_t shard_begin = 0,
               shard_end = 0;  // of the flat floats [parameters | statistics | loss]

  AlignedBytes images, labels;  // of one replica
  std::vector<AlignedBytes>
      buffers;  // of flat floats: gradients and statistics of nodes of the tree
  std::vector<float*> free_buffers;
  std::vector<float*> held_buffers;     // published in this step
  std::uint32_t step = 0, replica = 0;  // scalars that the program reads
  std::int32_t correct = 0;
  // What is bound anew for each replica: its examples, and what its program writes to a buffer.
  struct FlatOutput {
    std::size_t slot;
    std::int64_t offset;  // in the buffer
  };
  std::size_t images_slot = 0, labels_slot = 0;
  std::vector<FlatOutput> flat_outputs;
  std::vector<std::size_t> gradient_slots;        // of the update, by piece
  std::vector<float> scalars;                     // of the optimizers
  const float* sums = nullptr;                    // over all replicas, of this worker's shard
  std::vector<std::uint64_t> hash_sums;           // by parameter, of this worker's shard
  double input_seconds = 0, waiting_seconds = 0;  // of this step

  AlignedBytes evaluation_labels, evaluation_losses;  // of an evaluation batch
};

using WorkerProgram = BoundExecutable Worker::*;

struct Trainer::State {
  explicit State(Recipe its_recipe) : recipe(std::move(its_recipe)), optimizers(recipe) {}

  Recipe recipe;
  Optimizers optimizers;
  Model model;
  Placement placement;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const Loader> loader;
  std::unique_ptr<Prefetcher> prefetcher;  // from the first step on, if threads make batches ahead
  std::shared_ptr<const ImageSet> held_out;
  std::unique_ptr<Loader> held_out_loader;
  ReplicaProgram program;
  std::int64_t replica_images = 0, evaluation_batch = 0, total_steps = 0;
  // What tells a set from another. Read from memory once: checkpoints ask for it, and trainers that
  // nobody runs do not.
  struct Identity {
    std::string text;
    const std::string& of(const ImageSet& set, StopToken stop = {});
  } training_identity, evaluation_identity;
  std::int64_t done = 0;

  AlignedBytes parameters,
      statistics;  // flat; statistics are [layout.parameter_floats, loss_offset) moved to 0
  std::vector<AlignedBytes> states;   // of the optimizers, flat as the parameters
  std::vector<float> losses;          // by replica
  std::vector<std::int32_t> correct;  // by replica
  bool finite = true;                 // whether the step may update
  bool gradients_ready = false;       // compute_gradients() was called, apply_update() not yet
  double seconds_before = 0;          // of the half of the step that was made before
  std::vector<TensorSpan> parameter_spans, gradient_spans;

  // Of recipe.clip_norm (gradient_norm.cc): the gradients in runs of at most kSquareRun elements,
  // how many runs each trained parameter has, and the sums of their squares.
  struct SquareRun {
    std::int64_t offset, count;
  };
  std::vector<SquareRun> square_runs;
  std::vector<std::int64_t> first_runs;  // of each parameter, and the number of all
  std::vector<float> square_sums;        // by run
  float gradient_norm = 0;

  std::vector<Worker> workers;
  std::unique_ptr<ThreadExchange> exchange;
  std::unique_ptr<ThreadPool> threads;  // one for each worker

  const FlatLayout& layout() const { return program.layout; }
  float* parameter_data() { return reinterpret_cast<float*>(parameters.data()); }
  float* statistic_data() { return reinterpret_cast<float*>(statistics.data()); }
  float* state_data(std::size_t i) { return reinterpret_cast<float*>(states[i].data()); }

  // A tensor of the state, where it lies in flat memory.
  struct Place {
    std::string name;  // in checkpoints
    Shape shape;
    float* values;
  };
  // Parameters, running statistics, the optimizer's state: all that a checkpoint holds, in order.
  std::vector<Place> places();
  std::vector<Place> values();  // the parameters and running statistics alone
  std::vector<TensorView> value_views();

  // The steps of making a trainer, in this order (trainer_setup.cc).
  void resolve_placement();
  void take_data(std::shared_ptr<const ImageSet> train, std::shared_ptr<const ImageSet> held_out);
  void build_program();
  void set_start_values(StopToken stop);
  void make_workers(StopToken stop);
  void prepare_program(Worker& worker);
  void prepare_update(Worker& worker);
  void prepare_evaluation();

  ReplicaInputs inputs_of(std::int64_t images) const;
  CompileOptions compile_options() const;
  // Parameters and running statistics, as inputs of a training program of the model.
  void bind_values(BoundExecutable& executable);

  PrefetchOptions prefetch_options() const;
  void run_replica(Worker& worker, std::int64_t replica, float* buffer);
  float* run_node(Worker& worker, ReplicaRange node);
  // A step, or a half of it: up to the sum of the gradients, and from there on.
  enum class Part { kWhole, kGradients, kUpdate };
  StepResult make(Part part, const StepOptions& options);
  void run_part(std::int64_t worker, Part part, const StepOptions& options);
  void release_buffers(Worker& worker);
  void require_gradients(const char* call) const;
  void prepare_clipping();
  bool clip_gradients(std::int64_t worker);
  bool help_others(std::int64_t helper, WorkerProgram what);
  void wait_for_others(std::int64_t helper, WorkerProgram what, double patience);
  void update_shard(Worker& worker, const StepOptions& options);
  bool losses_are_finite() const;  // of all replicas
  std::string diagnose();
};

}  // namespace podium
