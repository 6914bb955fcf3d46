// An executable together with the memory that it runs on, bound by the names of the graph's inputs
// and outputs: once, however the graph orders them.
//
//   BoundExecutable program(device, graph, {});
//   program.bind_input("images", images);
//   program.bind_output("logits", logits);
//   program.run();
//
// For memory that changes from run to run, a name's slot is looked up once and set before each run:
// that costs nothing. For running a graph on tensors once: interpret() of the reference backend.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"

namespace podium {

class BoundExecutable {
 public:
  BoundExecutable() = default;  // of nothing: only to be assigned to
  BoundExecutable(Device& device, const Graph& graph, const CompileOptions& options);

  // InternalError where the graph has no input or output of that name.
  std::size_t input_slot(const std::string& name) const;
  std::size_t output_slot(const std::string& name) const;
  // A donated output takes the view of its input.
  void set_input(std::size_t slot, View memory) {
    inputs_[slot] = memory;
    if (donated_to_[slot] >= 0) outputs_[static_cast<std::size_t>(donated_to_[slot])] = memory;
  }
  void set_output(std::size_t slot, View memory) { outputs_[slot] = memory; }
  // Also InternalError where the view is not as long as the tensor.
  void bind_input(const std::string& name, View memory);
  // Not of a donated output.
  void bind_output(const std::string& name, View memory);

  // Enqueued. The first run throws InternalError where an input or output has no memory yet, or
  // memory of a wrong length, or where an output overlaps what it does not replace.
  void run() {
    if (!checked_) require_memory();
    executable_->run(inputs_, outputs_);
  }
  // Calls `reached` with the number of each milestone (CompileOptions::milestones).
  void run_to_milestones(const std::function<void(std::size_t)>& reached) {
    if (!checked_) require_memory();
    executable_->run_to_milestones(inputs_, outputs_, reached);
  }
  // What run() would run now, of which the first call checks the memory as the first run does.
  Call call() {
    if (!checked_) require_memory();
    return {executable_.get(), inputs_, outputs_};
  }
  std::optional<std::string> find_non_finite() {
    return executable_->find_non_finite(inputs_, outputs_);
  }

  explicit operator bool() const { return executable_ != nullptr; }
  Executable& executable() const { return *executable_; }

 private:
  void require_memory();
  std::unique_ptr<Executable> executable_;
  std::vector<View> inputs_, outputs_;
  std::vector<int> donated_to_;  // the output that has an input's memory; -1: none
  bool checked_ = false;
};

}  // namespace podium
