// Pooling with the batch in the lanes.
#include "backend/cpu/kernels/planes/pool.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

PoolShape pool_shape(const Node& node, const Shape& x) {
  const auto& a = node.attributes.as<PoolAttributes>();
  return {{x[0], x[1], x[2], x[3]}, a.window_h, a.window_w};
}

StridedPoolShape strided_shape(const PoolAttributes& a, const Shape& x) {
  const Shape y = pooled(x, a);
  return {.x = {x[0], x[1], x[2], x[3]},
          .out_height = y[2],
          .out_width = y[3],
          .window_height = a.window_h,
          .window_width = a.window_w,
          .stride_height = a.stride_h == 0 ? a.window_h : a.stride_h,
          .stride_width = a.stride_w == 0 ? a.window_w : a.stride_w,
          .pad_top = a.pad_top,
          .pad_left = a.pad_left};
}

// `pools(shape, parts)` with the shape of windows that tile the images, or of others.
void with_shape(const Node& node, const Shape& x, const auto& pools) {
  const auto& a = node.attributes.as<PoolAttributes>();
  if (a.tiles()) {
    const PoolShape shape = pool_shape(node, x);
    pools(shape, pool_parts(shape));
  } else {
    const StridedPoolShape shape = strided_shape(a, x);
    pools(shape, strided_pool_parts(shape));
  }
}
void pool(const PoolShape& s, const float* x, float* y, float* place, int part) {
  max_pool(s, x, y, place, part);
}
void pool(const StridedPoolShape& s, const float* x, float* y, float* place, int part) {
  strided_max_pool(s, x, y, place, part);
}
// From x, or from the places of its maxima.
void lead(const PoolShape& s, bool places, const float* dy, const float* from, float* dx,
          int part) {
  (places ? max_pool_grad_at : max_pool_grad)(s, dy, from, dx, part);
}
void lead(const StridedPoolShape& s, bool places, const float* dy, const float* from, float* dx,
          int part) {
  (places ? strided_max_pool_grad_at : strided_max_pool_grad)(s, dy, from, dx, part);
}

}  // namespace

void lower_max_pool(Lowering& l, const Node& node, std::int32_t index) {
  const bool places = node.attributes.as<PoolAttributes>().places;
  const Slot x = l.lanes(node.inputs[0]), y = l.define_lanes({index, 0});
  const Slot place = places ? l.define_lanes({index, 1}) : y;
  with_shape(node, l.shape(node.inputs[0]), [&](const auto& shape, int parts) {
    l.emit({.parts = parts,
            .reads = {x},
            .writes = {y, place},
            .run = [=](const Memory& m, int part, int) {
              pool(shape, m.f32(x), m.f32(y), places ? m.f32(place) : nullptr, part);
            }});
  });
}

void lower_max_pool_grad(Lowering& l, const Node& node, std::int32_t index) {
  const bool places = node.attributes.as<PoolAttributes>().places;
  const Slot dy = l.lanes(node.inputs[0]), from = l.lanes(node.inputs[1]),
             dx = l.define_lanes({index, 0});
  with_shape(node, node.outputs[0].shape, [&](const auto& shape, int parts) {
    l.emit({.parts = parts,
            .reads = {dy, from},
            .writes = {dx},
            .run = [=](const Memory& m, int part, int) {
              lead(shape, places, m.f32(dy), m.f32(from), m.f32(dx), part);
            }});
  });
}

void lower_avg_pool(Lowering& l, const Node& node, std::int32_t index) {
  const PoolShape shape = pool_shape(node, l.shape(node.inputs[0]));
  const float share = pool_share(node.attributes.as<PoolAttributes>());
  const Slot x = l.lanes(node.inputs[0]), y = l.define_lanes({index, 0});
  l.emit({.parts = pool_parts(shape),
          .reads = {x},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            avg_pool(shape, share, m.f32(x), m.f32(y), part);
          }});
}

void lower_avg_pool_grad(Lowering& l, const Node& node, std::int32_t index) {
  const PoolShape shape = pool_shape(node, node.outputs[0].shape);
  const float share = pool_share(node.attributes.as<PoolAttributes>());
  const Slot dy = l.lanes(node.inputs[0]), dx = l.define_lanes({index, 0});
  l.emit({.parts = pool_parts(shape),
          .reads = {dy},
          .writes = {dx},
          .run = [=](const Memory& m, int part, int) {
            avg_pool_grad(shape, share, m.f32(dy), m.f32(dx), part);
          }});
}

}  // namespace podium::cpu
