// The interface between Podium and the devices that compute. A backend is a kind of device
// ("cpu"). A Device is a device of that kind, opened by one process: it has its own memory, runs
// graphs on it, and is shared by the workers of the process.
//
//   auto device = make_device("cpu", {.workers = 2});
//   auto memory = device->allocate(bytes);
//   auto program = device->compile(graph, {.worker = 0});
//   program->run(inputs, outputs);            // views, in the graph's order
//   device->download(values, view);           // waits for the program
//
// The host accesses a device's memory with upload() and download() or, if the two share memory (as
// on a CPU), through Buffer::host(). All other work on it is a graph, or one of the few operations
// below that have no shape: copies and additions of the tree over replicas.
//
// Order. A device has one queue: its results are those of the calls made in order. Calls from
// several threads are ordered by the host's synchronisation between these threads. A call may
// return before its work is done. download() and synchronise() wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/numerics/precision.h"
#include "graph/graph.h"

namespace podium {

class KeyValues;

// A handle to memory of a device. The device may move the memory in each run.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::int64_t bytes() const { return bytes_; }
  // The memory itself, 64-byte aligned, if the host may read and write it in place; else null.
  std::byte* host() const { return host_; }

 protected:
  // `host` is the result of host().
  Buffer(std::int64_t bytes, std::byte* host) : bytes_(bytes), host_(host) {}
  // Called by devices that have moved the memory.
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
  // `count` bytes of this view, from its byte `from` on.
  View part(std::int64_t from, std::int64_t count) const { return {*buffer, offset + from, count}; }
  // Null if the host cannot read the memory.
  std::byte* host() const { return buffer->host() == nullptr ? nullptr : buffer->host() + offset; }
  explicit operator bool() const { return buffer != nullptr; }
  bool operator==(const View&) const = default;
};

// The properties of a device's results.
struct Traits {
  // Whether FP32 operations return the bits of their contracts (docs/numerics.md). If not, the
  // device is a kind of its own, and an element of a result may differ from the contract's by
  // `tolerance` times the largest magnitude in the result.
  bool exact_fp32 = true;
  float tolerance = 0;
  // The same for Winograd convolutions, if the device computes direct convolutions instead, which
  // lack the roundings of the Winograd contract.
  float winograd_tolerance = 0;
  // Of how many workers it can compile a whole step to one program (Device::compile_step()): of
  // one, or of as many as this. 0: of none.
  int step_workers = 0;
  // Whether such a step can also hash what it has written.
  bool complete_steps = false;
  // Whether a whole step computes all replicas of a worker at once, so that it needs the memory of
  // all of them.
  bool replicas_together = false;
  // Whether it can compile the replicas of a worker to one program that does so
  // (Device::compile_replicas()).
  bool joint_replicas = false;
  // The bytes of memory that the device has for itself; 0 if it uses the host's, or unknown.
  std::int64_t memory_bytes = 0;
  // Whether its compiler finds out what a step takes of it (WholeStep::memory()), and refuses what
  // does not fit. Plans then count for the host's memory only.
  bool compiler_checks_memory = false;
  // How many devices the process has of this kind, with a memory of `memory_bytes` each: worker i
  // computes on number i modulo this one. 0 where it has the host's cores.
  int devices = 0;
};

// What a device makes of operations on BF16 operands (docs/numerics.md, BF16).
struct Bf16Support {
  // The orders whose bits it returns. A run that names none takes the first one.
  std::vector<Bf16Order> orders = {kBf16Orders.begin(), kBf16Orders.end()};
  // Those in which a sum takes about as long as in FP32, or less.
  std::vector<Bf16Order> fast = {};
  // If there are no orders: devices of one family have the same bits ("sm_120"), and for each 16
  // terms of its sum an element may differ from the contract's by `tolerance` times the largest
  // magnitude in the result. Empty: the device's traits say how far.
  std::string family = "";
  float tolerance = 0;
  // Why the device computes no such operations at all, for people; empty if it does.
  std::string missing = "";

  // Whether `orders` has this one.
  bool computes(Bf16Order order) const {
    return std::find(orders.begin(), orders.end(), order) != orders.end();
  }
};
// Throws UserError(kUsage), which names what is missing or the orders that there are, if the device
// does not compute this one. `device` is its name and what is known of it, for people.
void require_bf16_order(const std::string& device, const Bf16Support& support, Bf16Order order);

// An output that uses the memory of an input: both are bound to the same view. The input's value is
// lost in the run.
struct Donation {
  std::string output, input;
  bool operator==(const Donation&) const = default;
};

class Executable;

// How a graph is compiled. Results do not depend on it.
struct CompileOptions {
  int worker = 0;  // number of the worker that runs it
  // An executable of the same device that lives longer and never runs at the same time: its arena
  // may be used where it is large enough.
  const Executable* arena_of = nullptr;
  bool fuse = true;  // off: one kernel per operation, same bits
  // Other workers wait for its runs and call idle() meanwhile.
  bool awaited = false;
  std::vector<Donation> donations = {};
  // Sets of outputs, by name, whose completion a run reports one after the other.
  std::vector<std::vector<std::string>> milestones = {};
};

// The work of one kernel in one run of a program.
struct KernelCost {
  std::string name;  // "conv2d conv1"
  double flops = 0, bytes = 0;
};

// An input or an output of a program.
struct NamedType {
  std::string name;
  TensorType type;
};

// What a program needs, known before kernels are built, memory is allocated or data are loaded.
struct Plan {
  std::vector<NamedType> inputs, outputs;
  std::vector<std::pair<int, int>> donated;  // numbers of an output and of its input
  std::vector<std::vector<int>> milestones;  // numbers of outputs
  std::vector<KernelCost> kernels;           // in the order in which they run
  std::int64_t arena_bytes = 0;              // for values between operations; 0 in another's arena
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

  // The inputs and outputs in the order of run(), and what the program needs.
  virtual const Plan& plan() const = 0;

  // Enqueues a run. Views hold row-major tensors of the plan's types, in the order of the plan. A
  // donated output has its input's view; otherwise no output overlaps anything. Must not be called
  // from two threads at once. Allocates nothing, and checks nothing per element.
  virtual void run(std::span<const View> inputs, std::span<const View> outputs) = 0;
  // The same, and calls `reached` on this thread for milestone 0, 1, ...: device calls made after
  // that, by this thread or by one that it notifies, see the outputs of that milestone and of the
  // earlier ones. A device without finer order calls it after everything has been enqueued.
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
  // The profile stays as it is; timing costs nothing from here on.
  virtual void stop_profile() {}
  virtual std::vector<KernelProfile> profile() const { return {}; }
};

// A program and what it runs on, in the order of its plan.
struct Call {
  Executable* program = nullptr;
  std::vector<View> inputs, outputs;
};

// A step of all workers of a process, which have equally many replicas, in their order:
//
//   each worker runs its `replicas`, and what each wrote to `loss` is kept in the worker's
//   `losses`, side by side
//   `sum` becomes the sum over all replicas of what each wrote there, by the tree of
//   base/numerics/tree.h
//   if all losses are finite, each worker runs its `updates`, one after the other
//
// Where the norm of the sum has a limit, before the updates of a step whose losses are finite:
//
//   each worker runs its `squares`, which read the sum and write parts of one memory
//   each worker runs its `norm`, which reads all of that and writes a norm and a factor to the
//   worker's `norm_values`: the same for all workers
//   if the norm is finite, and the factor is not 1, each worker runs its `scales`, which replace
//   parts of the sum; if the norm is not finite, there are no updates
//
// Where there are hashes: after the updates, if there were any and the word `hash_wanted` is not 0,
// each worker runs its `hashes`, which read what all workers' updates wrote and write the worker's
// `hash_words`. They come with Traits::complete_steps alone.
//
// `sum` is FP32 memory between the replicas and the updates: each replica writes the same ranges of
// it, and its contents before and after the step have no meaning. `loss` is a part of it.
//
// The calls of two workers' replicas of one number differ in memory alone: the same, or each one's
// own. An update reads nothing that another worker's updates write, and no two workers' write the
// same. What a worker's updates read of `sum` and write is best one range of each memory. That goes
// for `squares` and `scales`, too.
struct StepProgram {
  // What one worker runs.
  struct Worker {
    std::vector<Call> replicas;
    View losses;
    std::vector<Call> updates;
    std::vector<Call> squares = {}, scales = {};
    Call norm = {};    // of no program: the norm has no limit
    View norm_values;  // f32 norm, f32 factor
    std::vector<Call> hashes = {};
    View hash_words, hash_wanted;  // of no buffer: no worker has hashes
  };
  bool clips() const { return workers[0].norm.program != nullptr; }
  std::vector<Worker> workers;
  View sum, loss;
};

// All replicas of a worker, in their order:
//
//   each runs, and what it wrote to `loss` is kept in `losses`, side by side
//   each of `sums` becomes the sum over its replicas of what each wrote to `sum`, by the tree of
//   base/numerics/tree.h
//
// The calls of two replicas differ in memory alone. Each replica writes the same ranges of `sum`,
// which is FP32 memory whose contents before and after have no meaning. `loss` is a part of it.
//
// `milestones` are parts of `sum` that make up all of it, best in the order in which the calls
// write them; no call writes to two of them at once. With the first one comes all that is not in
// `sum`.
struct ReplicasProgram {
  // A node of the tree: so many replicas from number `first` of the worker's on.
  struct Sum {
    std::size_t first = 0, count = 0;
    View view;  // as long as `sum`
  };
  int worker = 0;
  std::vector<Call> replicas;
  View sum, loss, losses;
  std::vector<Sum> sums;
  std::vector<View> milestones;
};

// What a compiled program takes of each of its devices, in bytes, if its compiler says so.
struct ProgramMemory {
  std::int64_t arguments = 0, results = 0;  // results that do not replace arguments
  std::int64_t temporary = 0;
  std::int64_t total() const { return arguments + results + temporary; }
};

// A compiled step.
class WholeStep {
 public:
  virtual ~WholeStep() = default;
  // Compiles it if that has not been done. run() does the same. Throws UserError with
  // ExitCode::kMemory if the devices have too little memory.
  virtual void compile() {}
  // Of a program that has been compiled.
  virtual ProgramMemory memory() const { return {}; }
  // Enqueued.
  virtual void run() = 0;
  // The program as text, as the device's compiler takes it.
  virtual std::string text() const = 0;
};

// Compiled replicas of a worker.
class JointReplicas {
 public:
  virtual ~JointReplicas() = default;
  // Enqueues all of them; then calls `reached` on this thread for milestone 0, 1, ... In that call,
  // this thread may ask the device for copies, sums and messages of what has been written up to the
  // milestone. They need not wait for what the replicas compute after it, and must not touch that.
  virtual void run(const std::function<void(std::size_t)>& reached) = 0;
  // As WholeStep::text().
  virtual std::string text() const = 0;
};

// How a process uses a device.
struct DeviceOptions {
  int workers = 1;  // threads of the process that run programs on it, side by side
  int threads = 1;  // cores for each of them, if the device consists of the host's cores
  // Number of the process among those of the run on this host, and how many these are: if several,
  // each takes one device; if it is alone, all of them.
  int local_rank = 0, local_ranks = 1;
  // Of the host's GPUs, in this order; empty: all.
  std::vector<int> gpus = {};
  // Of all processes of the run, while the device is opened; null: there is one.
  KeyValues* key_values = nullptr;
};

// One device of a process, shared by its workers.
class Device {
 public:
  // Stores the options unchanged.
  explicit Device(const DeviceOptions& options) : options_(options) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The backend's name, as flags write it: "cpu".
  virtual std::string name() const = 0;
  // Describes the device for people: "avx512 kernels", ...
  virtual std::string description() const = 0;
  // What tells this piece of hardware from others of its kind, as its maker's tools print it
  // ("GPU-1b2c..."): the one of a worker. Empty: unknown.
  virtual std::string serial(int /*worker*/) const { return ""; }
  virtual Traits traits() const { return {}; }
  // Finds out at its first call.
  virtual Bf16Support bf16() { return {}; }
  const DeviceOptions& options() const { return options_; }

  // Zeroed memory, which lives as long as the returned buffer. Throws std::bad_alloc if there is
  // not enough. On the host, it is only address space until it is first touched.
  virtual std::unique_ptr<Buffer> allocate(std::int64_t bytes) = 0;
  // Wraps memory of the host in a buffer, if the device can read and write it in place; else null.
  // The memory must outlive the buffer.
  virtual std::unique_ptr<Buffer> adopt(void* /*memory*/, std::int64_t /*bytes*/) {
    return nullptr;
  }

  // `from` may be changed as soon as this returns.
  virtual void upload(View to, const void* from) = 0;
  // Waits for all earlier calls.
  virtual void download(void* to, View from) = 0;
  // The views must not overlap and must have the same length.
  virtual void copy(View to, View from) = 0;
  // sum[i] += addend[i], FP32: one addition of the tree over replicas; by this worker, who reads
  // the sum next.
  virtual void accumulate(View sum, View addend, int worker) = 0;
  virtual void synchronise() = 0;

  // Throws UserError if the device cannot run the graph, as compile() does.
  virtual Plan plan(const Graph& graph, const CompileOptions& options) = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph,
                                              const CompileOptions& options) = 0;

  // Compiles a whole step to one program, with the bits of its calls; for as many workers as
  // Traits::step_workers says. The programs and buffers of the calls must outlive it.
  virtual std::unique_ptr<WholeStep> compile_step(const StepProgram& /*step*/) { return nullptr; }
  // The same for the replicas of a worker, if Traits::joint_replicas is true.
  virtual std::unique_ptr<JointReplicas> compile_replicas(const ReplicasProgram& /*replicas*/) {
    return nullptr;
  }

  // Called repeatedly by worker `worker` while it waits for others. The device may use the thread
  // for a short piece of work; returns whether it did.
  virtual bool idle(int /*worker*/) { return false; }

 private:
  DeviceOptions options_;
};

// The backends of this build, the default first.
std::vector<std::string> backend_names();
// A part of Podium that a build may lack.
struct MissingPart {
  std::string name;    // "cuda"
  std::string serves;  // "NVIDIA GPUs"
  std::string remedy;  // what to do, such as a command in the root of the source tree
};
// The backends that this build lacks.
std::vector<MissingPart> missing_backends();
// Throws UserError for an unknown name. An empty name means the default.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceOptions& options = {});
// Registers a backend under a new name, so that make_device() finds it. For devices that are not
// part of Podium, and for tests.
void register_backend(const std::string& name,
                      std::unique_ptr<Device> (*make)(const DeviceOptions& options));

}  // namespace podium
