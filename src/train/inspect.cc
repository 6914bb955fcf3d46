// Everything that one step computed, for a check against other frameworks. It runs the replicas'
// program with more outputs, and then the step itself.

#include "base/tree.h"
#include "ops/ops.h"
#include "train/trainer_state.h"

namespace podium {

InspectedStep Trainer::inspect_step() {
  State& s = *state_;
  const ImageSet& set = s.loader->set();
  const ReplicaProgram program =
      build_replica_program(s.model, s.inputs_of(s.replica_images), s.recipe.seed, s.recipe.batch,
                            s.recipe.label_smoothing, true, s.optimizers);
  BoundExecutable executable(*s.backend, program.graph, {.threads = s.placement.threads});
  s.bind_values(executable);

  std::vector<NamedTensor> list;
  const auto batch = s.recipe.batch, part = s.replica_images, replicas = s.recipe.replicas;
  const auto add = [&](std::string name, Tensor tensor) {
    list.push_back({std::move(name), std::move(tensor)});
  };
  const auto add_state = [&](const Checkpoint& checkpoint, const std::string& values,
                             const std::string& states) {
    for (const NamedTensor& t : checkpoint.tensors) {
      const bool optimizer = t.name.starts_with(kOptimizerPrefix);
      add((optimizer ? states + t.name.substr(kOptimizerPrefix.size()) : values + t.name),
          t.tensor);
    }
  };

  Tensor images(DType::kF32, Shape{batch, set.channels, set.height, set.width});
  Tensor labels(DType::kI32, Shape{batch});
  s.loader->examples(s.done, 0, batch, images.f32().data(), labels.i32().data());

  // One tensor a program output and replica; the batch's outputs are joined along their first axis.
  std::vector<std::vector<Tensor>> outputs(static_cast<std::size_t>(replicas));
  for (std::int64_t r = 0; r < replicas; ++r) {
    const auto step = static_cast<std::uint32_t>(s.done), replica = static_cast<std::uint32_t>(r);
    executable.bind_input("images", images.f32().data() + r * part * set.image_bytes());
    executable.bind_input("labels", labels.i32().data() + r * part);
    executable.bind_input("step", &step);
    executable.bind_input("replica", &replica);
    std::vector<Tensor>& results = outputs[static_cast<std::size_t>(r)];
    results.reserve(program.graph.outputs().size());
    for (const NamedValue& output : program.graph.outputs()) {
      Tensor& result = results.emplace_back(program.graph.type(output.value));
      executable.bind_output(output.name, result.data());
    }
    executable.run();
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
    } else if (name == "loss" || name == "logits" || name.starts_with("dropout/")) {
      std::vector<std::int64_t> extents = {name == "loss" ? replicas : batch};
      for (std::int64_t axis = 1; axis < of(0).shape().rank(); ++axis)
        extents.push_back(of(0).shape()[axis]);
      Tensor joined(DType::kF32, Shape(extents));
      for (std::int64_t r = 0; r < replicas; ++r)
        std::ranges::copy(of(r).f32(), joined.f32().begin() + r * of(r).elements());
      results.push_back({name, std::move(joined)});
    }
  }
  add("inputs", images);
  add("labels", labels);
  add_state(checkpoint(), "before/", "state_before/");
  for (NamedTensor& result : results) list.push_back(std::move(result));
  const StepResult result = step({.throw_on_divergence = false});
  add_state(checkpoint(), "after/", "state_after/");
  return {result, std::move(list)};
}

}  // namespace podium
