// The backend interface. A backend compiles a graph to an executable and checks everything then. An
// executable runs on memory of its backend; it allocates nothing and checks nothing per element.
//
//   auto backend = make_backend("cpu");
//   auto program = backend->compile(graph, {});
//   program->run(inputs, outputs);      // in the order of graph.inputs() and graph.outputs()
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace podium {

// How an executable computes. No result depends on these.
struct CompileOptions {
  int threads = 1;   // that share the parts of each kernel
  int guests = 0;    // threads of other workers that may help()
  bool fuse = true;  // off: one kernel per operation, same bits
  // Other cores read the outputs of updates next. Some backends then write them in another way,
  // with the same bits.
  bool shared_outputs = false;
};

// Time and work of one kernel of an executable, summed over the runs since profiling began and over
// the threads that ran its parts, guests included.
struct KernelProfile {
  std::string name;  // "conv2d conv1"
  double seconds = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

// A compiled graph with the memory that it needs.
class Executable {
 public:
  virtual ~Executable() = default;

  // Tensors are plain row-major memory, aligned to their element type. An output of an optimizer's
  // update may be the memory of the input that it replaces; otherwise all are disjoint. Must not be
  // called from two threads at once.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;

  // Called by a helping thread: does one part of what run() is doing on another thread, if one is
  // free, and returns whether it did. Results do not depend on it. `guest`, a number below
  // CompileOptions::guests, identifies the thread; one thread uses it at a time. `own` is an
  // executable of that thread and the same backend that is not running; its memory may be used.
  virtual bool help(int /*guest*/, const Executable& /*own*/) { return false; }

  // Bytes that the executable needs for values between operations; known before the first run.
  virtual std::int64_t arena_bytes() const = 0;

  // Runs like run() and checks every result. Returns the name of the first operation with a result
  // that is not finite, or nullopt.
  virtual std::optional<std::string> find_non_finite(std::span<const void* const> inputs,
                                                     std::span<void* const> outputs) = 0;

  virtual void start_profile() {}
  virtual std::vector<KernelProfile> profile() const { return {}; }
};

// Compiles graphs for one kind of device.
class Backend {
 public:
  virtual ~Backend() = default;
  // As recipes and flags write it: "cpu".
  virtual std::string name() const = 0;
  // Describes the device for people: "avx512 kernels", ...
  virtual std::string description() const = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph,
                                              const CompileOptions& options) = 0;
  // sum[i] += addend[i]: one addition of the tree over replicas.
  virtual void accumulate(std::span<float> sum, std::span<const float> addend) = 0;
  // The sum of squares of a run of at most ops/ops.h's kSquareRun elements, in its stated order.
  virtual float sum_of_squares(std::span<const float> run) = 0;
};

// The backends of this build, the default first.
std::vector<std::string> backend_names();
// Throws UserError for an unknown name. An empty name means the default.
std::unique_ptr<Backend> make_backend(const std::string& name);

}  // namespace podium
