// The calls to CUDA that the backend makes: memory, streams and recorded launches. Two
// implementations: runtime_cuda.cc for GPUs, runtime_emulated.cc for the tests.
//
// A call that fails throws UserError with CUDA's own words, and where there are several GPUs with
// the number and name of its own; one that lacks memory, with ExitCode::kMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/launch.h"
#include "base/error.h"

namespace podium::PODIUM_CUDA_SPACE::runtime {

struct DeviceInfo {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string id;            // of this one
  int major = 0, minor = 0;  // compute capability
  std::int64_t memory = 0;   // bytes
  int multiprocessors = 0;
  double clock = 0;        // of a multiprocessor at most, in Hz
  std::int64_t cache = 0;  // bytes of L2
};

// What this machine has. `missing`: why there is no GPU to use, for people; empty if there is one.
struct Found {
  std::vector<DeviceInfo> devices;
  std::string versions;  // of driver and runtime
  std::string missing;
};
Found find_devices();

// "the GPU", or where there are several "GPU 2 (NVIDIA H200)": for messages.
inline std::string gpu_text(int device, const std::vector<std::string>& names) {
  if (names.size() < 2) return "the GPU";
  return cat("GPU ", device, " (", names[static_cast<std::size_t>(device)], ")");
}

// The calls below concern this device, on every thread that calls use().
void use(int device);
// The bytes that no process has now.
std::int64_t free_memory();

Stream make_stream();
void destroy_stream(Stream stream);

// Zeroed. Throws std::bad_alloc if there is not enough.
void* allocate(std::int64_t bytes);
// For values that are written before they are read: holds anything, in the emulation NaN.
void* allocate_scratch(std::int64_t bytes);
void deallocate(void* memory) noexcept;

// The host may overwrite `from` when the call returns.
void upload(Stream stream, void* to, const void* from, std::int64_t bytes);
// Waits.
void download(Stream stream, void* to, const void* from, std::int64_t bytes);
void copy(Stream stream, void* to, const void* from, std::int64_t bytes);
// From the memory of one device to that of another; each has a stream of this process.
void copy_between(Stream stream, void* to, int to_device, const void* from, int from_device,
                  std::int64_t bytes);
// Copies between the two go the shortest way that the machine has.
void connect(int device, int other);
void synchronise(Stream stream);

// What is enqueued on `stream` from now on begins after all that `other` has now. They may be of
// two devices; that of `stream` is then the one in use.
void follow(Stream stream, Stream other);
// CUDA's own handle of a stream, for libraries.
void* native(Stream stream);

// A place in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual void set(Stream stream) = 0;
  // Whether the stream has come past the place.
  virtual bool is_done() = 0;
  // Until it has.
  virtual void wait() = 0;
  // What is enqueued on this stream from now on begins after that.
  virtual void hold(Stream stream) = 0;
};
std::unique_ptr<Event> make_event();

// Launches that are recorded once and played often, which costs one call. record() calls
// `launches`, whose launches on `stream` are not made but recorded; it may launch only.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void play(Stream stream) = 0;
};
std::unique_ptr<Recording> record(Stream stream, const std::function<void()>& launches);

// Marks in a stream, to time what lies between two.
class Marks {
 public:
  virtual ~Marks() = default;
  // The marks are numbered from 0.
  virtual void add(Stream stream) = 0;
  // Waits for both.
  virtual double seconds_between(std::size_t first, std::size_t second) = 0;
};
std::unique_ptr<Marks> make_marks();

#ifdef PODIUM_CUDA_EMULATED
// For tests: the call of this number, counted from now on from 0, and all after it fail as if the
// GPU had fallen off the bus; those alone that concern `device`, if it is not -1. nullopt: none.
void fail_from(std::optional<std::int64_t> call, int device = -1);
// Calls since fail_from().
std::int64_t calls();
// The memory of the device in bytes.
void set_memory(std::int64_t bytes);
// The number of devices.
void set_devices(int count);
// Their compute capability.
void set_capability(int major, int minor);
// What their code was made for (simt::code_version).
void set_code_version(int version);
// Whether what a stream is asked for is done as late as it may: when the host, or another stream
// that does something, waits for it. Otherwise at once. While no stream has work.
void set_late(bool late);
// How often values have left a device since then, to another one or to the host, before other work
// that the device had been asked for earlier.
std::int64_t overtaken();
#endif

}  // namespace podium::PODIUM_CUDA_SPACE::runtime
