#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "backend/cuda/emulated/simt_emulated.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/seeded_fault.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sanitizers.h"

namespace podium::cuda_emulated {
namespace {

constexpr std::int64_t kMemory = std::int64_t{8} << 30;

std::atomic<std::int64_t> g_calls{0}, g_fails_from{-1}, g_memory{kMemory};
// The most devices that there may be.
constexpr int kMostDevices = 8;
std::atomic<int> g_devices{1}, g_failing{-1}, g_major{9}, g_minor{0}, g_code_version{90};

// The device in use.
thread_local int t_device = 0;

constexpr const char* kDeviceName = "emulation on the host";

// Counts one call of the runtime, which concerns a device.
void enter(const char* call, int device = t_device) {
  const std::int64_t number = g_calls++;
  const std::int64_t first = g_fails_from;
  if (first < 0 || number < first || (g_failing != -1 && g_failing != device)) return;
  const std::vector<std::string> names(
      static_cast<std::size_t>(std::max<int>(g_devices, device + 1)), kDeviceName);
  throw UserError(cat(runtime::gpu_text(device, names), " failed in ", call,
                      ": unspecified launch failure (emulated)"));
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
  // Whether one begins there.
  bool has(void* memory) const { return sizes_.contains(memory); }
  // Its size.
  std::size_t remove(void* memory) {
    const auto found = sizes_.find(memory);
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
  // Whether one begins there.
  bool has(void* memory) const { return sizes_.contains(offset_of(memory)); }
  // Its size.
  std::size_t remove(void* memory) {
    const auto found = sizes_.find(offset_of(memory));
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
  static constexpr std::size_t kPage = std::size_t{64} << 10, kReserved = std::size_t{16} << 30;
  // The bytes of whole pages.
  static std::size_t pages_of(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }
  std::size_t offset_of(void* memory) const {
    return static_cast<std::size_t>(static_cast<std::byte*>(memory) - start_);
  }

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
  // Whether it is this device's.
  bool has(void* memory) {
    const std::scoped_lock lock(mutex_);
    return regions_.has(memory);
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

DeviceMemory& memory_of(int device) {
  static std::array<DeviceMemory, kMostDevices> memories;
  return memories[static_cast<std::size_t>(device)];
}

// To the memory of one device: a kernel that reads that of another one crashes.
class Access {
 public:
  explicit Access(int device) : device_(device) { memory_of(device).open(); }
  ~Access() { memory_of(device_).close(); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  const int device_;
};

// Work that has been asked for of a stream: done at once, or where it is late, when somebody waits
// for it, and then no more than that.
class Line {
 public:
  explicit Line(int device) : device_(device) {
    const std::scoped_lock lock(mutex());
    all().push_back(this);
  }
  ~Line() {
    const std::scoped_lock lock(mutex());
    std::erase(all(), this);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  static void set_late(bool late) {
    const std::scoped_lock lock(mutex());
    for (const Line* const line : all())
      PODIUM_CHECK(line->waiting_.empty(),
                   "work is waiting while streams begin or cease to be late");
    is_late() = late;
    overtaken() = 0;
  }
  static std::int64_t times_overtaken() {
    const std::scoped_lock lock(mutex());
    return overtaken();
  }

  void add(const std::function<void()>& work) {
    if (!add_if_late(work, false)) work();
  }
  // What follows waits until so much of another line has been done.
  void add_wait(const std::shared_ptr<Line>& other, std::uint64_t end) {
    if (other.get() != this) add_if_late([=] { other->reach(end); }, true);
  }
  // How much work there has been so far.
  std::uint64_t end() const {
    const std::scoped_lock lock(mutex());
    return done_ + waiting_.size();
  }
  // Until so much has been done.
  void reach(std::uint64_t end) {
    const std::scoped_lock lock(mutex());
    while (done_ < end) {
      const std::function<void()> call = std::move(waiting_.front().call);
      waiting_.pop_front();
      ++done_;
      call();
    }
  }
  // All work that has been asked for so far, of all lines.
  static std::uint64_t asked() {
    const std::scoped_lock lock(mutex());
    return count();
  }
  // Something leaves the device that was asked for when `asked` was.
  static void leave_device(int device, std::uint64_t asked) {
    const std::scoped_lock lock(mutex());
    const bool overtakes = std::ranges::any_of(all(), [&](const Line* line) {
      return line->device_ == device && std::ranges::any_of(line->waiting_, [&](const Work& work) {
               return !work.is_wait && work.number < asked;
             });
    });
    if (overtakes) ++overtaken();
  }
  // Before memory of the device is given back.
  static void finish_all(int device) {
    const std::scoped_lock lock(mutex());
    // Work that has been done may have been the last to know another line, which then ends.
    const auto is_there = [](const Line* line) { return std::ranges::count(all(), line) > 0; };
    for (Line* const line : std::vector(all()))
      if (is_there(line) && line->device_ == device) line->reach(line->end());
  }

 private:
  struct Work {
    std::function<void()> call;
    bool is_wait;
    std::uint64_t number;  // of all lines' work
  };
  // Takes the work if streams are late.
  bool add_if_late(const std::function<void()>& call, bool is_wait) {
    const std::scoped_lock lock(mutex());
    if (is_late()) waiting_.push_back({call, is_wait, count()++});
    return is_late();
  }
  // Of all lines: work of one may wait for another.
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex all;
    return all;
  }
  static std::vector<Line*>& all() {
    static std::vector<Line*> lines;
    return lines;
  }
  static bool& is_late() {
    static bool late = false;
    return late;
  }
  static std::uint64_t& count() {
    static std::uint64_t works = 0;
    return works;
  }
  static std::int64_t& overtaken() {
    static std::int64_t times = 0;
    return times;
  }

  const int device_;
  std::deque<Work> waiting_;
  std::uint64_t done_ = 0;
};

struct EmulatedStream {
  explicit EmulatedStream(int number) : device(number), line(std::make_shared<Line>(number)) {}
  int device = 0;
  std::vector<std::function<void()>>* recorded = nullptr;
  std::shared_ptr<Line> line;
};
EmulatedStream& stream_of(Stream stream) { return *static_cast<EmulatedStream*>(stream); }

class EmulatedRecording : public runtime::Recording {
 public:
  void play(Stream stream) override {
    enter("cudaGraphLaunch", stream_of(stream).device);
    PODIUM_CHECK(stream_of(stream).recorded == nullptr, "a recording is played while one is made");
    stream_of(stream).line->add([device = stream_of(stream).device, all = launches] {
      const Access access(device);
      for (const std::function<void()>& launch : *all) launch();
    });
  }
  // It may be gone before they are made.
  const std::shared_ptr<std::vector<std::function<void()>>> launches =
      std::make_shared<std::vector<std::function<void()>>>();
};

class EmulatedEvent : public runtime::Event {
 public:
  void set(Stream stream) override {
    enter("cudaEventRecord", stream_of(stream).device);
    recorded_ = stream_of(stream).recorded;
    line_ = stream_of(stream).line;
    end_ = line_->end();
  }
  // A GPU would come there by itself.
  bool is_done() override {
    reach();
    return true;
  }
  void wait() override {
    enter("cudaEventSynchronize");
    reach();
  }
  // A stream that waits for one that is being recorded is recorded, too.
  void hold(Stream stream) override {
    enter("cudaStreamWaitEvent", stream_of(stream).device);
    if (recorded_ != nullptr) {
      stream_of(stream).recorded = recorded_;
    } else if (line_ != nullptr) {
      stream_of(stream).line->add_wait(line_, end_);
    }
  }

 private:
  void reach() const {
    if (line_ != nullptr) line_->reach(end_);
  }
  std::vector<std::function<void()>>* recorded_ = nullptr;
  std::shared_ptr<Line> line_;
  std::uint64_t end_ = 0;
};

// All has been done, so marks are times.
class EmulatedMarks : public runtime::Marks {
 public:
  void add(Stream stream) override {
    stream_of(stream).line->reach(stream_of(stream).line->end());
    times_.push_back(Clock::now());
  }
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
  const int device = stream_of(stream).device;
  enter("cudaLaunchKernelEx", device);
  PODIUM_CHECK(device == t_device, "a launch on device ", device, ", while ", t_device,
               " is in use");
  if (auto* const recorded = stream_of(stream).recorded) {
    recorded->push_back(std::move(work));
    return;
  }
  stream_of(stream).line->add([device, work = std::move(work)] {
    const Access access(device);
    work();
  });
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
    found.devices.push_back({.name = kDeviceName,
                             .id = cat("emulated ", i),
                             .major = g_major,
                             .minor = g_minor,
                             .memory = g_memory,
                             .multiprocessors = 1,
                             .clock = 1e9,
                             .cache = 1 << 20});
  return found;
}

void use(int device) {
  PODIUM_CHECK(device < kMostDevices, "there are ", kMostDevices, " devices");
  t_device = device;
}

std::int64_t free_memory() { return memory_of(t_device).free(); }

Stream make_stream() {
  enter("cudaStreamCreate");
  return new EmulatedStream(t_device);
}
void destroy_stream(Stream stream) {
  EmulatedStream* const own = &stream_of(stream);
  own->line->reach(own->line->end());
  delete own;
}

void* allocate(std::int64_t bytes) {
  enter("cudaMalloc");
  return memory_of(t_device).allocate(bytes);
}
void* allocate_scratch(std::int64_t bytes) {
  void* const memory = allocate(bytes);
  const Access access(t_device);
  std::memset(memory, 0xff, static_cast<std::size_t>(bytes));
  return memory;
}
void deallocate(void* memory) noexcept {
  for (int device = 0; device < kMostDevices; ++device) {
    if (!memory_of(device).has(memory)) continue;
    Line::finish_all(device);
    memory_of(device).deallocate(memory);
  }
}

namespace {
void enter_copy(const char* call, Stream stream) {
  enter(call, stream_of(stream).device);
  PODIUM_CHECK(stream_of(stream).recorded == nullptr, "copies are not recorded");
}
std::function<void()> move(int device, void* to, const void* from, std::int64_t bytes) {
  return [=] {
    const Access access(device);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  };
}

// A copy that came too late (SeededFault::kPeerCopyLate).
std::function<void()>& late_copy() {
  thread_local std::function<void()> copy;
  return copy;
}
}  // namespace

void upload(Stream stream, void* to, const void* from, std::int64_t bytes) {
  enter_copy("cudaMemcpyAsync to the device", stream);
  const auto* const first = static_cast<const std::byte*>(from);
  stream_of(stream).line->add(
      [to, device = stream_of(stream).device, values = std::vector(first, first + bytes)] {
        const Access access(device);
        std::ranges::copy(values, static_cast<std::byte*>(to));
      });
}
void download(Stream stream, void* to, const void* from, std::int64_t bytes) {
  enter_copy("cudaMemcpyAsync to the host", stream);
  Line& line = *stream_of(stream).line;
  line.reach(line.end());
  Line::leave_device(stream_of(stream).device, Line::asked());
  move(stream_of(stream).device, to, from, bytes)();
}
void copy(Stream stream, void* to, const void* from, std::int64_t bytes) {
  enter_copy("cudaMemcpyAsync on the device", stream);
  stream_of(stream).line->add(move(stream_of(stream).device, to, from, bytes));
}
void copy_between(Stream stream, void* to, int to_device, const void* from, int from_device,
                  std::int64_t bytes) {
  enter_copy("cudaMemcpyPeerAsync", stream);
  const auto make = [=, asked = Line::asked()] {
    Line::leave_device(from_device, asked);
    const Access there(to_device), here(from_device);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  };
  if (seeded(SeededFault::kPeerCopyLate)) {
    if (late_copy()) late_copy()();
    late_copy() = make;
  } else {
    late_copy() = nullptr;
    stream_of(stream).line->add(make);
  }
}
void connect(int device, int other) {
  PODIUM_CHECK(device != other && other < kMostDevices, "there are ", kMostDevices, " devices");
}
void synchronise(Stream stream) {
  enter("cudaStreamSynchronize", stream_of(stream).device);
  PODIUM_CHECK(stream_of(stream).recorded == nullptr, "a recording cannot wait");
  stream_of(stream).line->reach(stream_of(stream).line->end());
}

void follow(Stream stream, Stream other) {
  enter("cudaStreamWaitEvent", stream_of(other).device);
  t_device = stream_of(stream).device;
  stream_of(stream).line->add_wait(stream_of(other).line, stream_of(other).line->end());
}
void* native(Stream stream) { return stream; }
std::unique_ptr<Event> make_event() { return std::make_unique<EmulatedEvent>(); }

std::unique_ptr<Recording> record(Stream stream, const std::function<void()>& launches) {
  enter("cudaStreamBeginCapture", stream_of(stream).device);
  auto recording = std::make_unique<EmulatedRecording>();
  stream_of(stream).recorded = recording->launches.get();
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

void fail_from(std::optional<std::int64_t> call, int device) {
  g_calls = 0;
  g_failing = device;
  g_fails_from = call.value_or(-1);
}
std::int64_t calls() { return g_calls; }
void set_memory(std::int64_t bytes) { g_memory = bytes; }
void set_devices(int count) {
  PODIUM_CHECK(count >= 1 && count <= kMostDevices, count, " emulated devices");
  g_devices = count;
}
void set_capability(int major, int minor) { g_major = major, g_minor = minor; }
void set_code_version(int version) { g_code_version = version; }
void set_late(bool late) { Line::set_late(late); }
std::int64_t overtaken() { return Line::times_overtaken(); }

}  // namespace runtime

int simt::emulated_code_version() { return g_code_version; }
bool simt::has_warpgroup_code() { return g_code_version == 90; }

}  // namespace podium::cuda_emulated
