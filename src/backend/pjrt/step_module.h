// A whole step as a module of StableHLO: for one device, or one program that runs on several at
// once. With several,
//
//   each device runs its worker's replicas, one after the other or side by side, and adds them up
//   the tree as far as they reach
//   one all-to-all brings to each device what all have computed of its shard
//   each device adds that, in the tree's order
//   where the norm of the sum has a limit: one all-gather brings to all devices the sums of squares
//   of all shards, from which each computes the norm, and scales its shard
//   each device updates its shard
//   one all-gather brings to all devices what their replicas read
//   where hashes are wanted: each device hashes its shard
//
// The collectives carry integers, whose bits nobody may change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/pjrt/memory.h"
#include "compile/stablehlo/stablehlo.h"

namespace podium::pjrt {

// Of the executable of a call.
using GraphOf = std::function<const Graph&(const Executable&)>;

// A vector that the step reads or writes: an argument of the program, and a result where it is
// written.
struct StepVector {
  std::vector<WordBuffer*> buffers;  // by worker: of its own, or the same for all
  bool is_written = false;
  // Where updates write it, by worker, each as long as the longest; empty: none does. Windows do
  // not know devices.
  std::vector<Window> windows;
  bool is_whole = false;  // replicas read it

  // Each device has its window alone.
  bool in_parts() const { return !windows.empty() && !is_whole; }
  std::int64_t words() const { return in_parts() ? windows[0].words : buffers[0]->words(); }
};

// The bits are the same.
enum class ReplicaOrder {
  kInTurn,     // each begins when the one before has its gradients: the memory of one is enough
  kSideBySide  // as the compiler sees fit
};

class StepModule {
 public:
  // `step` and `graph_of` must outlive it.
  StepModule(const StepProgram& step, const GraphOf& graph_of, ReplicaOrder order);

  std::string text();
  // In the order of the program's arguments; results are those that are written.
  const std::vector<StepVector>& vectors() const { return vectors_; }

 private:
  using HloValue = stablehlo::HloValue;
  // What a replica wrote to the step's `sum`: FP32 vectors, by their first words in it.
  struct Part {
    std::int64_t first = 0;
    HloValue value;
  };
  using Replica = std::vector<Part>;

  std::size_t workers() const { return step_.workers.size(); }
  bool hashes() const { return static_cast<bool>(step_.workers[0].hash_wanted); }
  bool is_sum(const View& view) const { return view.buffer == step_.sum.buffer; }
  // Sums of squares, which all have between `squares` and `norm`.
  bool is_squares(const View& view) const {
    return step_.clips() && view.buffer == step_.workers[0].norm.inputs[0].buffer;
  }
  std::int64_t sum_words() const { return (step_.sum.bytes + 3) / 4; }
  std::size_t number_of(const View& view, std::size_t worker) const;
  void hold_replicas();
  void hold_updates();
  void hold_windows_of_sums();

  HloValue read(const HloValue& vector, std::int64_t first, const TensorType& type);
  HloValue written(const HloValue& vector, const HloValue& words, std::int64_t first);
  std::vector<HloValue> run(const Call& call,
                            const std::function<HloValue(const View&, const TensorType&)>& read);
  Replica run_replica(const Call& call);
  void begin_after(Replica& before, const Call& call);
  std::vector<HloValue> run_updates(std::size_t worker, const HloValue& sum);
  HloValue run_squares(std::size_t worker, const HloValue& sum);
  HloValue run_norm(const HloValue& squares);
  HloValue run_hashes(std::size_t worker);
  HloValue run_scales(std::size_t worker, const HloValue& sum);

  HloValue all_true(const HloValue& flags);
  HloValue sum_of(const std::vector<Replica>& replicas, std::size_t part, std::int64_t begin,
                  std::int64_t end);
  HloValue flat_sum(const std::vector<Replica>& replicas, std::int64_t begin, std::int64_t end);
  std::vector<HloValue> sums(const HloValue& finite, std::int64_t words,
                             const stablehlo::Builder::Branch& yes);
  std::vector<HloValue> local_sums(const std::vector<Replica>& replicas, const HloValue& finite);
  HloValue leaf_sum(const std::vector<HloValue>& leaves, std::int64_t begin, std::int64_t end);
  std::vector<HloValue> exchange(const std::vector<HloValue>& sums, HloValue& finite);
  HloValue read_sum(const View& view, const TensorType& type, std::size_t worker,
                    const HloValue& sum);
  HloValue of_device(const HloValue& condition);
  HloValue gathered_squares(const HloValue& own);
  HloValue clipped(HloValue& finite, const HloValue& sum);
  HloValue own_window(const HloValue& vector, const StepVector& of);
  void update(const HloValue& finite, const HloValue& sum);
  void hash(const HloValue& finite);
  void gather(const std::vector<std::size_t>& targets, const std::vector<HloValue>& windows);

  stablehlo::Builder b_{"HIGHEST"};
  const StepProgram& step_;
  const GraphOf& graph_of_;
  const ReplicaOrder order_;
  std::vector<StepVector> vectors_;
  std::vector<HloValue> values_;  // of each of these, as it is by now
  // What of the sum each worker's updates read, and what it writes of all sums of squares;
  // likewise each as long as the longest.
  std::vector<Window> sum_windows_, square_windows_;
};

}  // namespace podium::pjrt
