#include "backend/pjrt/whole_step.h"

#include <mutex>
#include <string>
#include <utility>

namespace podium::pjrt {
namespace {

constexpr const char* kName = "the program of a whole step";

class PjrtStep : public WholeStep {
 public:
  PjrtStep(Memory& memory, std::vector<int> devices, StepProgram step, GraphOf graph_of,
           ReplicaOrder order)
      : memory_(memory),
        devices_(std::move(devices)),
        step_(std::move(step)),
        graph_of_(std::move(graph_of)),
        order_(order) {}

  void compile() override {
    const std::scoped_lock lock(memory_.mutex());
    compile_locked();
  }

  ProgramMemory memory() const override { return program_ ? program_->memory() : ProgramMemory{}; }

  void run() override {
    const std::scoped_lock lock(memory_.mutex());
    compile_locked();
    std::vector<std::vector<SharedArray>> arguments(devices_.size());
    std::size_t results = 0;
    for (const StepVector& vector : vectors_) {
      results += vector.is_written ? 1 : 0;
      std::vector<SharedArray> arrays;
      if (vector.in_parts()) {
        arrays = memory_.parts(*vector.buffers[0], vector.windows);
      } else {
        for (std::size_t d = 0; d < devices_.size(); ++d)
          arrays.push_back(memory_.array(*vector.buffers[d], devices_[d]));
      }
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        arguments[d].push_back(arrays[d]);
        if (vector.is_written) Memory::use_up(*vector.buffers[d]);
      }
    }
    const std::vector<std::vector<SharedArray>> made =
        memory_.plugin().run_together(*program_, devices_, arguments, results, kName);
    std::size_t next = 0;
    for (const StepVector& vector : vectors_)
      if (vector.is_written) replace(vector, made, next++);
  }

  std::string text() const override { return StepModule(step_, graph_of_, order_).text(); }

 private:
  void compile_locked() {
    if (program_) return;
    StepModule module(step_, graph_of_, order_);
    program_ = memory_.programs().get(module.text(), kName, devices_);
    vectors_ = module.vectors();
    for (StepVector& vector : vectors_)
      for (std::size_t d = 0; d < vector.windows.size(); ++d)
        vector.windows[d].device = devices_[d];
  }

  void replace(const StepVector& vector, const std::vector<std::vector<SharedArray>>& made,
               std::size_t result) {
    std::vector<SharedArray> arrays;
    arrays.reserve(made.size());
    for (const std::vector<SharedArray>& of_device : made) arrays.push_back(of_device[result]);
    if (vector.in_parts()) {
      Memory::replace_parts(*vector.buffers[0], vector.windows, std::move(arrays));
      return;
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d == 0 || vector.buffers[d] != vector.buffers[0]) {
        Memory::replace(*vector.buffers[d], devices_[d], arrays[d]);
      } else {
        vector.buffers[d]->arrays[devices_[d]] = arrays[d];
      }
    }
  }

  Memory& memory_;
  const std::vector<int> devices_;
  const StepProgram step_;
  const GraphOf graph_of_;
  const ReplicaOrder order_;
  std::vector<StepVector> vectors_;
  std::shared_ptr<Program> program_;
};

}  // namespace

std::unique_ptr<WholeStep> compile_whole_step(Memory& memory, std::vector<int> devices,
                                              const StepProgram& step, const GraphOf& graph_of,
                                              ReplicaOrder order) {
  return std::make_unique<PjrtStep>(memory, std::move(devices), step, graph_of, order);
}

}  // namespace podium::pjrt
