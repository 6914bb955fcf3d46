// All replicas of a worker in the same launches, which are recorded once: those up to each
// milestone for themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/executable.h"

namespace podium::PODIUM_CUDA_SPACE {

// Launches that are made the first time, recorded the second time, and played from then on.
class RecordedLaunches {
 public:
  // `streams` are for launches that are being recorded. With the queue's mutex held.
  void run(Queue& queue, bool recordable, const std::function<void(BranchStreams*)>& launches);
  // Something lies elsewhere now.
  void forget() { recording_ = nullptr; }

 private:
  bool is_first_ = true;
  std::unique_ptr<runtime::Recording> recording_;
};

CudaExecutable& program_of(const Call& call);

// The replicas, their losses and the sums over them, for those who launch more beside them.
class CudaReplicas {
 public:
  CudaReplicas(Cards& cards, Queue& queue, ReplicasProgram program);

  bool is_recordable() const;
  // Of memory that launch() uses; what else uses it is enqueued before the first part or after the
  // last one.
  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::size_t milestones() const { return program_.milestones.size(); }
  // Up to this milestone, from the one before. With the queue's mutex held.
  void launch(std::size_t milestone, std::byte* arena);
  // The sums of a milestone, which are there then.
  std::vector<View> sums_of(std::size_t milestone) const;
  // Gives the card room for all that is read and written, and the newest values. Whether anything
  // lies where it did not the last time.
  bool prepare();
  std::string text() const;

 private:
  // Operand `i` of all replicas, if they lie at equal distances.
  std::optional<Place> common_place(std::size_t i, bool output) const;
  Place place_of(const View& view, std::size_t replica) const;
  // Where a replica writes what it adds to the sum.
  std::byte* addend(std::size_t replica) const;
  // Of a milestone, within that.
  std::int64_t offset_of(std::size_t milestone) const;
  // How many steps of the last replica there are to each milestone.
  std::vector<std::size_t> find_steps() const;
  CudaExecutable& program(std::size_t replica) const {
    return program_of(program_.replicas[replica]);
  }

  Cards& cards_;
  Queue& queue_;
  const ReplicasProgram program_;
  std::vector<View> reads_, writes_;      // but for the sum
  std::vector<const std::byte*> places_;  // of these
  bool together_ = true;                  // whether one launch computes all replicas
  std::int64_t arena_bytes_ = 0;
  std::vector<std::size_t> steps_;
  Allocation sums_;  // what each of several replicas adds to the sum, one after the other
};

// The replicas of a worker whose sums others go on with.
class CudaWorkerReplicas : public JointReplicas {
 public:
  CudaWorkerReplicas(Cards& cards, Queue& queue, ReplicasProgram program);
  void run(const std::function<void(std::size_t)>& reached) override;
  std::string text() const override { return replicas_.text(); }

 private:
  // To one milestone.
  struct Part {
    RecordedLaunches launches;
    std::shared_ptr<runtime::Event> end = runtime::make_event();
  };
  Cards& cards_;
  Queue& queue_;
  CudaReplicas replicas_;
  Allocation arena_;
  std::vector<Part> parts_;
};

}  // namespace podium::PODIUM_CUDA_SPACE
