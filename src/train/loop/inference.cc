#include "train/loop/inference.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/error.h"
#include "train/program/program.h"

namespace podium {

std::string first_non_finite(std::span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    bool finite = true;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      finite &= (std::bit_cast<std::uint32_t>(tensor.values[i]) & 0x7f800000u) != 0x7f800000u;
    if (!finite) return tensor.name;
  }
  return "";
}

std::string binding_problem(const Graph& evaluation, std::span<const DeviceTensor> tensors) {
  std::map<std::string, const DeviceTensor*> given;
  for (const DeviceTensor& tensor : tensors) given.emplace(tensor.name, &tensor);
  for (const NamedValue& input : evaluation.inputs()) {
    const Node& node = evaluation.nodes()[static_cast<std::size_t>(input.value.node)];
    if (node.role == InputRole::kBatch) continue;
    const Shape& shape = evaluation.shape(input.value);
    const auto found = given.find(input.name);
    if (found == given.end()) return cat("needs \"", input.name, "\" as ", to_string(shape));
    if (found->second->type.shape != shape)
      return cat("needs \"", input.name, "\" as ", to_string(shape), ", not ",
                 to_string(found->second->type.shape));
    given.erase(found);
  }
  return given.empty() ? "" : cat("has no \"", given.begin()->first, "\"");
}

Inference::Inference(Device& device, int worker, BoundExecutable program, const Graph& evaluation,
                     std::int64_t views, std::span<const DeviceTensor> tensors,
                     const BatchMemory& batch)
    : program_(std::move(program)) {
  batch.bind(program_, evaluation);
  for (const NamedValue& input : evaluation.inputs()) {
    if (!input.name.starts_with(kCarriedPrefix)) continue;
    const std::int64_t bytes = evaluation.type(input.value).bytes();
    Carried& own =
        carried_.emplace_back(Carried{.input = program_.input_slot(input.name),
                                      .output = program_.output_slot(kNewPrefix + input.name),
                                      .memory = {device.allocate(bytes), device.allocate(bytes)},
                                      .zeros = device.allocate(bytes)});
    program_.set_input(own.input, *own.zeros);
    program_.set_output(own.output, *own.memory[0]);
  }
  for (const NamedValue& value : evaluation.outputs()) {
    if (is_next_carried(value.name)) continue;
    Staging& memory =
        outputs_.emplace_back(value.name, Staging(device, evaluation.type(value.value).bytes()))
            .second;
    program_.bind_output(value.name, memory.view());
  }
  for (const DeviceTensor& tensor : tensors) program_.bind_input(tensor.name, tensor.memory);
  PODIUM_REQUIRE(views == 1 || carried_.empty(), ExitCode::kUsage, "`evaluation.views` = ", views,
                 ": the model carries state, which is of one view; it must be 1");
  if (views != 1) views_ = Views(device, worker, program_, evaluation, views, outputs_, batch);
}

void Inference::run() {
  for (Carried& own : carried_) {
    program_.set_input(own.input, begins_ ? *own.zeros : *own.memory[turn_]);
    program_.set_output(own.output, *own.memory[1 - turn_]);
  }
  turn_ = 1 - turn_;
  begins_ = false;
  if (views_) return views_->run(program_);
  program_.run();
}

void Inference::visit_programs(
    const std::function<void(const char*, std::int64_t, const Plan&)>& visit) const {
  visit("evaluation", views_ ? views_->count() : 1, program_.executable().plan());
  if (views_) views_->visit_programs(visit);
}

std::int64_t Inference::batch_bytes() const {
  std::int64_t sum = views_ ? views_->bytes() : 0;
  for (const auto& [name, memory] : outputs_) sum += memory.bytes();
  for (const Carried& own : carried_) sum += 3 * own.zeros->bytes();
  return sum;
}

const Staging* Inference::find_output(std::string_view name) const {
  const auto found = std::ranges::find(outputs_, name, &std::pair<std::string, Staging>::first);
  return found == outputs_.end() ? nullptr : &found->second;
}

const Staging& Inference::output(const std::string& name) const {
  const Staging* const found = find_output(name);
  PODIUM_CHECK(found != nullptr, name);
  return *found;
}

}  // namespace podium
