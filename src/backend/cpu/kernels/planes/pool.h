// Pooling over windows (contracts `max_pool`, `max_pool_grad`, `avg_pool`,
// `avg_pool_grad`), the batch in the lanes. A part is a run of planes [block][channel].
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

struct PoolShape {
  ActivationShape x;
  std::int64_t window_height = 1, window_width = 1;
  constexpr std::int64_t out_height() const { return x.height / window_height; }
  constexpr std::int64_t out_width() const { return x.width / window_width; }
  constexpr std::int64_t out_pixels() const { return out_height() * out_width(); }
};

// Windows of max pooling that lie a stride apart and may reach into padding.
struct StridedPoolShape {
  ActivationShape x;
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t window_height = 1, window_width = 1;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t pad_top = 0, pad_left = 0;
};

int pool_parts(const PoolShape& shape);
// `place`, shaped as y, gets where in its window the largest stands, row by row from 0; it may be
// null.
void max_pool(const PoolShape& shape, const float* x, float* y, float* place, int part);
// dx gets dy where x is its window's largest, +0 elsewhere.
void max_pool_grad(const PoolShape& shape, const float* dy, const float* x, float* dx, int part);
// The same from the places.
void max_pool_grad_at(const PoolShape& shape, const float* dy, const float* place, float* dx,
                      int part);
int strided_pool_parts(const StridedPoolShape& shape);
void strided_max_pool(const StridedPoolShape& shape, const float* x, float* y, float* place,
                      int part);
// dx gets the sum of dy over the windows whose largest is x.
void strided_max_pool_grad(const StridedPoolShape& shape, const float* dy, const float* x,
                           float* dx, int part);
void strided_max_pool_grad_at(const StridedPoolShape& shape, const float* dy, const float* place,
                              float* dx, int part);
// `share` is 1 over the pixels of a window, rounded once.
void avg_pool(const PoolShape& shape, float share, const float* x, float* y, int part);
void avg_pool_grad(const PoolShape& shape, float share, const float* dy, float* dx, int part);

}  // namespace podium::cpu
