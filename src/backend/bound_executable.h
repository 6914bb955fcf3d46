// An executable together with the memory that it runs on, bound by the names of the graph's inputs
// and outputs: once, however the graph orders them.
//
//   BoundExecutable program(backend, graph, {});
//   program.bind_input("images", images);
//   program.bind_output("logits", logits);
//   program.run();
//
// For memory that changes from run to run, a name's slot is looked up once and set before each run:
// that costs nothing. For running a graph on tensors once: interpret() of the reference backend.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace podium {

class BoundExecutable {
 public:
  BoundExecutable() = default;  // of nothing: only to be assigned to
  BoundExecutable(Backend& backend, const Graph& graph, const CompileOptions& options);

  // InternalError where the graph has no input or output of that name.
  std::size_t input_slot(const std::string& name) const;
  std::size_t output_slot(const std::string& name) const;
  void set_input(std::size_t slot, const void* memory) { inputs_[slot] = memory; }
  void set_output(std::size_t slot, void* memory) { outputs_[slot] = memory; }
  void bind_input(const std::string& name, const void* memory) {
    set_input(input_slot(name), memory);
  }
  void bind_output(const std::string& name, void* memory) { set_output(output_slot(name), memory); }

  // The first run throws InternalError where an input or output has no memory yet.
  void run() {
    if (!checked_) require_memory();
    executable_->run(inputs_, outputs_);
  }
  std::optional<std::string> find_non_finite() {
    return executable_->find_non_finite(inputs_, outputs_);
  }

  explicit operator bool() const { return executable_ != nullptr; }
  Executable& executable() const { return *executable_; }

 private:
  void require_memory();
  std::unique_ptr<Executable> executable_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  bool checked_ = false;
};

}  // namespace podium
