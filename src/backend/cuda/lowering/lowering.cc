#include "backend/cuda/lowering/lowering.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/lowering/lower.h"
#include "ops/bf16.h"

namespace podium::PODIUM_CUDA_SPACE {

LowerFunction lower_function(OpKind kind) {
  if (kind == kOwnOperation) return lower_own_operation;
  static constexpr LowerFunction kFunctions[] = {
#define PODIUM_LOWER_ENTRY(Kind, name) lower_##name,
      PODIUM_OP_LIST(PODIUM_LOWER_ENTRY)
#undef PODIUM_LOWER_ENTRY
  };
  return kFunctions[static_cast<std::size_t>(kind)];
}

namespace {

// Operations that ask for Lowering::source() of an operand.
bool takes_source(const OpDef& op, std::size_t operand) {
  switch (op.kind) {
    case OpKind::kMaxPool:
    case OpKind::kMaxPoolGrad:
    case OpKind::kAvgPool:
    case OpKind::kAvgPoolGrad: return true;
    case OpKind::kBatchNorm: return operand == 0 || operand == 3;
    case OpKind::kBatchNormInference: return operand == 0 || operand == 5;
    case OpKind::kBatchNormGrad: return operand < 2 || operand == 6;
    case OpKind::kAttention: return operand < 3;
    case OpKind::kAttentionGrad: return operand < 4;
    case OpKind::kLayerNormGrad: return operand < 2;
    case OpKind::kEmbeddingGrad: return operand == 1;
    case OpKind::kBiasAdd:
    case OpKind::kChannelSum:
    case OpKind::kLayerNorm:
    case OpKind::kRotary:
    case OpKind::kMultiplyBy: return operand == 0;
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kScale:
    case OpKind::kDivide:
    case OpKind::kCombine:
    case OpKind::kActivate:
    case OpKind::kActivateGrad:
    case OpKind::kRoundBf16: return true;
    default: return false;
  }
}

}  // namespace

Program Lowering::run() {
  for (const Node& node : graph().nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value value = node.inputs[i];
      const bool halves = rounds(*node.op, i) || (is_rounded(value) && takes_source(*node.op, i));
      (halves ? readings_[value].rounded : readings_[value].floats) = true;
    }
  for (const NamedValue& output : graph().outputs()) readings_[output.value].floats = true;
  Program program = lower_all([this](const Node& node, std::int32_t index) {
    lower_function(node.op->kind)(*this, node, index);
  });
  program.steps = join_steps(std::move(program.steps));
  return program;
}

SlotInfo Lowering::batched_slot(const TensorType& type) const {
  return {.bytes = type.bytes(), .dtype = type.dtype};
}

bool Lowering::is_same_in_both(const Shape& shape) const {
  return lowering::features_of(shape) == 1 || shape[0] == 1;
}

void Lowering::convert(Value value, const std::string& name, Slot from, Slot to, bool to_batched) {
  const TensorType& type = graph().type(value);
  const std::int64_t images = type.shape[0], features = lowering::features_of(type.shape);
  PODIUM_CHECK(type.bytes() == images * features * 4, "values of 4 bytes alone have layouts");
  const std::int64_t rows = to_batched ? images : features,
                     columns = to_batched ? features : images;
  emit({.name = "turn " + name,
        .reads = {from},
        .writes = {to},
        .run = [=](const Launch& launch,
                   const Memory& m) { transpose(launch, rows, columns, m.u32(from), m.u32(to)); },
        .cost = {0, 2.0 * static_cast<double>(type.bytes())}});
}

void Lowering::emit_fill(std::int64_t count, float filler, Slot to) {
  emit_flat(count, {}, {to},
            [=](const Memory& m, const Launch& launch) { fill(launch, count, filler, m.f32(to)); });
}

void Lowering::emit_copy(std::int64_t bytes, Slot from, Slot to) {
  emit_flat(bytes / 4, {from}, {to}, [=](const Memory& m, const Launch& launch) {
    copy_words(launch, bytes / 4, m.u32(from), m.u32(to));
  });
}

void Lowering::alias_another_form(Value value, Value other) {
  for (auto* const all : {&rounded_, &plain_rounded_})
    if (const auto found = all->find(other); found != all->end()) (*all)[value] = found->second;
}

void Lowering::make_floats(Value value) {
  const bool batch = halves_of(value, true) != nullptr;
  const Slot* const halves = halves_of(value, batch);
  if (halves == nullptr || has_floats(value)) return;
  PODIUM_CHECK(is_rounded(value), "the floats of a value are gone");
  const Slot from = *halves, to = define_in_layout(value, batch);
  const std::int64_t count = shape(value).elements();
  emit({.name = "widen " + graph().node(value).name,
        .reads = {from},
        .writes = {to},
        .run =
            [=](const Launch& launch, const Memory& m) {
              scale(launch, count, 1, Source(ConstHalves(m.u16(from))), {.floats = m.f32(to)});
            },
        .cost = {0, 6.0 * static_cast<double>(count)}});
}

SourceSlot Lowering::source(Value value, bool batch_last) {
  return is_rounded(value) ? rounding_source(value, batch_last)
                           : SourceSlot{in_layout(value, batch_last), false};
}
SourceSlot Lowering::rounding_source(Value value, bool batch_last) {
  const Slot* const halves = halves_of(value, batch_last);
  return halves != nullptr ? SourceSlot{*halves, true}
                           : SourceSlot{in_layout(value, batch_last), false};
}

Slot Lowering::rounded(Value value) {
  if (const auto found = rounded_.find(value); found != rounded_.end()) return found->second;
  const Slot source = batch_last(value);
  const std::int64_t features = lowering::features_of(shape(value)), images = shape(value)[0],
                     bytes = rounded_bytes(features, images);
  const Slot target = temporary((bytes + 3) / 4);
  emit({.name = "round " + graph().node(value).name,
        .reads = {source},
        .writes = {target},
        .run =
            [=](const Launch& launch, const Memory& m) {
              round_images(launch, features, images, m.f32(source), m.u16(target));
            },
        .cost = {.flops = 0, .bytes = static_cast<double>(graph().type(value).bytes() + bytes)}});
  return rounded_[value] = target;
}

ResultSlots Lowering::define_result(Value value, bool batch_last) {
  const Value target = rounded_result(value);
  const Shape& shape_of = shape(target);
  const Readings readings = readings_[target];
  ResultSlots result{.rounded = target != value};
  // What lies side by side: images, or the columns of a matrix.
  const bool fills =
      batch_last ? is_filled(shape_of[0]) : shape_of.rank() == 2 && is_filled(shape_of[1]);
  if (!readings.rounded || !fills) {
    result.floats = define_in_layout(target, batch_last);
    return result;
  }
  result.halves = temporary(shape_of.elements() / 2);
  (batch_last ? rounded_ : plain_rounded_)[target] = result.halves;
  if (readings.floats) result.floats = define_in_layout(target, batch_last);
  return result;
}

}  // namespace podium::PODIUM_CUDA_SPACE
