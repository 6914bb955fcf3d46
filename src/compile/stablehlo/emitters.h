// One emitter for each operation of ops/op_list.h: what it is in StableHLO. A missing one is a link
// error. Fused operations become what they fuse, Winograd convolutions plain ones.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compile/stablehlo/builder.h"
#include "ops/ops.h"

namespace podium::stablehlo {

struct EmitContext {
  Builder& b;
  const Node& node;
  std::span<const HloValue> in;
  template <typename T>
  const T& as() const {
    return node.attributes.as<T>();
  }
  const Shape& out(std::size_t i = 0) const { return node.outputs[i].shape; }
};

// The results, in the order of the node's.
using Emitter = std::vector<HloValue> (*)(const EmitContext& context);

#define PODIUM_EMITTER_DECLARE(Kind, name) \
  std::vector<HloValue> emit_##name(const EmitContext& context);
PODIUM_OP_LIST(PODIUM_EMITTER_DECLARE)
#undef PODIUM_EMITTER_DECLARE

// Of an operation of the list; null for one that a program defined itself.
Emitter emitter_of(const OpDef& op);

// --- what several emitters share

HloValue activated(Builder& b, const Activation& activation, const HloValue& x);
// dy times the derivative at x.
HloValue activated_grad(Builder& b, const Activation& activation, const HloValue& dy,
                        const HloValue& x);

// The largest value of each whole window, and which of its pixels that is, counted row by row from
// 0: the first of equals, or the last NaN.
struct Largest {
  HloValue value, place;  // f32
};
Largest largest_of_windows(Builder& b, const HloValue& x, const PoolAttributes& window);
// The gradient to images of `shape` of the largest values at these places.
HloValue led_to_places(Builder& b, const HloValue& dy, const HloValue& place, const Shape& shape,
                       const PoolAttributes& window);

}  // namespace podium::stablehlo
