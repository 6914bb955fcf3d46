#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cuda/cards.h"
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
#include "base/log.h"
#include "base/words.h"
#include "ops/bf16.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

#ifdef PODIUM_CUDA_EMULATED
constexpr const char* kName = "cuda-emulated";
#else
constexpr const char* kName = "cuda";
#endif

// Of each tile that is tried by both instructions when BF16 is first asked for. The emulation takes
// long for it, and has tests of its own.
#ifdef PODIUM_CUDA_EMULATED
constexpr int kTriedTerms = 32;
#else
constexpr int kTriedTerms = 256;
#endif

// Tensor cores keep 24 bits of a sum of 16 products, but may cut off instead of rounding.
constexpr float kBf16Tolerance = 0x1p-23f;

// The GPUs' numbers and what is known of them.
struct Chosen {
  std::vector<int> numbers;
  std::vector<runtime::DeviceInfo> infos;
  // Of those that the workers compute on.
  std::span<const int> used(int workers) const {
    return std::span(numbers).first(std::min(numbers.size(), static_cast<std::size_t>(workers)));
  }
};

class CudaDevice : public Device, public NetworkedDevice, public MeasuredDevice {
 public:
  CudaDevice(const DeviceOptions& options, Chosen chosen)
      : Device(options),
        chosen_(std::move(chosen)),
        cards_(chosen_.used(options.workers), options.workers) {
    for (int card = 0; card < cards_.count(); ++card) {
      const Queue& queue = cards_.of_worker(card);
      runtime::use(queue.device);
      const std::int64_t free = runtime::free_memory();
      free_memory_ = card == 0 ? free : std::min(free_memory_, free);
      // A program without code for this GPU fails here rather than in the first step.
      const Allocation word(4);
      fill({.stream = queue.stream}, 1, 0, {reinterpret_cast<float*>(word.data()), 0});
      runtime::synchronise(queue.stream);
    }
  }

  std::string name() const override { return kName; }
  std::string description() const override {
    std::string text;
    for (int card = 0; card < cards_.count();) {
      const runtime::DeviceInfo& info = info_of(card);
      const std::string name = cat(info.name, ", compute capability ", info.major, ".", info.minor,
                                   ", ", info.memory / (1 << 20), " MiB");
      int count = 0;
      for (; card < cards_.count() && info_of(card).name == info.name; ++card) ++count;
      text += cat(text.empty() ? "" : "; ", count == 1 ? "" : cat(count, " x "), name);
    }
    return text;
  }
  // As nvidia-smi -L prints it.
  std::string serial(int worker) const override {
    const std::string& id = info_of(worker % cards_.count()).id;
    std::string text = "GPU";
    for (std::size_t i = 0; i < id.size(); ++i) {
      const auto byte = static_cast<unsigned char>(id[i]);
      constexpr std::string_view kDigits = "0123456789abcdef";
      if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      text += kDigits[byte >> 4], text += kDigits[byte & 15];
    }
    return id.size() == 16 ? text : "";
  }
  Traits traits() const override {
    return {.step_workers = 1,
            .replicas_together = true,
            .joint_replicas = true,
            .memory_bytes = free_memory_,
            .devices = static_cast<int>(chosen_.numbers.size())};
  }

  Bf16Support bf16() override {
    const std::scoped_lock lock(bf16_mutex_);
    return bf16_support();
  }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override { return cards_.allocate(bytes); }

  void upload(View to, const void* from) override {
    Queue& queue = cards_.home_of(to);
    cards_.prepare(queue, {}, {&to, 1});
    const std::scoped_lock lock(queue.mutex);
    // What the step that waits for its losses does not use can go ahead of its updates.
    const auto* const step = static_cast<const CudaStep*>(queue.pending);
    if (step == nullptr || (step->updates_use(*to.buffer) && !seeded(SeededFault::kUploadTooEarly)))
      queue.settle();
    runtime::use(queue.device);
    runtime::upload(queue.current(), address(to, queue), from, to.bytes);
  }
  void download(void* to, View from) override {
    if (cards_.count() == 1) return download_part(to, from, cards_.first());
    for (const auto& [part, queue] : cards_.parts_of(from)) {
      // Others may have to get something from this card.
      cards_.wait_for(*queue);
      download_part(static_cast<std::byte*>(to) + (part.offset - from.offset), part, *queue);
    }
  }
  void copy(View to, View from) override {
    Queue& queue = cards_.best_for(from);
    cards_.prepare(queue, {&from, 1}, {&to, 1});
    const std::scoped_lock lock(queue.mutex);
    queue.settle();
    runtime::copy(queue.current(), address(to, queue), address(from, queue), to.bytes);
  }
  void accumulate(View sum, View addend, int worker) override {
    Queue& queue = cards_.of_worker(worker);
    const std::array reads = {sum, addend};
    cards_.prepare(queue, reads, {&sum, 1});
    const std::scoped_lock lock(queue.mutex);
    queue.settle();
    const Floats to{reinterpret_cast<float*>(address(sum, queue)), 0};
    add({.stream = queue.current()}, sum.bytes / static_cast<std::int64_t>(sizeof(float)), to,
        Floats{reinterpret_cast<float*>(address(addend, queue)), 0}, {.floats = to});
  }
  void synchronise() override { cards_.synchronise(); }

  DeviceRoof roof() override {
    Queue& queue = cards_.first();
    const std::scoped_lock lock(queue.mutex);
    queue.settle();
    return roof_of(queue, info_of(0));
  }

  std::string network_name() const override { return nccl::name(); }
  std::string network_missing() const override {
    const char* const choice = std::getenv("PODIUM_NCCL");
    if (choice != nullptr && std::string(choice) == "0") return "PODIUM_NCCL=0 is set";
    return nccl::library().missing;
  }
  std::string network_id() const override { return info_of(0).id; }
  std::string make_network_key() override { return make_nccl_key(); }
  std::unique_ptr<DeviceNetwork> join_network(const std::string& key, int rank,
                                              std::span<const std::string> names) override {
    return join_nccl(cards_.first(), key, rank, names);
  }

  Plan plan(const Graph& graph, const CompileOptions& compile) override {
    require_bf16(graph);
    return plan_of(graph, compile);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& compile) override {
    require_bf16(graph);
    return std::make_unique<CudaExecutable>(cards_, cards_.of_worker(compile.worker), graph,
                                            compile);
  }
  std::unique_ptr<WholeStep> compile_step(const StepProgram& step) override {
    return std::make_unique<CudaStep>(cards_, cards_.first(), step);
  }
  std::unique_ptr<JointReplicas> compile_replicas(const ReplicasProgram& replicas) override {
    return std::make_unique<CudaWorkerReplicas>(cards_, cards_.of_worker(replicas.worker),
                                                replicas);
  }

 private:
  const runtime::DeviceInfo& info_of(int card) const {
    return chosen_.infos[static_cast<std::size_t>(card)];
  }

  static void download_part(void* to, const View& from, Queue& queue) {
    const std::scoped_lock lock(queue.mutex);
    // What the replicas of a step made is there before its updates: they begin as soon as their
    // losses are known, and nobody waits for them here.
    auto* const step = static_cast<CudaStep*>(queue.pending);
    const bool early = step != nullptr && !step->updates_use(*from.buffer);
    if (!early) queue.settle();
    runtime::use(queue.device);
    runtime::download(queue.current(), to, address(from, queue), from.bytes);
    if (!early) return;
    step->have_seen(to, from);
    queue.settle();
  }

  // Exact, if its tensor cores keep the rule of their capability.
  static Bf16Support bf16_of(Queue& queue, const runtime::DeviceInfo& info) {
    const std::optional<Bf16Order> order = tensor_core_order(info);
    constexpr int kWarps = 16;
    constexpr std::uint32_t kSeed = 1;
    const std::scoped_lock lock(queue.mutex);
    queue.settle();
    Bf16Support support;
    support.orders.clear();
    support.missing = bf16_missing(info);
    if (order && support.missing.empty() &&
        probe_tensor_cores(queue.stream, *order, kWarps, kSeed).differences == 0)
      support.orders = support.fast = {*order};
    else
      support.family = cat("sm_", info.major, info.minor), support.tolerance = kBf16Tolerance;
    const char* const choice = std::getenv("PODIUM_WGMMA");
    if (support.missing.empty() && (choice == nullptr || std::string(choice) != "0")) {
      const WarpgroupProbe probe = probe_warpgroups(queue.stream, info, kTriedTerms);
      queue.warpgroups = probe.has && probe.differences == 0;
      if (probe.differences != 0)
        log(LogLevel::kWarning,
            cat(info.name, ": ", probe.differences, " of ", probe.sums,
                " sums of its warpgroups' products (wgmma) differ from those of warps (mma.sync); "
                "BF16 is computed by warps, which is slower but right. Please report this"));
    }
    return support;
  }
  // All GPUs must add alike.
  const Bf16Support& bf16_support() {
    if (bf16_) return *bf16_;
    Bf16Support all = bf16_of(cards_.first(), info_of(0));
    const auto text = [](const Bf16Support& s) {
      return s.orders.empty() ? s.family : std::string(name_of(s.orders[0]));
    };
    for (int card = 1; card < cards_.count() && all.missing.empty(); ++card) {
      Queue& queue = cards_.of_worker(card);
      const Bf16Support other = bf16_of(queue, info_of(card));
      all.missing = other.missing;
      if (all.missing.empty() && text(other) != text(all))
        all.missing = cat("GPU ", cards_.first().device, " adds in the order ", text(all),
                          " and GPU ", queue.device, " in the order ", text(other),
                          "; choose GPUs of one kind with --gpus");
    }
    return bf16_.emplace(std::move(all));
  }
  // Within a family of its own, any order stands for the device's.
  void require_bf16(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (node.op == nullptr || !is_bf16(*node.op)) continue;
      const Bf16Support support = bf16();
      if (support.family.empty() || !support.missing.empty())
        require_bf16_order(cat(kName, " (", info_of(0).name, ")"), support, bf16_order_of(node));
    }
  }

  const Chosen chosen_;
  std::int64_t free_memory_ = 0;  // when it was opened: other processes may have the rest
  Cards cards_;
  std::mutex bf16_mutex_;
  std::optional<Bf16Support> bf16_;
};

Chosen choose(const DeviceOptions& options, const runtime::Found& found) {
  const int count = static_cast<int>(found.devices.size());
  std::vector<int> numbers = options.gpus;
  for (int i = 0; options.gpus.empty() && i < std::min(count, Cards::kMost); ++i)
    numbers.push_back(i);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    PODIUM_REQUIRE(numbers[i] >= 0 && numbers[i] < count, ExitCode::kUsage,
                   "--gpus: there is no GPU ", numbers[i], "; this machine has ",
                   count_text(count, "GPU"), ", numbered from 0 (podium devices)");
    PODIUM_REQUIRE(std::find(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(i),
                             numbers[i]) == numbers.begin() + static_cast<std::ptrdiff_t>(i),
                   ExitCode::kUsage, "--gpus names GPU ", numbers[i], " twice; name each once");
  }
  if (options.local_ranks > 1)
    numbers = {numbers[static_cast<std::size_t>(options.local_rank) % numbers.size()]};
  Chosen chosen{.numbers = numbers, .infos = {}};
  for (const int number : numbers)
    chosen.infos.push_back(found.devices[static_cast<std::size_t>(number)]);
  return chosen;
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  const runtime::Found found = runtime::find_devices();
  PODIUM_REQUIRE(found.missing.empty(), ExitCode::kUsage, "--backend ", kName, ": ", found.missing);
  return std::make_unique<CudaDevice>(options, choose(options, found));
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
    const WarpgroupProbe warpgroups = probe_warpgroups(stream, found.devices[i]);
    gpu.warpgroup_sums = warpgroups.sums, gpu.warpgroup_differences = warpgroups.differences;
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
