#include "backend/planning_device.h"

#include <sys/mman.h>

#include <new>
#include <optional>
#include <span>

namespace podium {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw InternalError(__FILE__, __LINE__, cat(what, " on a device that only plans"));
}

// Address space: whoever reads or writes it by mistake crashes.
class PlannedBuffer : public Buffer {
 public:
  PlannedBuffer(std::int64_t bytes, bool host)
      : Buffer(bytes, host && bytes > 0 ? map(bytes) : nullptr), mapped_(host && bytes > 0) {}
  ~PlannedBuffer() override {
    if (mapped_) munmap(host(), static_cast<std::size_t>(bytes()));
  }

 private:
  static std::byte* map(std::int64_t bytes) {
    void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  const bool mapped_;
};

class PlannedExecutable : public Executable {
 public:
  explicit PlannedExecutable(Plan plan) : plan_(std::move(plan)) {}
  const Plan& plan() const override { return plan_; }
  void run(std::span<const View>, std::span<const View>) override { refuse("run()"); }
  std::optional<std::string> find_non_finite(std::span<const View>,
                                             std::span<const View>) override {
    refuse("find_non_finite()");
  }

 private:
  const Plan plan_;
};

}  // namespace

PlanningDevice::PlanningDevice(std::unique_ptr<Device> device)
    : Device(device->options()),
      device_(std::move(device)),
      host_memory_(device_->allocate(1)->host() != nullptr) {}

PlanningDevice::~PlanningDevice() = default;

std::unique_ptr<Buffer> PlanningDevice::allocate(std::int64_t bytes) {
  bytes_ += bytes;
  return std::make_unique<PlannedBuffer>(bytes, host_memory_);
}

Plan PlanningDevice::plan(const Graph& graph, const CompileOptions& options) {
  return device_->plan(graph, options);
}

std::unique_ptr<Executable> PlanningDevice::compile(const Graph& graph,
                                                    const CompileOptions& options) {
  auto executable = std::make_unique<PlannedExecutable>(plan(graph, options));
  bytes_ += executable->plan().arena_bytes;
  return executable;
}

void PlanningDevice::download(void*, View) { refuse("download()"); }
void PlanningDevice::copy(View, View) { refuse("copy()"); }
void PlanningDevice::accumulate(View, View, int) { refuse("accumulate()"); }

}  // namespace podium
