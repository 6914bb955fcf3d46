// Batch normalisation, bias, pooling, and their gradients.
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/planes.h"
#include "backend/cuda/kernels/pool.h"
#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/lowering/lower.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

PlaneShape plane_shape(const Shape& shape) {
  const Planes p = planes_of(shape);
  return {.images = p.images, .channels = p.channels, .height = p.height, .width = p.width};
}

NormResult result_of(const Node& node) {
  const auto& a = node.attributes.as<BatchNormAttributes>();
  return {.activation = a.activation,
          .pools = a.pools,
          .adds = a.adds,
          .activates_sum = a.activates_sum};
}

// What is added to the result; if nothing is, some operand, which nobody reads.
SourceSlot addend_of(Lowering& l, const Node& node, std::size_t operand) {
  return l.source(node.inputs[node.attributes.as<BatchNormAttributes>().adds ? operand : 0]);
}

void emit_apply(Lowering& l, const Node& node, std::int32_t index, const PlaneShape& shape,
                SourceSlot x, Slot affine, SourceSlot addend) {
  const NormResult result = result_of(node);
  const ResultSlots y = l.define_result({index, 0});
  l.emit({.reads = {x.slot, affine, addend.slot},
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            batch_norm_apply(launch, shape, result, m.source(x), m.f32(affine), m.source(addend),
                             m.result(y));
          }});
}

}  // namespace

void lower_batch_norm(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<BatchNormAttributes>();
  const PlaneShape shape = plane_shape(l.shape(node.inputs[0]));
  const SourceSlot x = l.source(node.inputs[0]), addend = addend_of(l, node, 3);
  const Slot gamma = l.plain(node.inputs[1]), beta = l.plain(node.inputs[2]);
  const Slot mean = l.define_plain({index, 1}), variance = l.define_plain({index, 2}),
             inv_std = l.define_plain({index, 3});
  const Slot affine = a.defers ? l.define_plain({index, 0}) : l.temporary(2 * shape.channels);
  const Slot scratch = l.temporary(plane_sums_scratch(shape));
  const float epsilon = a.epsilon;
  l.emit({.reads = {x.slot, gamma, beta},
          .writes = {mean, variance, inv_std, affine, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            batch_norm_statistics(launch, shape, epsilon, m.source(x), m.f32(gamma), m.f32(beta),
                                  m.f32(scratch), {m.f32(mean), m.f32(variance), m.f32(inv_std)},
                                  m.f32(affine));
          }});
  if (!a.defers) emit_apply(l, node, index, shape, x, affine, addend);
}

void lower_batch_norm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const PlaneShape shape = plane_shape(l.shape(node.inputs[1]));
  const NormResult result = result_of(node);
  const SourceSlot dy = l.source(node.inputs[0]), x = l.source(node.inputs[1]),
                   addend = addend_of(l, node, 6);
  const Slot gamma = l.plain(node.inputs[2]), beta = l.plain(node.inputs[3]),
             mean = l.plain(node.inputs[4]), inv_std = l.plain(node.inputs[5]);
  const ResultSlots dx = l.define_result({index, 0});
  const Slot dgamma = l.define_plain({index, 1}), dbeta = l.define_plain({index, 2});
  const Slot scratch = l.temporary(plane_sums_scratch(shape)),
             factors = l.temporary(norm_grad_factors(shape)),
             before = !norm_grad_needs_before(result)   ? scratch
                      : dx.floats != ResultSlots::kNone ? dx.floats
                                                        : l.temporary(shape.elements());
  l.emit({.reads = {dy.slot, x.slot, addend.slot, gamma, beta, mean, inv_std},
          .writes = dx.slots({dgamma, dbeta, scratch, factors, before}),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::batch_norm_grad(launch, shape, result,
                                               {.dy = m.source(dy),
                                                .x = m.source(x),
                                                .addend = m.source(addend),
                                                .gamma = m.f32(gamma),
                                                .beta = m.f32(beta),
                                                .mean = m.f32(mean),
                                                .inv_std = m.f32(inv_std),
                                                .dx = m.result(dx),
                                                .dgamma = m.f32(dgamma),
                                                .dbeta = m.f32(dbeta)},
                                               m.f32(scratch), m.f32(factors), m.f32(before));
          }});
}

void lower_batch_norm_inference(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<BatchNormAttributes>();
  const PlaneShape shape = plane_shape(l.shape(node.inputs[0]));
  const SourceSlot x = l.source(node.inputs[0]), addend = addend_of(l, node, 5);
  const Slot gamma = l.plain(node.inputs[1]), beta = l.plain(node.inputs[2]),
             mean = l.plain(node.inputs[3]), variance = l.plain(node.inputs[4]);
  const Slot affine = a.defers ? l.define_plain({index, 0}) : l.temporary(2 * shape.channels);
  const float epsilon = a.epsilon;
  l.emit({.reads = {gamma, beta, mean, variance},
          .writes = {affine},
          .run = [=](const Launch& launch, const Memory& m) {
            batch_norm_affine(launch, shape.channels, epsilon, m.f32(gamma), m.f32(beta),
                              m.f32(mean), m.f32(variance), m.f32(affine));
          }});
  if (!a.defers) emit_apply(l, node, index, shape, x, affine, addend);
}

void lower_batch_norm_running(Lowering& l, const Node& node, std::int32_t index) {
  const Slot old_mean = l.plain(node.inputs[0]), old_variance = l.plain(node.inputs[1]),
             mean = l.plain(node.inputs[2]), variance = l.plain(node.inputs[3]),
             new_mean = l.define_plain({index, 0}), new_variance = l.define_plain({index, 1});
  const auto a = node.attributes.as<BatchNormRunningAttributes>();
  const std::int64_t channels = l.shape(node.inputs[0])[0];
  const auto part = [=](const Memory& m) {
    return RunningPart{.count = channels,
                       .attributes = a,
                       .operands = {.old_mean = m.f32(old_mean),
                                    .old_variance = m.f32(old_variance),
                                    .mean = m.f32(mean),
                                    .variance = m.f32(variance),
                                    .new_mean = m.f32(new_mean),
                                    .new_variance = m.f32(new_variance)}};
  };
  l.emit({.reads = {old_mean, old_variance, mean, variance},
          .writes = {new_mean, new_variance},
          .run =
              [=](const Launch& launch, const Memory& m) {
                const RunningPart own[] = {part(m)};
                PODIUM_CUDA_SPACE::batch_norm_running(launch, own);
              },
          .part = part});
}

namespace {

// Whether x is a matrix as a product of plain matrices left it: tokens.
bool is_rows(const Lowering& l, Value x) { return l.shape(x).rank() == 2 && !l.is_batch_last(x); }

}  // namespace

void lower_bias_add(Lowering& l, const Node& node, std::int32_t index) {
  const bool rows = is_rows(l, node.inputs[0]);
  const SourceSlot x = l.source(node.inputs[0], !rows);
  const Slot bias = l.plain(node.inputs[1]);
  const ResultSlots y = l.define_result({index, 0}, !rows);
  const PlaneShape shape = plane_shape(l.shape(node.inputs[0]));
  l.emit({.reads = {x.slot, bias},
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            if (rows)
              bias_add_rows(launch, shape.images, shape.channels, m.source(x), m.f32(bias),
                            m.result(y));
            else
              PODIUM_CUDA_SPACE::bias_add(launch, shape.channels, shape.inner(), m.source(x),
                                          m.f32(bias), m.result(y));
          }});
}

void lower_channel_sum(Lowering& l, const Node& node, std::int32_t index) {
  const bool rows = is_rows(l, node.inputs[0]);
  const SourceSlot dy = l.source(node.inputs[0], !rows);
  const Slot sum = l.define_plain({index, 0});
  const PlaneShape shape = plane_shape(l.shape(node.inputs[0]));
  const Slot scratch = l.temporary(rows ? 0 : plane_sums_scratch(shape));
  l.emit({.reads = {dy.slot},
          .writes = {sum, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            if (rows)
              channel_sum_rows(launch, shape.images, shape.channels, m.source(dy), m.f32(sum));
            else
              PODIUM_CUDA_SPACE::channel_sum(launch, shape, m.source(dy), m.f32(scratch),
                                             m.f32(sum));
          }});
}

namespace {

PoolShape pool_shape(const Node& node, const Shape& x) {
  const auto& a = node.attributes.as<PoolAttributes>();
  const Shape y = pooled(x, a);
  return {.images = x[0],
          .channels = x[1],
          .height = x[2],
          .width = x[3],
          .out_height = y[2],
          .out_width = y[3],
          .window_height = a.window_h,
          .window_width = a.window_w,
          .stride_height = a.stride_h == 0 ? a.window_h : a.stride_h,
          .stride_width = a.stride_w == 0 ? a.window_w : a.stride_w,
          .pad_top = a.pad_top,
          .pad_left = a.pad_left,
          .tiles = a.tiles()};
}

using AvgPoolFunction = void (*)(const Launch&, const PoolShape&, float, Source, const Result&);

void lower_average(Lowering& l, const Node& node, std::int32_t index, const PoolShape& shape,
                   AvgPoolFunction function) {
  const float share = pool_share(node.attributes.as<PoolAttributes>());
  const SourceSlot x = l.source(node.inputs[0]);
  const ResultSlots y = l.define_result({index, 0});
  l.emit(
      {.reads = {x.slot}, .writes = y.slots(), .run = [=](const Launch& launch, const Memory& m) {
         function(launch, shape, share, m.source(x), m.result(y));
       }});
}

}  // namespace

void lower_max_pool(Lowering& l, const Node& node, std::int32_t index) {
  const PoolShape shape = pool_shape(node, l.shape(node.inputs[0]));
  const bool places = node.attributes.as<PoolAttributes>().places;
  const SourceSlot x = l.source(node.inputs[0]);
  const ResultSlots y = l.define_result({index, 0});
  const ResultSlots place{.floats = places ? l.define_batch_last({index, 1}) : ResultSlots::kNone};
  l.emit({.reads = {x.slot},
          .writes = y.slots(place.slots()),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::max_pool(launch, shape, m.source(x), m.result(y),
                                        m.result(place).floats);
          }});
}

void lower_max_pool_grad(Lowering& l, const Node& node, std::int32_t index) {
  const PoolShape shape = pool_shape(node, node.outputs[0].shape);
  const bool places = node.attributes.as<PoolAttributes>().places;
  const SourceSlot dy = l.source(node.inputs[0]), from = l.source(node.inputs[1]);
  const ResultSlots dx = l.define_result({index, 0});
  l.emit({.reads = {dy.slot, from.slot},
          .writes = dx.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::max_pool_grad(launch, shape, places, m.source(dy), m.source(from),
                                             m.result(dx));
          }});
}

void lower_avg_pool(Lowering& l, const Node& node, std::int32_t index) {
  lower_average(l, node, index, pool_shape(node, l.shape(node.inputs[0])), avg_pool);
}
void lower_avg_pool_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_average(l, node, index, pool_shape(node, node.outputs[0].shape), avg_pool_grad);
}

}  // namespace podium::PODIUM_CUDA_SPACE
