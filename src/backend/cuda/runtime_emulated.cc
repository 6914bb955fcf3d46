#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "backend/cuda/runtime.h"
#include "backend/cuda/simt_emulated.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sanitizers.h"

namespace podium::cuda_emulated {
namespace {

constexpr std::int64_t kMemory = std::int64_t{8} << 30;

std::atomic<std::int64_t> g_calls{0}, g_fails_from{-1}, g_memory{kMemory};
std::atomic<int> g_devices{1}, g_major{9}, g_minor{0}, g_code_version{90};

// Counts one call of the runtime.
void enter(const char* call) {
  const std::int64_t number = g_calls++;
  const std::int64_t first = g_fails_from;
  PODIUM_REQUIRE(first < 0 || number < first, ExitCode::kUsage, "the GPU failed in ", call,
                 ": unspecified launch failure (emulated)");
}

// Where the regions of the device's memory lie.
#ifdef PODIUM_ADDRESS_SANITIZER
// The heap, so that AddressSanitizer sees what lies beside a region; the host may then touch it.
class Regions {
 public:
  void* add(std::size_t size) {
    void* const memory = ::operator new (size, std::align_val_t{64});
    std::memset(memory, 0, size);
    sizes_[memory] = size;
    return memory;
  }
  // The size of what was removed, or 0 where nothing begins there.
  std::size_t remove(void* memory) {
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return 0;
    const std::size_t size = found->second;
    ::operator delete (memory, std::align_val_t{64});
    sizes_.erase(found);
    return size;
  }
  void protect(bool /*open*/) {}

 private:
  std::map<void*, std::size_t> sizes_;
};
#else
// One range of addresses, whose pages are opened and closed by one call: a call for each region
// takes several times as long as the kernels of a small network.
class Regions {
 public:
  Regions() {
    void* const start =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PODIUM_CHECK(start != MAP_FAILED, "no addresses for the memory of the emulated GPU");
    start_ = static_cast<std::byte*>(start);
  }
  ~Regions() { munmap(start_, kReserved); }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // In the first gap that is large enough.
  void* add(std::size_t size) {
    std::size_t offset = 0;
    for (const auto& [first, other] : sizes_) {
      if (first - offset >= pages_of(size)) break;
      offset = first + pages_of(other);
    }
    const std::size_t end = offset + pages_of(size);
    if (end > kReserved) throw std::bad_alloc();
    sizes_[offset] = size;
    if (end > end_) {
      end_ = end;
      protect(open_);
    }
    return start_ + offset;
  }
  // The size of what was removed, or 0 where nothing begins there.
  std::size_t remove(void* memory) {
    const auto found =
        sizes_.find(static_cast<std::size_t>(static_cast<std::byte*>(memory) - start_));
    if (found == sizes_.end()) return 0;
    const std::size_t size = found->second;
    madvise(memory, pages_of(size), MADV_DONTNEED);  // the next region there begins with zeros
    sizes_.erase(found);
    return size;
  }
  void protect(bool open) {
    open_ = open;
    PODIUM_CHECK(mprotect(start_, end_, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
                 "mprotect failed");
  }

 private:
  static constexpr std::size_t kPage = std::size_t{64} << 10, kReserved = std::size_t{64} << 30;
  // The bytes of whole pages.
  static std::size_t pages_of(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

  std::byte* start_ = nullptr;
  std::size_t end_ = 0;  // of all regions that there have been
  bool open_ = false;
  std::map<std::size_t, std::size_t> sizes_;  // by offset
};
#endif

// The memory of the emulated device, which nobody may touch outside of kernels and copies.
class DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes == 0 ? 1 : bytes);
    const std::scoped_lock lock(mutex_);
    if (used_ + static_cast<std::int64_t>(size) > g_memory) throw std::bad_alloc();
    void* const memory = regions_.add(size);
    used_ += static_cast<std::int64_t>(size);
    return memory;
  }
  void deallocate(void* memory) {
    const std::scoped_lock lock(mutex_);
    used_ -= static_cast<std::int64_t>(regions_.remove(memory));
  }
  std::int64_t free() {
    const std::scoped_lock lock(mutex_);
    return g_memory - used_;
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    if (open_++ == 0) regions_.protect(true);
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    if (--open_ == 0) regions_.protect(false);
  }

 private:
  std::mutex mutex_;
  Regions regions_;
  std::int64_t used_ = 0;
  int open_ = 0;
};

DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

class Access {
 public:
  Access() { device_memory().open(); }
  ~Access() { device_memory().close(); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

struct EmulatedStream {
  std::vector<std::function<void()>>* recorded = nullptr;
};
EmulatedStream& stream_of(Stream stream) { return *static_cast<EmulatedStream*>(stream); }

class EmulatedRecording : public runtime::Recording {
 public:
  void play(Stream stream) override {
    enter("cudaGraphLaunch");
    PODIUM_CHECK(stream_of(stream).recorded == nullptr, "a recording is played while one is made");
    const Access access;
    for (const std::function<void()>& launch : launches) launch();
  }
  std::vector<std::function<void()>> launches;
};

class EmulatedEvent : public runtime::Event {
 public:
  void set(Stream stream) override {
    enter("cudaEventRecord");
    recorded_ = stream_of(stream).recorded;
  }
  bool is_done() override { return true; }
  // A stream that waits for one that is being recorded is recorded, too.
  void hold(Stream stream) override {
    enter("cudaStreamWaitEvent");
    if (recorded_ != nullptr) stream_of(stream).recorded = recorded_;
  }

 private:
  std::vector<std::function<void()>>* recorded_ = nullptr;
};

// All is done at once, so marks are times.
class EmulatedMarks : public runtime::Marks {
 public:
  void add(Stream /*stream*/) override { times_.push_back(Clock::now()); }
  double seconds_between(std::size_t first, std::size_t second) override {
    return std::chrono::duration<double>(times_[second] - times_[first]).count();
  }

 private:
  std::vector<Clock::time_point> times_;
};

}  // namespace

namespace simt {
namespace {
void submit_work(Stream stream, std::function<void()> work) {
  enter("cudaLaunchKernelEx");
  if (auto* const recorded = stream_of(stream).recorded) {
    recorded->push_back(std::move(work));
    return;
  }
  const Access access;
  work();
}
}  // namespace

void submit(Stream stream, const Grid& grid, std::function<void()> kernel) {
  submit_work(stream, [grid, kernel = std::move(kernel)] { run(grid, kernel); });
}
void submit_elements(Stream stream, std::function<void(bool)> loop) {
  submit_work(stream, [loop = std::move(loop)] { loop(order() != Order::kForward); });
}

}  // namespace simt

namespace runtime {

Found find_devices() {
  Found found{.devices = {}, .versions = "no driver", .missing = ""};
  for (int i = 0; i < g_devices; ++i)
    found.devices.push_back({.name = "emulation on the host",
                             .id = cat("emulated ", i),
                             .major = g_major,
                             .minor = g_minor,
                             .memory = g_memory,
                             .multiprocessors = 1,
                             .clock = 1e9,
                             .cache = 1 << 20});
  return found;
}

void use(int device) { PODIUM_CHECK(device < g_devices, "there are ", g_devices, " devices"); }

std::int64_t free_memory() { return device_memory().free(); }

Stream make_stream() {
  enter("cudaStreamCreate");
  return new EmulatedStream();
}
void destroy_stream(Stream stream) { delete static_cast<EmulatedStream*>(stream); }

void* allocate(std::int64_t bytes) {
  enter("cudaMalloc");
  return device_memory().allocate(bytes);
}
void* allocate_scratch(std::int64_t bytes) {
  void* const memory = allocate(bytes);
  const Access access;
  std::memset(memory, 0xff, static_cast<std::size_t>(bytes));
  return memory;
}
void deallocate(void* memory) noexcept { device_memory().deallocate(memory); }

namespace {
void move(Stream stream, const char* call, void* to, const void* from, std::int64_t bytes) {
  enter(call);
  PODIUM_CHECK(stream_of(stream).recorded == nullptr, "copies are not recorded");
  const Access access;
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
}  // namespace

void upload(Stream stream, void* to, const void* from, std::int64_t bytes) {
  move(stream, "cudaMemcpyAsync to the device", to, from, bytes);
}
void download(Stream stream, void* to, const void* from, std::int64_t bytes) {
  move(stream, "cudaMemcpyAsync to the host", to, from, bytes);
}
void copy(Stream stream, void* to, const void* from, std::int64_t bytes) {
  move(stream, "cudaMemcpyAsync on the device", to, from, bytes);
}
void synchronise(Stream stream) {
  enter("cudaStreamSynchronize");
  PODIUM_CHECK(stream_of(stream).recorded == nullptr, "a recording cannot wait");
}

// All is done at once, so each place has been passed.
void follow(Stream /*stream*/, Stream /*other*/) { enter("cudaStreamWaitEvent"); }
void* native(Stream stream) { return stream; }
std::unique_ptr<Event> make_event() { return std::make_unique<EmulatedEvent>(); }

std::unique_ptr<Recording> record(Stream stream, const std::function<void()>& launches) {
  enter("cudaStreamBeginCapture");
  auto recording = std::make_unique<EmulatedRecording>();
  stream_of(stream).recorded = &recording->launches;
  try {
    launches();
  } catch (...) {
    stream_of(stream).recorded = nullptr;
    throw;
  }
  stream_of(stream).recorded = nullptr;
  return recording;
}

std::unique_ptr<Marks> make_marks() { return std::make_unique<EmulatedMarks>(); }

void fail_from(std::optional<std::int64_t> call) {
  g_calls = 0;
  g_fails_from = call.value_or(-1);
}
std::int64_t calls() { return g_calls; }
void set_memory(std::int64_t bytes) { g_memory = bytes; }
void set_devices(int count) { g_devices = count; }
void set_capability(int major, int minor) { g_major = major, g_minor = minor; }
void set_code_version(int version) { g_code_version = version; }

}  // namespace runtime

int simt::emulated_code_version() { return g_code_version; }

}  // namespace podium::cuda_emulated
