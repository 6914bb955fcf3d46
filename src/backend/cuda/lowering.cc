#include "backend/cuda/lowering.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/lower.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

std::int64_t features_of(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.elements_from(1);
}

}  // namespace

LowerFunction lower_function(OpKind kind) {
  if (kind == kOwnOperation) return lower_own_operation;
  static constexpr LowerFunction kFunctions[] = {
#define PODIUM_LOWER_ENTRY(Kind, name) lower_##name,
      PODIUM_OP_LIST(PODIUM_LOWER_ENTRY)
#undef PODIUM_LOWER_ENTRY
  };
  return kFunctions[static_cast<std::size_t>(kind)];
}

Program Lowering::run() {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
    output_index_.emplace(graph_.outputs()[i].value, static_cast<int>(i));
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const Value value = graph_.inputs()[i].value;
    plain_[value] = add_slot({.kind = SlotInfo::Kind::kInput,
                              .bytes = graph_.type(value).bytes(),
                              .external = static_cast<int>(i),
                              .dtype = graph_.type(value).dtype});
  }
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (node.op == nullptr) continue;
    label_ = node.name.empty() ? node.op->name : cat(node.op->name, " ", node.name);
    std::vector<TensorType> inputs;
    for (const Value value : node.inputs) inputs.push_back(graph_.type(value));
    cost_ = cost_of(*node.op, node.attributes, inputs, node.outputs);
    lower_function(node.op->kind)(*this, node, static_cast<std::int32_t>(i));
  }
  // Outputs that no kernel wrote in place: values that are held batch last, inputs handed through,
  // constants, doubles.
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const NamedValue& output = graph_.outputs()[i];
    const auto held = plain_.find(output.value);
    if (held != plain_.end()) {
      const SlotInfo& info = program_.slots[static_cast<std::size_t>(held->second)];
      if (info.kind == SlotInfo::Kind::kOutput && info.external == static_cast<int>(i)) continue;
    }
    label_ = "output " + output.name;
    cost_ = {};
    const TensorType& type = graph_.type(output.value);
    const Slot target = add_slot({.kind = SlotInfo::Kind::kOutput,
                                  .bytes = type.bytes(),
                                  .external = static_cast<int>(i),
                                  .dtype = type.dtype});
    if (is_batch_last(output.value) && held == plain_.end()) {
      turn(output.value, label_, batch_last(output.value), target, false);
    } else {
      const Slot source = plain(output.value);
      const std::int64_t words = type.bytes() / 4;
      emit({.reads = {source},
            .writes = {target},
            .run = [=](const Launch& launch, const Memory& m) {
              copy_words(launch, words, m.u32(source), m.u32(target));
            }});
    }
  }
  program_.steps = join_steps(std::move(program_.steps));
  return std::move(program_);
}

Slot Lowering::add_slot(SlotInfo info) {
  program_.slots.push_back(info);
  return static_cast<Slot>(program_.slots.size()) - 1;
}

void Lowering::materialise(Value value) {
  const float* found = constant(value);
  if (found == nullptr || plain_.contains(value)) return;
  const float filler = *found;
  const Slot slot = define_plain(value);
  const std::int64_t count = shape(value).elements();
  emit({.writes = {slot}, .run = [=](const Launch& launch, const Memory& m) {
          fill(launch, count, filler, m.f32(slot));
        }});
}

void Lowering::turn(Value value, const std::string& name, Slot from, Slot to, bool to_batch_last) {
  const TensorType& type = graph_.type(value);
  const std::int64_t images = type.shape[0], features = features_of(type.shape);
  PODIUM_CHECK(type.bytes() == images * features * 4, "values of 4 bytes alone have layouts");
  const std::int64_t rows = to_batch_last ? images : features,
                     columns = to_batch_last ? features : images;
  emit({.name = name,
        .reads = {from},
        .writes = {to},
        .run = [=](const Launch& launch,
                   const Memory& m) { transpose(launch, rows, columns, m.u32(from), m.u32(to)); },
        .cost = {0, 2.0 * static_cast<double>(type.bytes())}});
}

Slot Lowering::batch_last(Value value) {
  if (const auto found = batch_last_.find(value); found != batch_last_.end()) return found->second;
  materialise(value);
  const Slot source = plain_.at(value);
  if (features_of(shape(value)) == 1 || shape(value)[0] == 1) return batch_last_[value] = source;
  const Slot target = define_batch_last(value);
  turn(value, "turn " + graph_.node(value).name, source, target, true);
  return target;
}

Slot Lowering::plain(Value value) {
  materialise(value);
  if (const auto found = plain_.find(value); found != plain_.end()) return found->second;
  const Slot source = batch_last_.at(value);
  const Slot target = define_plain(value);
  turn(value, "turn " + label_, source, target, false);
  return target;
}

Slot Lowering::rounded(Value value) {
  if (const auto found = rounded_.find(value); found != rounded_.end()) return found->second;
  const Slot source = batch_last(value);
  const std::int64_t features = features_of(shape(value)), images = shape(value)[0],
                     bytes = rounded_bytes(features, images);
  const Slot target = temporary((bytes + 3) / 4);
  emit({.name = "round " + graph_.node(value).name,
        .reads = {source},
        .writes = {target},
        .run =
            [=](const Launch& launch, const Memory& m) {
              round_images(launch, features, images, m.f32(source), m.u16(target));
            },
        .cost = {.flops = 0, .bytes = static_cast<double>(graph_.type(value).bytes() + bytes)}});
  return rounded_[value] = target;
}

Slot Lowering::define_batch_last(Value value) {
  if (features_of(shape(value)) == 1) return batch_last_[value] = define_plain(value);
  const TensorType& type = graph_.type(value);
  return batch_last_[value] = add_slot({.bytes = type.bytes(), .dtype = type.dtype});
}

Slot Lowering::define_plain(Value value) {
  const TensorType& type = graph_.type(value);
  SlotInfo info{.bytes = type.bytes(), .dtype = type.dtype};
  if (const auto output = output_index_.find(value); output != output_index_.end()) {
    info.kind = SlotInfo::Kind::kOutput;
    info.external = output->second;
    output_index_.erase(output);
  }
  return plain_[value] = add_slot(info);
}

void Lowering::define_alias(Value value, Value other) {
  if (const float* filler = constant(other)) {
    define_constant(value, *filler);
    return;
  }
  if (const auto found = batch_last_.find(other); found != batch_last_.end())
    batch_last_[value] = found->second;
  if (const auto found = plain_.find(other); found != plain_.end()) plain_[value] = found->second;
}

Slot Lowering::temporary(std::int64_t floats) {
  return add_slot({.bytes = std::max<std::int64_t>(floats, 1) * 4, .scratch = true});
}

Slot Lowering::data(std::vector<std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  program_.constants.push_back(std::move(bytes));
  return add_slot({.kind = SlotInfo::Kind::kConstant,
                   .bytes = size,
                   .external = static_cast<int>(program_.constants.size()) - 1});
}

void Lowering::emit(Step step) {
  if (step.name.empty()) step.name = label_;
  // Of several steps of one node, the first that has no cost of its own carries the node's.
  if (step.cost.flops == 0 && step.cost.bytes == 0) step.cost = std::exchange(cost_, {});
  program_.steps.push_back(std::move(step));
}

}  // namespace podium::PODIUM_CUDA_SPACE
