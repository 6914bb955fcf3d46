// Convolutions of batch-last images, and matrix products of operands as they lie.
#include <algorithm>
#include <cstdint>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/conv/conv.h"
#include "backend/cuda/kernels/conv/winograd.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/lowering/lower.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// How an operand is read: its values, or, with kRounded, them rounded to BF16.
template <bool kRounded>
Slot operand(Lowering& l, Value value) {
  return kRounded ? l.rounded(value) : l.batch_last(value);
}
template <bool kRounded>
auto values(const Memory& m, Slot slot) {
  if constexpr (kRounded)
    return m.u16(slot);
  else
    return m.f32(slot);
}

// Operands that an operation may lack; then `slot` is that of another one, which nobody reads.
struct Optional {
  bool there;
  Slot slot;
  Floats of(const Memory& m) const { return there ? m.f32(slot) : Floats{}; }
};

struct Norm {
  Optional affine;
  Activation activation;
  WinogradNorm of(const Memory& m) const { return {affine.of(m), activation}; }
};
Norm norm_of(Lowering& l, const Node& node, Slot images) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  return {{a.normalises, a.normalises ? l.plain(node.inputs.back()) : images}, a.activation};
}

// --- products

// How a matrix lies in its slot.
struct Matrix {
  SourceSlot source;
  MatrixLayout layout;
};
template <bool kRounds>
Matrix read_matrix(Lowering& l, Value value) {
  const Shape& shape = l.shape(value);
  const bool batch = l.is_batch_last(value);
  const MatrixLayout layout = batch ? MatrixLayout{1, shape[0]} : MatrixLayout{shape[1], 1};
  if constexpr (kRounds) return {l.rounding_source(value, batch), layout};
  return {{l.in_layout(value, batch)}, layout};
}
MatrixLayout transposed(const MatrixLayout& layout, bool transposes) {
  return transposes ? turned(layout) : layout;
}

using ScratchFunction = std::int64_t (*)(const ConvShape&);

// Of planes and weights, to planes.
template <bool kRounded, typename Function>
void lower_planes(Lowering& l, const Node& node, std::int32_t index, const ConvShape& shape,
                  Function function, ScratchFunction scratch) {
  const Slot planes = operand<kRounded>(l, node.inputs[0]), weights = l.plain(node.inputs[1]);
  ResultSlots result;
  if constexpr (kRounded)
    result = l.define_result({index, 0});
  else
    result.floats = l.define_batch_last({index, 0});
  const Slot own = l.temporary(scratch(shape));
  l.emit({.reads = {planes, weights},
          .writes = result.slots({own}),
          .run = [=](const Launch& launch, const Memory& m) {
            if constexpr (kRounded)
              function(launch, shape, m.u16(planes), m.f32(weights), m.result(result), m.f32(own));
            else
              function(launch, shape, m.f32(planes), m.f32(weights), m.f32(result.floats),
                       m.f32(own));
          }});
}

template <bool kRounded, typename Function>
void lower_forward(Lowering& l, const Node& node, std::int32_t index, Function function,
                   ScratchFunction scratch) {
  const ConvShape shape =
      conv_shape(node.attributes.as<Conv2dAttributes>(), l.shape(node.inputs[0]),
                 l.shape(node.inputs[1]), node.outputs[0].shape);
  lower_planes<kRounded>(l, node, index, shape, function, scratch);
}

template <bool kRounded, typename Function>
void lower_grad_input(Lowering& l, const Node& node, std::int32_t index, Function function,
                      ScratchFunction scratch) {
  const ConvShape shape = conv_shape(node.attributes.as<Conv2dAttributes>(), node.outputs[0].shape,
                                     l.shape(node.inputs[1]), l.shape(node.inputs[0]));
  lower_planes<kRounded>(l, node, index, shape, function, scratch);
}

template <bool kRounded, typename Function>
void lower_grad_weight(Lowering& l, const Node& node, std::int32_t index, Function function,
                       ScratchFunction scratch) {
  const Value x = node.inputs[0], dy = node.inputs[1];
  const ConvShape shape = conv_shape(node.attributes.as<Conv2dAttributes>(), l.shape(x),
                                     node.outputs[0].shape, l.shape(dy));
  const Slot images = operand<kRounded>(l, x), gradient = operand<kRounded>(l, dy),
             dw = l.define_plain({index, 0}), own = l.temporary(scratch(shape));
  l.emit({.reads = {images, gradient},
          .writes = {dw, own},
          .run = [=](const Launch& launch, const Memory& m) {
            function(launch, shape, values<kRounded>(m, images), values<kRounded>(m, gradient),
                     m.f32(dw), m.f32(own));
          }});
}

template <bool kRounds>
void lower_product(Lowering& l, const Node& node, std::int32_t index) {
  const auto& t = node.attributes.as<MatmulAttributes>();
  const Value a = node.inputs[0], b = node.inputs[1], y{index, 0};
  const Matrix left = read_matrix<kRounds>(l, a), right = read_matrix<kRounds>(l, b);
  const Shape& result = node.outputs[0].shape;
  // Rows of images make rows of images.
  const bool batch = !t.transpose_a && l.is_batch_last(a);
  ResultSlots out;
  if constexpr (kRounds)
    out = l.define_result(y, batch);
  else
    out.floats = l.define_in_layout(y, batch);
  const MatmulShape shape{.rows = result[0],
                          .depth = l.shape(a)[t.transpose_a ? 0 : 1],
                          .columns = result[1],
                          .a = transposed(left.layout, t.transpose_a),
                          .b = transposed(right.layout, t.transpose_b),
                          .y = batch ? MatrixLayout{1, result[0]} : MatrixLayout{result[1], 1}};
  const SourceSlot x = left.source, w = right.source;
  const Slot own = l.temporary(kRounds ? matmul_bf16_scratch(shape) : matmul_scratch(shape));
  l.emit({.reads = {x.slot, w.slot},
          .writes = out.slots({own}),
          .run = [=](const Launch& launch, const Memory& m) {
            if constexpr (kRounds)
              matmul_bf16(launch, shape, m.source(x), m.source(w), m.result(out), m.f32(own));
            else
              matmul(launch, shape, m.f32(x.slot), m.f32(w.slot), m.f32(out.floats), m.f32(own));
          }});
}

// Said where a program is planned, and not in its first step.
void require_sizes(Lowering& l, const Node& node) {
  for (const Value input : node.inputs) require_bf16_size(node, l.shape(input));
  require_bf16_size(node, node.outputs[0].shape);
}

}  // namespace

void require_bf16_size(const Node& node, const Shape& shape) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1, kMostSide = 32767;
  if (shape.elements() == 0) return;
  const auto filled_along = [&](std::int64_t axis) {
    return shape.elements() / shape[axis] * ((shape[axis] + 7) / 8 * 8);
  };
  const bool has_sides = shape.rank() == 4;
  const std::int64_t filled = std::max(filled_along(0), filled_along(has_sides ? 0 : 1));
  const bool fits = !has_sides || std::max(shape[2], shape[3]) <= kMostSide;
  PODIUM_REQUIRE(filled <= kMost && fits, ExitCode::kUsage, node.op->name, " ", node.name,
                 ": an operand ", to_string(shape), " is too large for BF16 on a GPU, which takes ",
                 kMost, " elements of a replica and images of ", kMostSide,
                 " pixels a side; use more replicas or a smaller batch, or precision=fp32");
}

void lower_conv2d(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward<false>(l, node, index, conv2d, conv2d_scratch);
}
void lower_conv2d_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_input<false>(l, node, index, conv2d_grad_input, conv2d_grad_input_scratch);
}
void lower_conv2d_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_weight<false>(l, node, index, conv2d_grad_weight, conv2d_grad_weight_scratch);
}
void lower_matmul(Lowering& l, const Node& node, std::int32_t index) {
  lower_product<false>(l, node, index);
}

void lower_conv2d_bf16(Lowering& l, const Node& node, std::int32_t index) {
  require_sizes(l, node);
  lower_forward<true>(l, node, index, conv2d_bf16, conv2d_bf16_scratch);
}
void lower_conv2d_bf16_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  require_sizes(l, node);
  lower_grad_input<true>(l, node, index, conv2d_bf16_grad_input, conv2d_bf16_grad_input_scratch);
}
void lower_conv2d_bf16_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  require_sizes(l, node);
  lower_grad_weight<true>(l, node, index, conv2d_bf16_grad_weight, conv2d_bf16_grad_weight_scratch);
}
void lower_matmul_bf16(Lowering& l, const Node& node, std::int32_t index) {
  require_sizes(l, node);
  lower_product<true>(l, node, index);
}

void lower_conv2d_winograd(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const ConvShape shape =
      conv_shape(a, l.shape(node.inputs[0]), l.shape(node.inputs[1]), node.outputs[0].shape);
  const Slot x = l.batch_last(node.inputs[0]), w = l.plain(node.inputs[1]);
  const Norm norm = norm_of(l, node, x);
  const Slot y = l.define_batch_last({index, 0});
  const bool pools = a.pools;
  const Optional places{a.places, a.places ? l.define_batch_last({index, 1}) : y};
  const Slot own = l.temporary(conv2d_winograd_scratch(shape));
  l.emit({.reads = {x, w, norm.affine.slot},
          .writes = {y, places.slot, own},
          .run = [=](const Launch& launch, const Memory& m) {
            conv2d_winograd(launch, shape, m.f32(x), m.f32(w), {m.f32(y), pools, places.of(m)},
                            m.f32(own), norm.of(m));
          }});
}

void lower_conv2d_winograd_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const ConvShape shape =
      conv_shape(a, node.outputs[0].shape, l.shape(node.inputs[1]), l.shape(node.inputs[0]));
  const Slot dy = l.batch_last(node.inputs[0]), w = l.plain(node.inputs[1]);
  const Optional places{a.pools, a.pools ? l.batch_last(node.inputs[2]) : dy};
  const Slot dx = l.define_batch_last({index, 0});
  const Slot own = l.temporary(conv2d_winograd_grad_input_scratch(shape));
  l.emit({.reads = {dy, w, places.slot},
          .writes = {dx, own},
          .run = [=](const Launch& launch, const Memory& m) {
            conv2d_winograd_grad_input(launch, shape, {m.f32(dy), places.of(m)}, m.f32(w),
                                       m.f32(dx), m.f32(own));
          }});
}

void lower_conv2d_winograd_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const ConvShape shape =
      conv_shape(a, l.shape(node.inputs[0]), node.outputs[0].shape, l.shape(node.inputs[1]));
  const Slot x = l.batch_last(node.inputs[0]), dy = l.batch_last(node.inputs[1]);
  const Optional places{a.pools, a.pools ? l.batch_last(node.inputs[2]) : dy};
  const Norm norm = norm_of(l, node, x);
  const Slot dw = l.define_plain({index, 0});
  const Slot own = l.temporary(conv2d_winograd_grad_weight_scratch(shape));
  l.emit({.reads = {x, dy, places.slot, norm.affine.slot},
          .writes = {dw, own},
          .run = [=](const Launch& launch, const Memory& m) {
            conv2d_winograd_grad_weight(launch, shape, m.f32(x), {m.f32(dy), places.of(m)},
                                        m.f32(dw), m.f32(own), norm.of(m));
          }});
}

}  // namespace podium::PODIUM_CUDA_SPACE
