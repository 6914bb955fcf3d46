#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/executable.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/network.h"
#include "backend/cuda/roof.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/tensor_cores.h"
#include "backend/cuda/whole_step.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

#ifdef PODIUM_CUDA_EMULATED
constexpr const char* kName = "cuda-emulated";
#else
constexpr const char* kName = "cuda";
#endif

// Tensor cores keep 24 bits of a sum of 16 products, but may cut off instead of rounding: after 100
// of them, 100 * 2^-23 of the largest sum.
constexpr float kBf16Tolerance = 1.2e-5f;

class CudaDevice : public Device, public NetworkedDevice, public MeasuredDevice {
 public:
  CudaDevice(const DeviceOptions& options, const runtime::Found& found, int number)
      : Device(options), info_(found.devices[static_cast<std::size_t>(number)]) {
    queue_.device = number;
    runtime::use(number);
    queue_.stream = runtime::make_stream();
    try {
      free_memory_ = runtime::free_memory();
      // A program without code for this GPU fails here rather than in the first step.
      void* const word = runtime::allocate(4);
      fill({.stream = queue_.stream}, 1, 0, {static_cast<float*>(word), 0});
      runtime::synchronise(queue_.stream);
      runtime::deallocate(word);
    } catch (...) {
      runtime::destroy_stream(queue_.stream);
      throw;
    }
  }
  ~CudaDevice() override { runtime::destroy_stream(queue_.stream); }

  std::string name() const override { return kName; }
  std::string description() const override {
    return cat(info_.name, ", compute capability ", info_.major, ".", info_.minor, ", ",
               info_.memory / (1 << 20), " MiB");
  }
  // As nvidia-smi -L prints it.
  std::string serial() const override {
    std::string text = "GPU";
    for (std::size_t i = 0; i < info_.id.size(); ++i) {
      const auto byte = static_cast<unsigned char>(info_.id[i]);
      constexpr std::string_view kDigits = "0123456789abcdef";
      if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      text += kDigits[byte >> 4], text += kDigits[byte & 15];
    }
    return info_.id.size() == 16 ? text : "";
  }
  Traits traits() const override {
    return {
        .whole_steps = true, .replicas_together = true, .memory_bytes = free_memory_, .devices = 1};
  }

  Bf16Support bf16() override {
    const std::scoped_lock lock(queue_.mutex);
    return bf16_support();
  }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    runtime::use(queue_.device);
    return std::make_unique<CudaBuffer>(bytes);
  }

  void upload(View to, const void* from) override {
    const std::scoped_lock lock(queue_.mutex);
    // What the step that waits for its losses does not use can go ahead of its updates.
    const auto* const step = static_cast<const CudaStep*>(queue_.pending);
    if (step == nullptr || (step->updates_use(*to.buffer) && !seeded(SeededFault::kUploadTooEarly)))
      queue_.settle();
    runtime::use(queue_.device);
    runtime::upload(queue_.stream, address(to), from, to.bytes);
  }
  void download(void* to, View from) override {
    const std::scoped_lock lock(queue_.mutex);
    // What the replicas of a step made is there before its updates: they begin as soon as their
    // losses are known, and nobody waits for them here.
    auto* const step = static_cast<CudaStep*>(queue_.pending);
    const bool early = step != nullptr && !step->updates_use(*from.buffer);
    if (!early) queue_.settle();
    runtime::use(queue_.device);
    runtime::download(queue_.stream, to, address(from), from.bytes);
    if (!early) return;
    step->have_seen(to, from);
    queue_.settle();
  }
  void copy(View to, View from) override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    runtime::copy(queue_.stream, address(to), address(from), to.bytes);
  }
  void accumulate(View sum, View addend) override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    const Floats to{reinterpret_cast<float*>(address(sum)), 0};
    add({.stream = queue_.stream}, sum.bytes / static_cast<std::int64_t>(sizeof(float)), to,
        Floats{reinterpret_cast<float*>(address(addend)), 0}, to);
  }
  void synchronise() override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    runtime::synchronise(queue_.stream);
  }

  DeviceRoof roof() override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    return roof_of(queue_, info_);
  }

  std::string network_name() const override { return nccl::name(); }
  std::string network_missing() const override {
    const char* const choice = std::getenv("PODIUM_NCCL");
    if (choice != nullptr && std::string(choice) == "0") return "PODIUM_NCCL=0 is set";
    return nccl::library().missing;
  }
  std::string network_id() const override { return info_.id; }
  std::string make_network_key() override { return make_nccl_key(); }
  std::unique_ptr<DeviceNetwork> join_network(const std::string& key, int rank,
                                              std::span<const std::string> names) override {
    return join_nccl(queue_, key, rank, names);
  }

  Plan plan(const Graph& graph, const CompileOptions& compile) override {
    require_bf16(graph);
    return plan_of(graph, compile);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& compile) override {
    require_bf16(graph);
    runtime::use(queue_.device);
    return std::make_unique<CudaExecutable>(queue_, graph, compile);
  }
  std::unique_ptr<WholeStep> compile_step(const StepProgram& step) override {
    runtime::use(queue_.device);
    return std::make_unique<CudaStep>(queue_, step);
  }

 private:
  // Exact, if its tensor cores keep the rule of their capability.
  const Bf16Support& bf16_support() {
    if (bf16_) return *bf16_;
    const std::optional<Bf16Order> order = tensor_core_order(info_);
    constexpr int kWarps = 16;
    constexpr std::uint32_t kSeed = 1;
    queue_.settle();
    runtime::use(queue_.device);
    bf16_.emplace();
    bf16_->orders.clear();
    bf16_->missing = bf16_missing(info_);
    if (order && bf16_->missing.empty() &&
        probe_tensor_cores(queue_.stream, *order, kWarps, kSeed).differences == 0)
      bf16_->orders = bf16_->fast = {*order};
    else
      bf16_->family = cat("sm_", info_.major, info_.minor), bf16_->tolerance = kBf16Tolerance;
    return *bf16_;
  }
  // Within a family of its own, any order stands for the device's.
  void require_bf16(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (node.op == nullptr || !is_bf16(*node.op)) continue;
      const Bf16Support support = bf16();
      if (support.family.empty() || !support.missing.empty())
        require_bf16_order(cat(kName, " (", info_.name, ")"), support, bf16_order_of(node));
    }
  }

  const runtime::DeviceInfo info_;
  std::int64_t free_memory_ = 0;  // when it was opened: other processes may have the rest
  Queue queue_;
  std::optional<Bf16Support> bf16_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  const runtime::Found found = runtime::find_devices();
  PODIUM_REQUIRE(found.missing.empty(), ExitCode::kUsage, "--backend ", kName, ": ", found.missing);
  const int number = options.local_rank % static_cast<int>(found.devices.size());
  return std::make_unique<CudaDevice>(options, found, number);
}

std::vector<ProbedGpu> probe_gpus(std::int64_t sums) {
  constexpr std::int64_t kMostWarps = 4096, kWarpSums = 128;
  const auto warps = static_cast<int>(std::clamp<std::int64_t>(sums / kWarpSums, 1, kMostWarps));
  const runtime::Found found = runtime::find_devices();
  std::vector<ProbedGpu> list;
  for (std::size_t i = 0; found.missing.empty() && i < found.devices.size(); ++i) {
    const std::optional<Bf16Order> order = tensor_core_order(found.devices[i]);
    ProbedGpu& gpu = list.emplace_back();
    gpu.name = found.devices[i].name;
    runtime::use(static_cast<int>(i));
    if (!order || !bf16_missing(found.devices[i]).empty()) continue;
    gpu.bf16_order = name_of(*order);
    const Stream stream = runtime::make_stream();
    for (std::uint32_t seed = 1; gpu.sums < sums; ++seed) {
      const Probe probe = probe_tensor_cores(stream, *order, warps, seed);
      gpu.sums += probe.sums, gpu.differences += probe.differences;
    }
    runtime::destroy_stream(stream);
  }
  return list;
}

Gpus find_gpus() {
  const runtime::Found found = runtime::find_devices();
  Gpus gpus{.versions = found.versions, .missing = found.missing, .list = {}};
  if (found.missing.empty())
    gpus.versions +=
        nccl::library().missing.empty() ? cat(", ", nccl::name()) : ", no NCCL (libnccl.so.2)";
  for (const runtime::DeviceInfo& device : found.devices) {
    const std::optional<Bf16Order> order = tensor_core_order(device);
    gpus.list.push_back({.name = device.name,
                         .compute_capability = cat(device.major, ".", device.minor),
                         .bf16_order = order ? std::string(name_of(*order)) : "",
                         .memory_bytes = device.memory});
  }
  return gpus;
}

}  // namespace podium::PODIUM_CUDA_SPACE
