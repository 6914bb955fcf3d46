// A whole step of one worker: all replicas in the same launches, recorded once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/executable.h"
#include "backend/cuda/replicas.h"

namespace podium::PODIUM_CUDA_SPACE {

// The replicas, the tree over them, the losses and the norm are enqueued by run(). The updates
// follow when the losses and the norm are known to be finite: the queue calls finish() before the
// next call that may depend on them, so that the host can prepare the next batch meanwhile.
class CudaStep : public WholeStep, public Pending {
 public:
  // On the card of `queue`, the only one.
  CudaStep(Cards& cards, Queue& queue, StepProgram step);
  ~CudaStep() override;
  void run() override;
  std::string text() const override;

  void finish() override;
  // Whether the updates read or write this buffer.
  bool updates_use(const Buffer& buffer) const;
  // What the host has downloaded since run(): it may be the losses, or the norm.
  void have_seen(const void* values, const View& view);

 private:
  // What the host reads between the replicas and the updates.
  struct Seen {
    View view;
    std::vector<float> values = {};  // of this run; none: not yet downloaded
  };
  const std::vector<float>& look_at(Seen& seen);
  void launch_replicas();
  void run_calls(const std::vector<Call>& calls, RecordedLaunches& recorded);
  void launch_calls(const std::vector<Call>& calls, BranchStreams* streams);
  // What runs after the replicas, in their arena.
  std::array<const std::vector<Call>*, 3> later_calls() const;
  bool is_recordable() const;

  Queue& queue_;
  const StepProgram step_;
  const StepProgram::Worker& worker_;
  CudaReplicas all_replicas_;
  std::vector<Call> norm_calls_;  // of the sum: squares, then their norm
  Allocation arena_;              // of all replicas; later calls use it in their turn
  Seen losses_, norm_;            // the norm and its factor
  RecordedLaunches replicas_, scales_, updates_;
};

}  // namespace podium::PODIUM_CUDA_SPACE
