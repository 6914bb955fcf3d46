// The seam. A backend compiles a graph to an executable; all checking happens there. An executable
// runs on memory of its backend, allocates nothing and checks nothing per element.
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

struct CompileOptions {
  int threads = 1;   // that share out the parts of each kernel
  int guests = 0;    // threads of others that may help()
  bool fuse = true;  // off: one kernel an operation, same bits
  // Other cores read the outputs of updates next: on some backends worth writing them another way,
  // with the same bits.
  bool shared_outputs = false;
};

// What one kernel of an executable took, summed over the runs since profiling began and the threads
// that ran its parts, guests among them.
struct KernelProfile {
  std::string name;  // "conv2d conv1"
  double seconds = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;

  // Tensors are plain row-major memory, aligned as their elements are. An output may be the same
  // memory as the input of an optimizer's update that it replaces; otherwise they are disjoint. Not
  // to be called from two threads at once.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;

  // From a thread that is guest `guest`, a number below CompileOptions::guests that one thread uses
  // at a time: does a piece of what run() is doing on another thread, if there is one to be had,
  // and says whether it did. No result depends on it. `own` is an executable of that thread's, of
  // the same backend, that does not run meanwhile: its memory may serve, which is near the thread.
  virtual bool help(int /*guest*/, const Executable& /*own*/) { return false; }

  // Bytes that the executable holds for values between operations, known before the first run.
  virtual std::int64_t arena_bytes() const = 0;

  // Runs like run(), looking at every result: the first operation that made a value that is not
  // finite, or nothing.
  virtual std::optional<std::string> find_non_finite(std::span<const void* const> inputs,
                                                     std::span<void* const> outputs) = 0;

  virtual void start_profile() {}
  virtual std::vector<KernelProfile> profile() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // The device as a person would name it: "avx512 kernels", ...
  virtual std::string description() const = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph,
                                              const CompileOptions& options) = 0;
  // sum[i] += addend[i]: one addition of the tree over replicas.
  virtual void accumulate(std::span<float> sum, std::span<const float> addend) = 0;
};

// The backends of this build, the default first.
std::vector<std::string> backend_names();
// UserError if there is none of that name. An empty name is the default.
std::unique_ptr<Backend> make_backend(const std::string& name);

}  // namespace podium
