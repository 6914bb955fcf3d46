#include "backend/cpu/lowering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/pack.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
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
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    output_index_.emplace(graph_.outputs()[i].value, static_cast<int>(i));
  }
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
  // Outputs that no kernel wrote in place: values in lanes, inputs handed through, constants,
  // doubles.
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const NamedValue& output = graph_.outputs()[i];
    const auto held = plain_.find(output.value);
    if (held != plain_.end() &&
        program_.slots[static_cast<std::size_t>(held->second)].kind == SlotInfo::Kind::kOutput &&
        program_.slots[static_cast<std::size_t>(held->second)].external == static_cast<int>(i)) {
      continue;
    }
    label_ = "output " + output.name;
    cost_ = {};
    const TensorType& type = graph_.type(output.value);
    const Slot target = add_slot({.kind = SlotInfo::Kind::kOutput,
                                  .bytes = type.bytes(),
                                  .external = static_cast<int>(i),
                                  .dtype = type.dtype});
    if (in_lanes(output.value) && held == plain_.end()) {
      const Slot source = lanes(output.value);
      const std::int64_t images = type.shape[0], features = features_of(type.shape);
      emit({.parts = unpack_lanes_parts(images, features),
            .reads = {source},
            .writes = {target},
            .run = [=](const Memory& m, int part, int) {
              unpack_lanes(images, features, m.f32(source), m.f32(target), part);
            }});
    } else {
      const Slot source = plain(output.value);
      const auto bytes = static_cast<std::size_t>(type.bytes());
      // What is copied may be what an update made.
      emit({.reads = {source},
            .writes = {target},
            .updates = true,
            .run = [=](const Memory& m, int, int) {
              std::memcpy(m.f32(target), m.f32(source), bytes);
            }});
    }
  }
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
  emit({.parts = flat_parts(count), .writes = {slot}, .run = [=](const Memory& m, int part, int) {
          cpu::fill(count, filler, m.f32(slot), part);
        }});
}

Slot Lowering::lanes(Value value) {
  if (const auto found = lanes_.find(value); found != lanes_.end()) return found->second;
  materialise(value);
  const Slot source = plain_.at(value);
  const TensorType& type = graph_.type(value);
  const std::int64_t images = type.shape[0], features = features_of(type.shape);
  const Slot target = define_lanes(value);
  if (type.dtype == DType::kF32) {
    emit({.name = "pack " + graph_.node(value).name,
          .parts = pack_lanes_parts(images, features),
          .reads = {source},
          .writes = {target},
          .run = [=](const Memory& m, int part,
                     int) { pack_lanes(images, features, m.f32(source), m.f32(target), part); },
          .cost = {0, 2.0 * static_cast<double>(type.bytes())}});
  } else {
    PODIUM_CHECK(features == 1, "only labels are packed as integers");
    emit({.name = "pack " + graph_.node(value).name,
          .reads = {source},
          .writes = {target},
          .run = [=](const Memory& m, int,
                     int) { pack_labels(images, m.i32(source), m.i32(target)); },
          .cost = {0, 2.0 * static_cast<double>(type.bytes())}});
  }
  return target;
}

Slot Lowering::plain(Value value) {
  materialise(value);
  if (const auto found = plain_.find(value); found != plain_.end()) return found->second;
  const Slot source = lanes_.at(value);
  const Shape& s = shape(value);
  const std::int64_t images = s[0], features = features_of(s);
  const Slot target = define_plain(value);
  emit({.name = "unpack " + label_,
        .parts = unpack_lanes_parts(images, features),
        .reads = {source},
        .writes = {target},
        .run = [=](const Memory& m, int part,
                   int) { unpack_lanes(images, features, m.f32(source), m.f32(target), part); },
        .cost = {0, 2.0 * static_cast<double>(s.elements()) * 4}});
  return target;
}

Slot Lowering::define_lanes(Value value) {
  const TensorType& type = graph_.type(value);
  const std::int64_t images = type.shape[0], features = features_of(type.shape);
  return lanes_[value] = add_slot({.bytes = padded(images) * features * 4,
                                   .dtype = type.dtype,
                                   .images = images,
                                   .features = features});
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
  } else if (in_lanes(other)) {
    lanes_[value] = lanes_.at(other);
  } else {
    plain_[value] = plain_.at(other);
  }
}

Slot Lowering::temporary(std::int64_t floats) {
  return add_slot({.bytes = std::max<std::int64_t>(floats, 1) * 4, .scratch = true});
}

void Lowering::need_scratch(std::int64_t floats) {
  constexpr std::int64_t kLine = 16;
  program_.scratch_floats = std::max(program_.scratch_floats, (floats + kLine - 1) / kLine * kLine);
}

void Lowering::emit(Step step) {
  if (step.name.empty()) step.name = label_;
  // Of several steps of one node, the first that has no cost of its own carries the node's.
  if (step.cost.flops == 0 && step.cost.bytes == 0) step.cost = std::exchange(cost_, {});
  program_.steps.push_back(std::move(step));
}

}  // namespace podium::cpu
