// The lowerings of element-wise operations, for all backends. They keep the layout of their first
// operand; shapes and constants compute nothing.
//
// A backend passes its kernels as a class of static functions, kernel(at, count, ...), `at` being
// what says where a kernel runs: the part on a CPU, the launch on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/lowering/lowering.h"
#include "ops/ops.h"

namespace podium::lowering {

// What source() and define_result() give: a slot, or one that says its form, or those of several
// forms of a result.
inline Slot slot_of(Slot slot) { return slot; }
inline std::vector<Slot> slots_of(Slot slot) { return {slot}; }
std::vector<Slot> slots_of(const auto& result) { return result.slots(); }

// kernel(at, count, a, b, y) for the operands of a node in one layout and its result in the same; b
// is a where there is one operand.
template <typename L, typename Kernel>
void lower_flat(L& l, const Node& node, std::int32_t index, const Kernel& kernel) {
  const bool batch = l.is_batched(node.inputs[0]);
  const auto a = l.source(node.inputs[0], batch),
             b = node.inputs.size() > 1 ? l.source(node.inputs[1], batch) : a;
  const auto y = l.define_result({index, 0}, batch);
  const std::int64_t count = l.floats_of(l.shape({index, 0}), batch);
  l.emit_flat(count, {slot_of(a), slot_of(b)}, slots_of(y), [=](const auto& m, const auto& at) {
    kernel(at, count, m.source(a), m.source(b), m.result(y));
  });
}

template <typename Kernels, typename L>
void lower_add(L& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, Kernels::add);
}
template <typename Kernels, typename L>
void lower_sub(L& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, Kernels::sub);
}
template <typename Kernels, typename L>
void lower_mul(L& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, Kernels::mul);
}
template <typename Kernels, typename L>
void lower_scale(L& l, const Node& node, std::int32_t index) {
  const float factor = node.attributes.as<ScaleAttributes>().factor;
  lower_flat(l, node, index, [=](const auto& at, auto count, auto x, auto, auto y) {
    Kernels::scale(at, count, factor, x, y);
  });
}
template <typename Kernels, typename L>
void lower_divide(L& l, const Node& node, std::int32_t index) {
  const float divisor = node.attributes.as<DivideAttributes>().divisor;
  lower_flat(l, node, index, [=](const auto& at, auto count, auto x, auto, auto y) {
    Kernels::divide(at, count, divisor, x, y);
  });
}
template <typename Kernels, typename L>
void lower_multiply_by(L& l, const Node& node, std::int32_t index) {
  const bool batch = l.is_batched(node.inputs[0]);
  const Slot factor = l.plain(node.inputs[1]);
  const auto x = l.source(node.inputs[0], batch);
  const auto y = l.define_result({index, 0}, batch);
  const std::int64_t count = l.floats_of(l.shape({index, 0}), batch);
  l.emit_flat(count, {slot_of(x), factor}, slots_of(y), [=](const auto& m, const auto& at) {
    Kernels::multiply_by(at, count, m.source(x), m.f32(factor), m.result(y));
  });
}
template <typename Kernels, typename L>
void lower_combine(L& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<CombineAttributes>();
  lower_flat(l, node, index, [=](const auto& at, auto count, auto x, auto y, auto out) {
    Kernels::combine(at, count, a, x, y, out);
  });
}
template <typename Kernels, typename L>
void lower_activate(L& l, const Node& node, std::int32_t index) {
  const Activation activation = node.attributes.as<ActivationAttributes>().activation;
  lower_flat(l, node, index, [=](const auto& at, auto count, auto x, auto, auto y) {
    Kernels::activate(at, count, activation, x, y);
  });
}
template <typename Kernels, typename L>
void lower_activate_grad(L& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<ActivationAttributes>();
  if (!a.adds) {
    lower_flat(l, node, index, [=](const auto& at, auto count, auto dy, auto x, auto dx) {
      Kernels::activate_grad(at, count, a.activation, dy, x, dx);
    });
    return;
  }
  const bool batch = l.is_batched(node.inputs[0]);
  const auto dy = l.source(node.inputs[0], batch), x = l.source(node.inputs[1], batch),
             more = l.source(node.inputs[2], batch);
  const auto dx = l.define_result({index, 0}, batch);
  const std::int64_t count = l.floats_of(l.shape({index, 0}), batch);
  const std::vector<Slot> reads{slot_of(dy), slot_of(x), slot_of(more)};
  l.emit_flat(count, reads, slots_of(dx), [=](const auto& m, const auto& at) {
    Kernels::activate_sum_grad(at, count, a.activation, m.source(dy), m.source(more), m.source(x),
                               m.result(dx));
  });
}
template <typename Kernels, typename L>
void lower_round_bf16(L& l, const Node& node, std::int32_t index) {
  if (l.is_held({index, 0})) return;
  if (l.is_rounded(node.inputs[0])) return l.define_alias({index, 0}, node.inputs[0]);
  lower_flat(l, node, index, Kernels::round_bf16);
}
template <typename Kernels, typename L>
void lower_fill(L& l, const Node& node, std::int32_t index) {
  l.define_constant({index, 0}, node.attributes.as<FillAttributes>().value);
}
template <typename Kernels, typename L>
void lower_reshape(L& l, const Node& node, std::int32_t index) {
  // Of other rows, a batched layout has other places for the elements.
  if (l.shape(node.inputs[0])[0] == node.outputs[0].shape[0])
    l.define_alias({index, 0}, node.inputs[0]);
  else
    l.define_plain_alias({index, 0}, node.inputs[0]);
}

}  // namespace podium::lowering

// Those above, by the names that they have in ops/op_list.h.
#define PODIUM_ELEMENTWISE_LIST(X) \
  X(add)                           \
  X(sub)                           \
  X(mul)                           \
  X(scale)                         \
  X(divide)                        \
  X(multiply_by)                   \
  X(combine)                       \
  X(activate) X(activate_grad) X(round_bf16) X(fill) X(reshape)
