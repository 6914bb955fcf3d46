// Convolution and its gradients with the batch in the lanes.
#include <functional>

#include "backend/cpu/kernels/bf16/conv_bf16.h"
#include "backend/cpu/kernels/bf16/matmul_bf16.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/planes/pool.h"
#include "backend/cpu/lower.h"
#include "backend/cpu/lower_phases.h"
#include "ops/bf16.h"

namespace podium::cpu {
namespace {

using ConvKernel = std::function<void(const ConvShape&, const float*, const float*, float*, float*,
                                      float*, int, int)>;
using WorkOfShape = std::function<ConvWork(const ConvShape&)>;

void emit_phases(Lowering& l, const ConvShape& shape, const ConvWork& work,
                 const ConvKernel& kernel, Slot a, Slot b, Slot out) {
  emit_phases(l, work,
              [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
                kernel(shape, m.f32(a), m.f32(b), m.f32(out), shared, scratch, phase, part);
              },
              {a, b}, {out});
}

void lower_forward(Lowering& l, const Node& node, const WorkOfShape& work, const ConvKernel& kernel,
                   Slot y) {
  const Slot x = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]);
  const ConvShape shape =
      conv_shape(node.attributes.as<Conv2dAttributes>(), l.shape(node.inputs[0]),
                 l.shape(node.inputs[1]), node.outputs[0].shape);
  emit_phases(l, shape, work(shape), kernel, x, w, y);
}

// The norm of a convolution's images; where there is none, `affine` is the slot of some operand,
// which nobody reads.
struct Norm {
  bool there;
  Slot affine;
  std::int64_t channels;
  Activation activation;
  ImageNorm of(const Memory& m) const {
    if (!there) return {};
    return {m.f32(affine), m.f32(affine) + channels, activation};
  }
};
Norm norm_of(Lowering& l, const Node& node, Slot images) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  return {a.normalises, a.normalises ? l.plain(node.inputs.back()) : images,
          l.shape(node.inputs[0])[1], a.activation};
}

// The forward pass with its neighbours: images normalised, the output pooled.
void lower_winograd_forward(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const bool pools = a.pools, places = a.places;
  const Slot x = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]);
  const Norm norm = norm_of(l, node, x);
  const Slot y = l.define_lanes({index, 0}), place = places ? l.define_lanes({index, 1}) : y;
  const ConvShape shape =
      conv_shape(a, l.shape(node.inputs[0]), l.shape(node.inputs[1]), node.outputs[0].shape);
  emit_phases(l, conv_winograd_forward_work(shape),
              [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
                conv_winograd_fused_forward(shape,
                                            {.x = m.f32(x),
                                             .w = m.f32(w),
                                             .y = m.f32(y),
                                             .norm = norm.of(m),
                                             .pools = pools,
                                             .place = places ? m.f32(place) : nullptr},
                                            shared, scratch, phase, part);
              },
              {x, w, norm.affine}, {y, place});
}

ConvShape grad_input_shape(const Lowering& l, const Node& node) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  return conv_shape(a, node.outputs[0].shape, l.shape(node.inputs[1]), l.shape(node.inputs[0]));
}
ConvShape grad_weight_shape(const Lowering& l, const Node& node) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  return conv_shape(a, l.shape(node.inputs[0]), node.outputs[0].shape, l.shape(node.inputs[1]));
}

void lower_grad_input(Lowering& l, const Node& node, const WorkOfShape& work,
                      const ConvKernel& kernel, Slot dx) {
  const Slot dy = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]);
  const ConvShape shape = grad_input_shape(l, node);
  emit_phases(l, shape, work(shape), kernel, dy, w, dx);
}

void lower_grad_weight(Lowering& l, const Node& node, std::int32_t index, const WorkOfShape& work,
                       const ConvKernel& kernel) {
  const Slot x = l.lanes(node.inputs[0]), dy = l.lanes(node.inputs[1]),
             dw = l.define_plain({index, 0});
  const ConvShape shape = grad_weight_shape(l, node);
  emit_phases(l, shape, work(shape), kernel, dy, x, dw);
}

// Gradients from a pooled output.
void lower_pooled_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  const Slot dy = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]),
             place = l.lanes(node.inputs[2]), dx = l.define_lanes({index, 0});
  const ConvShape shape = grad_input_shape(l, node);
  emit_phases(l, conv_winograd_grad_input_work(shape),
              [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
                conv_winograd_grad_input_pooled(shape, m.f32(dy), m.f32(place), m.f32(w), m.f32(dx),
                                                shared, scratch, phase, part);
              },
              {dy, place, w}, {dx});
}
// That to the weights with the neighbours of the forward pass.
void lower_winograd_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const bool pools = a.pools;
  const Slot x = l.lanes(node.inputs[0]), dy = l.lanes(node.inputs[1]),
             place = pools ? l.lanes(node.inputs[2]) : dy;
  const Norm norm = norm_of(l, node, x);
  const Slot dw = l.define_plain({index, 0});
  const ConvShape shape = grad_weight_shape(l, node);
  const ConvWork work = conv_winograd_grad_weight_work(shape);
  if (conv_winograd_grad_weight_is_wide(shape)) {
    emit_phases(l, work,
                [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
                  conv_winograd_fused_grad_weight(shape,
                                                  {.dy = m.f32(dy),
                                                   .x = m.f32(x),
                                                   .dw = m.f32(dw),
                                                   .place = pools ? m.f32(place) : nullptr,
                                                   .norm = norm.of(m)},
                                                  shared, scratch, phase, part);
                },
                {dy, place, x, norm.affine}, {dw});
    return;
  }
  if (!pools) return emit_phases(l, shape, work, conv_winograd_grad_weight, dy, x, dw);
  const PoolShape pool{{shape.images, shape.out_channels, shape.out_height, shape.out_width}, 2, 2};
  const Slot led = l.temporary(pool.x.floats());
  l.emit({.parts = pool_parts(pool),
          .reads = {dy, place},
          .writes = {led},
          .run = [=](const Memory& m, int part, int) {
            max_pool_grad_at(pool, m.f32(dy), m.f32(place), m.f32(led), part);
          }});
  emit_phases(l, shape, work, conv_winograd_grad_weight, led, x, dw);
}

// A function of the order and more, of the rest alone.
template <typename Result, typename... Rest>
auto in_order(Bf16Order order, Result (*function)(Bf16Order, Rest...)) {
  return [=](Rest... rest) { return function(order, rest...); };
}
// The same of a function that may round what it makes.
template <typename Result, typename... Rest>
auto in_order(Bf16Order order, bool rounded, Result (*function)(Bf16Order, bool, Rest...)) {
  return [=](Rest... rest) { return function(order, rounded, rest...); };
}

}  // namespace

void lower_conv2d(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward(l, node, conv_forward_work, conv_forward, l.define_lanes({index, 0}));
}
void lower_conv2d_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_input(l, node, conv_grad_input_work, conv_grad_input, l.define_lanes({index, 0}));
}
void lower_conv2d_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_weight(l, node, index, conv_grad_weight_work, conv_grad_weight);
}

void lower_conv2d_bf16(Lowering& l, const Node& node, std::int32_t index) {
  const Bf16Order order = bf16_order_of(node);
  const ResultSlot y = l.define_result({index, 0});
  lower_forward(l, node, in_order(order, conv_bf16_forward_work),
                in_order(order, y.rounded, conv_bf16_forward), y.slot);
}
void lower_conv2d_bf16_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  const Bf16Order order = bf16_order_of(node);
  const ResultSlot dx = l.define_result({index, 0});
  lower_grad_input(l, node, in_order(order, conv_bf16_grad_input_work),
                   in_order(order, dx.rounded, conv_bf16_grad_input), dx.slot);
}
void lower_conv2d_bf16_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  const Bf16Order order = bf16_order_of(node);
  lower_grad_weight(l, node, index, in_order(order, conv_bf16_grad_weight_work),
                    in_order(order, conv_bf16_grad_weight));
}
void lower_matmul_bf16(Lowering& l, const Node& node, std::int32_t index) {
  const auto& t = node.attributes.as<MatmulAttributes>();
  const Slot a = l.plain(node.inputs[0]), b = l.plain(node.inputs[1]);
  const ResultSlot c = l.define_result({index, 0}, false);
  const Shape &y = node.outputs[0].shape, &left = l.shape(node.inputs[0]);
  const MatmulBf16 product{.order = t.order,
                           .shape = {.rows = y[0],
                                     .columns = y[1],
                                     .depth = t.transpose_a ? left[0] : left[1],
                                     .transpose_a = t.transpose_a,
                                     .transpose_b = t.transpose_b},
                           .rounded = c.rounded};
  emit_phases(l, matmul_bf16_work(product),
              [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
                matmul_bf16(product, m.f32(a), m.f32(b), m.f32(c.slot), shared, scratch, phase,
                            part);
              },
              {a, b}, {c.slot});
}

void lower_conv2d_winograd(Lowering& l, const Node& node, std::int32_t index) {
  lower_winograd_forward(l, node, index);
}
void lower_conv2d_winograd_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  if (node.attributes.as<Conv2dAttributes>().pools) return lower_pooled_grad_input(l, node, index);
  lower_grad_input(l, node, conv_winograd_grad_input_work, conv_winograd_grad_input,
                   l.define_lanes({index, 0}));
}
void lower_conv2d_winograd_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_winograd_grad_weight(l, node, index);
}

}  // namespace podium::cpu
