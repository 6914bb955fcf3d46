#include "backend/cpu/lowering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/products/pack.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {

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
  return lower_all([this](const Node& node, std::int32_t index) {
    lower_function(node.op->kind)(*this, node, index);
  });
}

SlotInfo Lowering::batched_slot(const TensorType& type) const {
  const std::int64_t images = type.shape[0], features = lowering::features_of(type.shape);
  return {.bytes = padded(images) * features * 4,
          .dtype = type.dtype,
          .images = images,
          .features = features};
}

void Lowering::convert(Value value, const std::string& name, Slot from, Slot to, bool to_batched) {
  const TensorType& type = graph().type(value);
  const std::int64_t images = type.shape[0], features = lowering::features_of(type.shape);
  Step step{.name = cat(to_batched ? "pack " : "unpack ", name),
            .reads = {from},
            .writes = {to},
            .cost = {0, 2.0 * static_cast<double>(type.bytes())}};
  if (!to_batched) {
    step.parts = unpack_lanes_parts(images, features);
    step.run = [=](const Memory& m, int part, int) {
      unpack_lanes(images, features, m.f32(from), m.f32(to), part);
    };
  } else if (type.dtype == DType::kF32) {
    step.parts = pack_lanes_parts(images, features);
    step.run = [=](const Memory& m, int part, int) {
      pack_lanes(images, features, m.f32(from), m.f32(to), part);
    };
  } else {
    PODIUM_CHECK(features == 1, "only labels are packed as integers");
    step.run = [=](const Memory& m, int, int) { pack_labels(images, m.i32(from), m.i32(to)); };
  }
  emit(std::move(step));
}

void Lowering::emit_fill(std::int64_t count, float filler, Slot to) {
  emit_flat(count, {}, {to},
            [=](const Memory& m, int part) { cpu::fill(count, filler, m.f32(to), part); });
}

void Lowering::emit_copy(std::int64_t bytes, Slot from, Slot to) {
  // What is copied may be what an update made.
  emit({.reads = {from}, .writes = {to}, .updates = true, .run = [=](const Memory& m, int, int) {
          std::memcpy(m.any(to), m.any(from), static_cast<std::size_t>(bytes));
        }});
}

void Lowering::need_scratch(std::int64_t floats) {
  constexpr std::int64_t kLine = 16;
  program().scratch_floats =
      std::max(program().scratch_floats, (floats + kLine - 1) / kLine * kLine);
}

}  // namespace podium::cpu
