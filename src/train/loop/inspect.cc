// Everything that one step computed, for a check against other frameworks. It runs the replicas'
// program with more outputs, and then the step itself.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/numerics/tree.h"
#include "data/pictures/image_source.h"
#include "ops/ops.h"
#include "train/loop/trainer_state.h"

namespace podium {
namespace {

// Appends an output for each value that has a branch in its derivative: what activations return,
// and what max pooling reads, counted in the order of the program.
void output_activations(Graph& graph) {
  std::int64_t activations = 0, pooled = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == &activate_op)
      graph.output(cat("activation/", activations++), Value{static_cast<std::int32_t>(i), 0});
    else if (node.op == &max_pool_op)
      graph.output(cat("pooled/", pooled++), node.inputs[0]);
  }
}

}  // namespace

std::string inspected_name(const std::string& tensor, const char* when) {
  return tensor.starts_with(kOptimizerPrefix)
             ? cat("state_", when, "/", tensor.substr(kOptimizerPrefix.size()))
             : cat(when, "/", tensor);
}

std::vector<NamedTensor> Trainer::State::batch_of(std::int64_t step) const {
  std::vector<NamedTensor> batch;
  std::vector<void*> memory;
  for (const Field& field : fields_of(loader->bucket_of(step))) {
    // What was the one input before there were other fields has kept its name.
    batch.push_back(
        {field.name == kImagesField ? "inputs" : field.name, Tensor(field.batch(recipe.batch))});
    memory.push_back(batch.back().tensor.data());
  }
  loader->examples(step, 0, recipe.batch, memory);
  return batch;
}

InspectedStep Trainer::inspect_step(bool activations) {
  State& s = *state_;
  const std::size_t length = s.loader->bucket_of(s.done);
  const std::vector<Field> of_batch = s.fields_of(length);
  ReplicaProgram program = build_replica_program(s.model, s.inputs_of(s.replica_rows, length),
                                                 s.recipe.seed, s.recipe.batch, true, s.optimizers);
  if (activations) output_activations(program.graph);
  BoundExecutable executable(*s.device, program.graph, {});
  s.settle();
  s.bind_values(executable);

  std::vector<NamedTensor> list;
  const std::int64_t part = s.replica_rows, replicas = s.recipe.replicas;
  const auto add_state = [&](const Checkpoint& checkpoint, const char* when) {
    for (const NamedTensor& t : checkpoint.tensors)
      list.push_back({inspected_name(t.name, when), t.tensor});
  };
  std::vector<NamedTensor> batch = s.batch_of(s.done);

  // One tensor a program output and replica; the batch's outputs are joined along their first axis.
  std::vector<std::vector<Tensor>> outputs(static_cast<std::size_t>(replicas));
  std::vector<std::unique_ptr<Buffer>> memory;
  const auto bind = [&](const std::string& name, std::int64_t bytes) {
    memory.push_back(s.device->allocate(bytes));
    executable.bind_input(name, *memory.back());
    return View(*memory.back());
  };
  std::vector<View> parts;
  for (const Field& field : of_batch) parts.push_back(bind(field.name, part * field.bytes()));
  const View at_step = bind("step", kWord), at_replica = bind("replica", kWord);
  std::vector<View> carried;
  for (const FlatEntry& entry : s.program.carried)
    carried.push_back(bind(entry.name, entry.bytes()));
  const Checkpoint before = checkpoint();
  std::vector<View> results_of;
  for (const NamedValue& output : program.graph.outputs()) {
    memory.push_back(s.device->allocate(program.graph.type(output.value).bytes()));
    executable.bind_output(output.name, *memory.back());
    results_of.push_back(*memory.back());
  }
  for (std::int64_t r = 0; r < replicas; ++r) {
    const auto step = static_cast<std::uint32_t>(s.done), replica = static_cast<std::uint32_t>(r);
    for (std::size_t i = 0; i < parts.size(); ++i)
      s.device->upload(parts[i],
                       static_cast<const std::byte*>(batch[i].tensor.data()) + r * parts[i].bytes);
    for (std::size_t i = 0; i < carried.size(); ++i) {
      Tensor own(s.program.carried[i].type);  // zeros
      if (!s.loader->begins(s.done))
        std::memcpy(own.data(),
                    static_cast<const std::byte*>(before.find(s.program.carried[i].name)->data()) +
                        r * carried[i].bytes,
                    static_cast<std::size_t>(carried[i].bytes));
      s.device->upload(carried[i], own.data());
    }
    s.device->upload(at_step, &step);
    s.device->upload(at_replica, &replica);
    executable.run();
    std::vector<Tensor>& results = outputs[static_cast<std::size_t>(r)];
    for (std::size_t o = 0; o < results_of.size(); ++o) {
      Tensor& result = results.emplace_back(program.graph.type(program.graph.outputs()[o].value));
      s.device->download(result.data(), results_of[o]);
    }
  }

  std::vector<NamedTensor> results;
  for (std::size_t o = 0; o < program.graph.outputs().size(); ++o) {
    const std::string& name = program.graph.outputs()[o].name;
    const auto of = [&](std::int64_t r) -> const Tensor& {
      return outputs[static_cast<std::size_t>(r)][o];
    };
    if (name.starts_with("gradient/")) {
      Tensor sum(of(0).type());
      for (std::int64_t i = 0; i < sum.elements(); ++i) {
        sum.f32()[i] = tree_sum(0, replicas, [&](std::int64_t r) { return of(r).f32()[i]; });
      }
      results.push_back({name, std::move(sum)});
    } else if (name == "loss" || name.starts_with("dropout/") || name.starts_with("activation/") ||
               name.starts_with("pooled/") || std::ranges::count(program.outputs, name) > 0) {
      // A row for each example, or as many as it has items.
      std::vector<std::int64_t> extents = {replicas * (name == "loss" ? 1 : of(0).shape()[0])};
      for (std::int64_t axis = 1; axis < of(0).shape().rank(); ++axis)
        extents.push_back(of(0).shape()[axis]);
      Tensor joined(DType::kF32, Shape(extents));
      for (std::int64_t r = 0; r < replicas; ++r)
        std::ranges::copy(of(r).f32(), joined.f32().begin() + r * of(r).elements());
      results.push_back({name, std::move(joined)});
    }
  }
  for (NamedTensor& field : batch) list.push_back(std::move(field));
  add_state(before, "before");
  for (NamedTensor& result : results) list.push_back(std::move(result));
  const StepResult result = step({.throw_on_divergence = false});
  add_state(checkpoint(), "after");
  return {result, std::move(list)};
}

}  // namespace podium
