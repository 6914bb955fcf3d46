// A lowered graph on the GPU: its memory between operations, and its launches, made one by one or
// recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/branches.h"
#include "backend/cuda/lowering.h"
#include "backend/cuda/runtime.h"
#include "backend/device.h"

namespace podium::PODIUM_CUDA_SPACE {

// Memory of the GPU, freed with the object.
class Allocation {
 public:
  Allocation() = default;
  explicit Allocation(std::int64_t bytes) : memory_(runtime::allocate(bytes)), bytes_(bytes) {}
  // Whose values are written before they are read.
  static Allocation scratch(std::int64_t bytes) {
    Allocation allocation;
    allocation.memory_ = runtime::allocate_scratch(bytes);
    allocation.bytes_ = bytes;
    return allocation;
  }
  ~Allocation() { reset(); }
  Allocation(Allocation&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::int64_t bytes() const { return bytes_; }
  void reset() {
    if (memory_ != nullptr) runtime::deallocate(std::exchange(memory_, nullptr));
    bytes_ = 0;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

class CudaBuffer : public Buffer {
 public:
  explicit CudaBuffer(std::int64_t bytes) : Buffer(bytes, nullptr), memory_(bytes) {}
  std::byte* data() const { return memory_.data(); }

 private:
  Allocation memory_;
};
std::byte* address(const View& view);

// An operand of a program: that of replica r lies `stride` bytes after that of replica r - 1.
using Place = Each<std::byte>;

// Work that must be enqueued before anything that depends on it.
class Pending {
 public:
  virtual ~Pending() = default;
  // Called with the queue's mutex held, and once: `pending` is null by then.
  virtual void finish() = 0;
};

// What all that runs on a device shares. The mutex guards the stream: launches of two programs do
// not mix, and what is recorded is one program's.
struct Queue {
  std::mutex mutex;
  Stream stream = nullptr;
  int device = 0;
  Pending* pending = nullptr;

  // Before a call on the stream, with the mutex held.
  void settle() {
    runtime::use(device);
    if (Pending* const work = std::exchange(pending, nullptr)) work->finish();
  }
};

class CudaExecutable : public Executable {
 public:
  CudaExecutable(Queue& queue, const Graph& graph, const CompileOptions& options);

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
              std::span<const Place> outputs, BranchStreams* streams = nullptr);
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
