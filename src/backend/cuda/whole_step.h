// A whole step of one worker: all replicas in the same launches, recorded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/executable.h"

namespace podium::PODIUM_CUDA_SPACE {

// The replicas, the tree over them and the losses are enqueued by run(). The updates follow when
// the losses are known to be finite: the queue calls finish() before the next call that may depend
// on them, so that the host can prepare the next batch meanwhile.
class CudaStep : public WholeStep, public Pending {
 public:
  CudaStep(Queue& queue, StepProgram step);
  ~CudaStep() override;
  void run() override;
  std::string text() const override;

  void finish() override;
  // Whether the updates read or write this buffer.
  bool updates_use(const Buffer& buffer) const;
  // What the host has downloaded since run(): it may be the losses.
  void have_seen(const void* values, const View& view);

 private:
  void run_replicas();
  void run_updates();
  void launch_replicas();
  // Operand `i` of all replicas, if they lie at equal distances.
  std::optional<Place> common_place(std::size_t i, bool output) const;
  Place place_of(const View& view, std::size_t replica) const;
  CudaExecutable& program(std::size_t replica) const;
  bool is_recordable() const;

  Queue& queue_;
  const StepProgram step_;
  const StepProgram::Worker& worker_;
  bool together_ = true;  // whether one launch computes all replicas
  Allocation arena_;      // of all replicas
  Allocation sums_;       // what each replica adds to the sum, one after the other
  std::int64_t runs_ = 0;
  std::vector<float> losses_;  // of this run, if the host has seen them
  std::unique_ptr<runtime::Recording> replicas_, updates_;
};

}  // namespace podium::PODIUM_CUDA_SPACE
