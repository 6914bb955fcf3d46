// A device of any backend that computes wrongly on request, for the tests of audits: it flips bits
// where a fault of the hardware would.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "base/numerics/hash.h"

namespace podium {

enum class Flip : std::uint8_t {
  kNone,
  kKernel,        // of a result, now and then
  kAlways,        // of every result that one thread, and so one core, computes: always the same bit
  kAlwaysOnRank,  // the same of all threads of one device among several
  kAddition,      // of a sum of the tree
  kParameter,     // of a parameter that lies in memory, by flip_parameter()
  kMessage,       // of what comes from another rank (FaultyTransport)
  kGradients,     // of what replicas compute, always the same
};

// Shared by all faulty devices of a test.
struct Flips {
  Flip kind = Flip::kNone;
  std::uint64_t seed = 1;
  std::atomic<bool> armed = false;
  int rank = -1;  // of kAlwaysOnRank: DeviceOptions::local_rank
  std::string inner = "cpu";
  std::atomic<std::uint64_t> calls = 0;
  std::mutex mutex;
  std::optional<std::thread::id> core;

  static Flips& of_test() {
    static Flips flips;
    return flips;
  }
  void reset(Flip new_kind, std::uint64_t new_seed, const std::string& backend) {
    kind = new_kind, seed = new_seed, inner = backend, armed = false, calls = 0, rank = -1;
    core.reset();
  }
  std::uint64_t word() { return hash_mix(seed * 1000003 + ++calls); }
  // Of about every second call.
  bool strikes(Flip what) { return armed && kind == what && word() % 2 == 0; }
  bool is_core() {
    const std::scoped_lock lock(mutex);
    if (!core) core = std::this_thread::get_id();
    return *core == std::this_thread::get_id();
  }
};

inline void flip_bit(Device& device, View view, std::uint64_t word) {
  if (view.bytes < 4) return;
  const View one = view.part(
      static_cast<std::int64_t>(word % static_cast<std::uint64_t>(view.bytes / 4)) * 4, 4);
  std::uint32_t value = 0;
  device.download(&value, one);
  value ^= 1U << ((word >> 32) % 23);  // of the significand: it stays finite
  device.upload(one, &value);
}

class FaultyExecutable : public Executable {
 public:
  FaultyExecutable(Device& device, std::unique_ptr<Executable> inner, int rank)
      : device_(device), inner_(std::move(inner)), rank_(rank) {}
  const Plan& plan() const override { return inner_->plan(); }
  void run(std::span<const View> inputs, std::span<const View> outputs) override {
    inner_->run(inputs, outputs);
    std::vector<View> all(outputs.begin(), outputs.end());
    strike(all);
  }
  void run_to_milestones(std::span<const View> inputs, std::span<const View> outputs,
                         const std::function<void(std::size_t)>& reached) override {
    inner_->run_to_milestones(inputs, outputs, [&](std::size_t milestone) {
      std::vector<View> made;
      for (const int output : plan().milestones[milestone])
        made.push_back(outputs[static_cast<std::size_t>(output)]);
      strike(made);
      reached(milestone);
    });
  }
  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View> outputs) override {
    return inner_->find_non_finite(inputs, outputs);
  }
  const Executable& inner() const { return *inner_; }

 private:
  void strike(const std::vector<View>& outputs) {
    Flips& flips = Flips::of_test();
    if (!flips.armed || outputs.empty()) return;
    if (flips.strikes(Flip::kKernel)) {
      const std::uint64_t word = flips.word();
      flip_bit(device_, outputs[word % outputs.size()], hash_mix(word));
    } else if ((flips.kind == Flip::kAlways && flips.is_core()) ||
               (flips.kind == Flip::kAlwaysOnRank && rank_ == flips.rank) ||
               (flips.kind == Flip::kGradients && is_of_replica())) {
      flip_bit(device_, outputs[flips.seed % outputs.size()], hash_mix(flips.seed));
    }
  }
  bool is_of_replica() const {
    return std::ranges::find(plan().outputs, "loss", &NamedType::name) != plan().outputs.end();
  }
  Device& device_;
  std::unique_ptr<Executable> inner_;
  const int rank_;
};

class FaultyDevice : public Device {
 public:
  explicit FaultyDevice(const DeviceOptions& options)
      : Device(options), inner_(make_device(Flips::of_test().inner, options)) {}
  std::string name() const override { return "faulty"; }
  std::string description() const override { return inner_->description(); }
  Traits traits() const override {
    Traits traits = inner_->traits();
    traits.step_workers = 0;
    traits.joint_replicas = false;
    return traits;
  }
  Bf16Support bf16() override { return inner_->bf16(); }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    auto buffer = inner_->allocate(bytes);
    const std::scoped_lock lock(mutex_);
    buffers_.push_back(buffer.get());
    return buffer;
  }
  std::unique_ptr<Buffer> adopt(void* memory, std::int64_t bytes) override {
    return inner_->adopt(memory, bytes);
  }
  void upload(View to, const void* from) override { inner_->upload(to, from); }
  void download(void* to, View from) override { inner_->download(to, from); }
  void copy(View to, View from) override { inner_->copy(to, from); }
  void accumulate(View sum, View addend, int worker) override {
    inner_->accumulate(sum, addend, worker);
    Flips& flips = Flips::of_test();
    if (flips.strikes(Flip::kAddition)) flip_bit(*inner_, sum, flips.word());
  }
  void synchronise() override { inner_->synchronise(); }
  Plan plan(const Graph& graph, const CompileOptions& options) override {
    return inner_->plan(graph, inner_options(options));
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override {
    return std::make_unique<FaultyExecutable>(
        *inner_, inner_->compile(graph, inner_options(options)), Device::options().local_rank);
  }
  bool idle(int worker) override { return inner_->idle(worker); }

  // The parameters are the first memory that a trainer allocates of that many bytes.
  void flip_parameter(std::int64_t bytes) {
    for (Buffer* const buffer : buffers_) {
      if (buffer->bytes() != bytes) continue;
      flip_bit(*inner_, *buffer, Flips::of_test().word());
      return;
    }
  }

 private:
  static CompileOptions inner_options(CompileOptions options) {
    // Of a plan, it is none of these.
    if (const auto* faulty = dynamic_cast<const FaultyExecutable*>(options.arena_of))
      options.arena_of = &faulty->inner();
    return options;
  }
  std::unique_ptr<Device> inner_;
  std::mutex mutex_;
  std::vector<Buffer*> buffers_;
};

inline void register_faulty_backend() {
  static const bool once = [] {
    register_backend("faulty", [](const DeviceOptions& options) -> std::unique_ptr<Device> {
      return std::make_unique<FaultyDevice>(options);
    });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace podium
