// The seam between what Podium computes and what computes it. A backend is a kind of device
// ("cpu"); a Device is one of that kind, opened by one process: it has memory of its own, runs
// graphs on it, and is shared by the workers of the process.
//
//   auto device = make_device("cpu", {.workers = 2});
//   auto memory = device->allocate(bytes);
//   auto program = device->compile(graph, {.worker = 0});
//   program->run(inputs, outputs);            // views, in the order of the graph's
//   device->download(values, view);           // waits for all of that
//
// The host touches a device's memory by upload() and download(), or, where the two share memory
// (the CPU's), through Buffer::host(). All other work on it is a graph, or one of the few
// operations below that have no shape: copies and additions of the tree over replicas.
//
// Order. A device has one queue: what is asked of it acts as if done in the order of the calls,
// where calls from several threads are ordered by the host's own synchronisation between these
// threads. A call may return before its work is done. download() and synchronise() wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace podium {

// Memory of a device. A handle: its bytes may lie elsewhere after each run.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::int64_t bytes() const { return bytes_; }
  // The memory itself where the host may read and write it in place, 64-byte aligned; else null.
  std::byte* host() const { return host_; }

 protected:
  // `host` as of host().
  Buffer(std::int64_t bytes, std::byte* host) : bytes_(bytes), host_(host) {}
  // For devices that have moved the memory.
  void move_to(std::byte* host) { host_ = host; }

 private:
  std::int64_t bytes_;
  std::byte* host_;
};

// A range of a buffer, in bytes. Does not own it.
struct View {
  Buffer* buffer = nullptr;
  std::int64_t offset = 0, bytes = 0;

  View() = default;
  View(Buffer& of) : buffer(&of), bytes(of.bytes()) {}  // NOLINT: a buffer is the view of all of it
  // `count` bytes from byte `from` on.
  View(Buffer& of, std::int64_t from, std::int64_t count)
      : buffer(&of), offset(from), bytes(count) {}
  // Of this view, `count` bytes from its byte `from` on.
  View part(std::int64_t from, std::int64_t count) const { return {*buffer, offset + from, count}; }
  // Null where the host cannot read the memory.
  std::byte* host() const { return buffer->host() == nullptr ? nullptr : buffer->host() + offset; }
  explicit operator bool() const { return buffer != nullptr; }
  bool operator==(const View&) const = default;
};

// What a device promises.
struct Traits {
  // FP32 operations return the bits of their contracts (docs/numerics.md). False: the device is a
  // kind of its own, and `tolerance` is how far an element of a result may be from the contract's,
  // as a share of the largest magnitude in the result.
  bool exact_fp32 = true;
  float tolerance = 0;
  // The same for Winograd convolutions where the device computes plain ones, which lack the
  // roundings that the contract of those has.
  float winograd_tolerance = 0;
};

// An output that takes the memory of an input: both are bound to the same view. The input's value
// is gone after the run.
struct Donation {
  std::string output, input;
  bool operator==(const Donation&) const = default;
};

// How a graph is compiled. No result depends on it.
struct CompileOptions {
  int worker = 0;    // of the device's workers, the one that runs it
  bool fuse = true;  // off: one kernel per operation, same bits
  // Other workers wait for its runs, and are idle() meanwhile.
  bool awaited = false;
  std::vector<Donation> donations = {};
  // Sets of outputs, by name, that a run announces one after the other as they are ready.
  std::vector<std::vector<std::string>> milestones = {};
};

// The work of one kernel of a program in one run.
struct KernelCost {
  std::string name;  // "conv2d conv1"
  double flops = 0, bytes = 0;
};

// An input or an output of a program.
struct NamedType {
  std::string name;
  TensorType type;
};

// What a program needs, known without its kernels, its memory or any data.
struct Plan {
  std::vector<NamedType> inputs, outputs;
  std::vector<std::pair<int, int>> donated;  // numbers of an output and of its input
  std::vector<std::vector<int>> milestones;  // numbers of outputs
  std::vector<KernelCost> kernels;           // in the order in which they run
  std::int64_t arena_bytes = 0;              // for values between operations
};

// Time and work of one kernel of an executable, summed over the runs since profiling began and over
// all threads that ran its parts.
struct KernelProfile {
  std::string name;
  double seconds = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

// A compiled graph with the memory that it needs.
class Executable {
 public:
  virtual ~Executable() = default;

  // Inputs and outputs in the order of run(), and what the program needs.
  virtual const Plan& plan() const = 0;

  // Enqueued. Views hold row-major tensors, as long as their types say, in the order of the plan. A
  // donated output has its input's view; otherwise no output overlaps anything. Must not be called
  // from two threads at once. Allocates nothing, and checks nothing per element.
  virtual void run(std::span<const View> inputs, std::span<const View> outputs) = 0;
  // The same, and calls `reached` on this thread for milestone 0, 1, ...: what is then asked of the
  // device, by this thread or another that it tells, finds the outputs of that milestone and those
  // before. A device that cannot say so earlier calls it when all is enqueued.
  virtual void run_to_milestones(std::span<const View> inputs, std::span<const View> outputs,
                                 const std::function<void(std::size_t)>& reached) {
    run(inputs, outputs);
    for (std::size_t i = 0; i < plan().milestones.size(); ++i) reached(i);
  }

  // Runs like run(), waits, and checks every result. Returns the name of the first operation with a
  // result that is not finite, or nullopt.
  virtual std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                                     std::span<const View> outputs) = 0;

  virtual void start_profile() {}
  virtual std::vector<KernelProfile> profile() const { return {}; }
};

// How a process uses a device.
struct DeviceOptions {
  int workers = 1;  // threads of the process that run programs on it, side by side
  int threads = 1;  // cores for each of them, where the device is made of the host's cores
};

// One device of a process, shared by its workers.
class Device {
 public:
  // The options are kept as they are.
  explicit Device(const DeviceOptions& options) : options_(options) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The backend's name, as flags write it: "cpu".
  virtual std::string name() const = 0;
  // Describes the device for people: "avx512 kernels", ...
  virtual std::string description() const = 0;
  virtual Traits traits() const { return {}; }
  const DeviceOptions& options() const { return options_; }

  // Zeroed memory, kept for as long as the caller has it. Throws std::bad_alloc where there is no
  // more. On the host it is only address space until it is first touched.
  virtual std::unique_ptr<Buffer> allocate(std::int64_t bytes) = 0;
  // Memory of the host as a buffer, where the device can read and write it in place; else null. It
  // must outlive the buffer.
  virtual std::unique_ptr<Buffer> adopt(void* /*memory*/, std::int64_t /*bytes*/) {
    return nullptr;
  }

  // `from` may be changed as soon as this returns.
  virtual void upload(View to, const void* from) = 0;
  // Waits for all that was asked before.
  virtual void download(void* to, View from) = 0;
  // Between two views that do not overlap, of one length.
  virtual void copy(View to, View from) = 0;
  // sum[i] += addend[i], FP32: one addition of the tree over replicas.
  virtual void accumulate(View sum, View addend) = 0;
  virtual void synchronise() = 0;

  // Throws UserError for a graph that the device cannot run; so does compile().
  virtual Plan plan(const Graph& graph, const CompileOptions& options) = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph,
                                              const CompileOptions& options) = 0;

  // Worker `worker` waits for others and has nothing of its own to do: the device may use its
  // thread for something short, and says whether it did. Called again and again while it waits.
  virtual bool idle(int /*worker*/) { return false; }

 private:
  DeviceOptions options_;
};

// The backends of this build, the default first.
std::vector<std::string> backend_names();
// Throws UserError for an unknown name. An empty name means the default.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options = {});
// Adds a backend under a name of its own: make_device() finds it from then on. For devices that are
// not part of Podium, and for tests.
void register_backend(const std::string& name,
                      std::unique_ptr<Device> (*make)(const DeviceOptions& options));

}  // namespace podium
