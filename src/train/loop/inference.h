// One stream of inference: a batch in, what the network makes of it out, averaged over the views
// that the recipe asks for (train/loop/views.h). The trainer uses it for evaluation and the
// Predictor for prediction, one stream per worker. The outputs of an example depend on no other
// example of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/staging.h"
#include "tensor/tensor.h"
#include "train/loop/batch_memory.h"
#include "train/loop/views.h"

namespace podium {

// A tensor of floats in memory owned by the caller.
struct TensorView {
  std::string name;
  Shape shape;
  const float* values = nullptr;
  std::int64_t elements() const { return shape.elements(); }
};

// A tensor in memory of a device.
struct DeviceTensor {
  std::string name;
  TensorType type;
  View memory;
};

// The name of the first tensor with a value that is not finite; empty: none.
std::string first_non_finite(std::span<const TensorView> tensors);

// What of the parameters and running statistics of an evaluation program (train/program/program.h)
// does not agree with `tensors`, for people: `needs "fc.weight" as f32[10, 64], ...`. Empty:
// nothing; the order does not matter. Looks at names and shapes alone, and not at the batch.
std::string binding_problem(const Graph& evaluation, std::span<const DeviceTensor> tensors);

class Inference {
 public:
  // `program` is of `evaluation`, for `worker` of the device. The tensors stay where they are for
  // the life of this object, and binding_problem() finds nothing wrong with them. So does `batch`,
  // which the caller fills and sends.
  Inference(Device& device, int worker, BoundExecutable program, const Graph& evaluation,
            std::int64_t views, std::span<const DeviceTensor> tensors, const BatchMemory& batch);

  // The rows of the next batch begin streams: what the network carries is 0. Otherwise each goes on
  // where its row of the batch before ended.
  void begin() { begins_ = true; }
  // Computes the outputs of the batch, enqueued.
  void run();
  // An output of the network, for a program that goes on with it.
  View output_view(const std::string& name) const { return output(name).view(); }
  // The same for the host; waits. Rows of examples that nobody wrote mean nothing.
  const float* values(const std::string& name) const {
    const Staging& own = output(name);
    own.receive();
    return own.host<float>();
  }

  // The memory of an output; null: there is none of this name.
  const Staging* find_output(std::string_view name) const;

  // Calls visit(name, runs for a batch, plan) for each of its programs.
  void visit_programs(
      const std::function<void(const char*, std::int64_t, const Plan&)>& visit) const;
  std::int64_t batch_bytes() const;  // of views and outputs

 private:
  const Staging& output(const std::string& name) const;

  // What the network carries from batch to batch: two memories that take turns.
  struct Carried {
    std::size_t input, output;  // slots of the program
    std::unique_ptr<Buffer> memory[2], zeros;
  };
  BoundExecutable program_;
  std::vector<std::pair<std::string, Staging>> outputs_;
  std::vector<Carried> carried_;
  bool begins_ = true;
  std::size_t turn_ = 0;
  std::optional<Views> views_;  // of more than one
};

}  // namespace podium
