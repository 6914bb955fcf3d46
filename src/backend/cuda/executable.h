// A lowered graph on the GPU: its memory between operations, and its launches, made one by one or
// recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cards.h"
#include "backend/cuda/lowering/branches.h"
#include "backend/cuda/lowering/lowering.h"
#include "backend/cuda/runtime.h"
#include "backend/device.h"

namespace podium::PODIUM_CUDA_SPACE {

// Whether a view lies within another one.
inline bool is_part(const View& view, const View& whole) {
  return view.buffer == whole.buffer && view.offset >= whole.offset &&
         view.offset + view.bytes <= whole.offset + whole.bytes;
}

// An operand of a program: that of replica r lies `stride` bytes after that of replica r - 1.
using Place = Each<std::byte>;
// On the card of the queue, each of one replica.
std::vector<Place> places_of(std::span<const View> views, const Queue& queue);

class CudaExecutable : public Executable {
 public:
  // On the card of `queue`.
  CudaExecutable(Cards& cards, Queue& queue, const Graph& graph, const CompileOptions& options);

  const Plan& plan() const override { return plan_; }
  void run(std::span<const View> inputs, std::span<const View> outputs) override;
  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View> outputs) override;
  void start_profile() override;
  void stop_profile() override { profiling_ = false; }
  std::vector<KernelProfile> profile() const override;

  // The parts of run(), for a whole step. The caller holds the queue's mutex.
  //
  // Whether the launches can be recorded: all operations have kernels, and none is timed.
  bool is_recordable() const { return recordable_ && !profiling_; }
  // Bytes of the arena for each replica.
  std::int64_t arena_bytes() const { return plan_.arena_bytes; }
  // Makes the launches for `replicas` replicas, whose arenas lie at `arena` one after the other.
  // `streams`: for launches that are being recorded; null: one after the other.
  void launch(int replicas, std::byte* arena, std::span<const Place> inputs,
              std::span<const Place> outputs, BranchStreams* streams = nullptr) {
    launch_steps(0, program_.steps.size(), replicas, arena, inputs, outputs, streams);
  }
  // Those of steps `begin` to `end` - 1 alone: all must be launched, in their order.
  void launch_steps(std::size_t begin, std::size_t end, int replicas, std::byte* arena,
                    std::span<const Place> inputs, std::span<const Place> outputs,
                    BranchStreams* streams = nullptr);
  std::size_t steps() const { return program_.steps.size(); }
  // The number of steps after which this output has been written.
  std::size_t steps_until(std::size_t output) const;
  std::string text() const;

 private:
  Memory bind(int replicas, std::byte* arena, std::span<const Place> inputs,
              std::span<const Place> outputs) const;
  void run_step(const Step& step, const Launch& launch, const Memory& memory) const;
  // Downloads what a step wrote.
  bool is_finite(Slot slot, const Memory& memory) const;
  std::byte* own_arena();

  struct Recorded {
    std::vector<Place> places;                      // of inputs and outputs
    bool seen = false;                              // in an earlier run
    std::unique_ptr<runtime::Recording> recording;  // made in the second run
  };
  Recorded& recorded(std::span<const Place> places);

  Cards& cards_;
  Queue& queue_;
  Program program_;
  Plan plan_;
  std::vector<std::int64_t> offsets_;  // by slot, in the arena
  int branches_ = 1;
  std::vector<Allocation> constants_;
  bool recordable_ = true;
  Allocation arena_;
  std::vector<Recorded> recordings_;
  bool profiling_ = false;
  std::int64_t runs_ = 0;
  std::vector<std::map<std::string, double>>
      seconds_;  // of each step, by phase; "": of one without
};

// What a graph needs, without any memory or launch.
Plan plan_of(const Graph& graph, const CompileOptions& options);

}  // namespace podium::PODIUM_CUDA_SPACE
