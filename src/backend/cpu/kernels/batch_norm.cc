#include "backend/cpu/kernels/batch_norm.h"

#include <cmath>

#include "backend/cpu/kernels/channel_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/batch_norm.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// x and x^2.
struct MomentTerm {
  static constexpr int kSums = 2;
  using At = V16;
  const float* x;
  HWY_INLINE V16 at(int64_t offset) const { return load16(x + offset); }
  template <int s>
  HWY_INLINE V16 step(const V16& value, const V16& acc) const {
    if constexpr (s == 0) {
      return add16(acc, value);
    } else {
      return fma16(value, value, acc);
    }
  }
};

// dy and dy * (x - mean); with kRelu dy counts only where the ReLU's input was positive. A term
// serves channels of one mean: `totals_of` is called channel by channel, or `flat_gradient_totals`.
template <bool kRelu>
struct GradientTerm {
  static constexpr int kSums = 2;
  struct At {
    V16 dy, centered;
  };
  const float* dy;
  const float* x;
  V16 mean, scale, shift;
  HWY_INLINE V16 masked(const V16& d, const V16& value) const {
    return kRelu ? where_positive16(fma16(value, scale, shift), d) : d;
  }
  HWY_INLINE At at(int64_t offset) const {
    const V16 value = load16(x + offset);
    return {masked(load16(dy + offset), value), sub16(value, mean)};
  }
  template <int s>
  HWY_INLINE V16 step(const At& at, const V16& acc) const {
    if constexpr (s == 0) {
      return add16(acc, at.dy);
    } else {
      return fma16(at.dy, at.centered, acc);
    }
  }
};

// y = x * scale + shift of channel c, and the ReLU of that.
template <bool kRelu>
HWY_INLINE void apply_channel(const ActivationShape& x, int64_t c, float scale, float shift,
                              const float* in, float* out) {
  const V16 a = set16(scale), b = set16(shift);
  for (int64_t block = 0; block < x.blocks(); ++block) {
    const int64_t begin = (block * x.features() + c * x.pixels()) * kLanes;
    for (int64_t i = begin; i < begin + x.pixels() * kLanes; i += kLanes) {
      const V16 y = fma16(load16(in + i), a, b);
      store16(out + i, kRelu ? relu16(y) : y);
    }
  }
}

template <bool kRelu>
HWY_INLINE void normalise(const BatchNormShape& shape, Range channels, const float* x,
                          const float* gamma, const float* beta, float* y, float* mean, float* var,
                          float* inv_std) {
  const float m = static_cast<float>(shape.x.images * shape.x.pixels());
  const MomentTerm term{x};
  const int64_t group = shape.x.pixels() == 1 ? kLanes : 1;
  for (int64_t begin = channels.begin; begin < channels.end; begin += group) {
    const int64_t count = std::min(group, channels.end - begin);
    HWY_ALIGN float s[2][kLanes];
    totals_of(term, shape.x, begin, count, s);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = begin + i;
      mean[c] = s[0][i] / m;
      const float raw = std::fma(-mean[c], mean[c], s[1][i] / m);
      var[c] = raw < 0 ? 0.0f : raw;
      inv_std[c] = 1.0f / std::sqrt(var[c] + shape.epsilon);
      const float scale = gamma[c] * inv_std[c];
      apply_channel<kRelu>(shape.x, c, scale, std::fma(-mean[c], scale, beta[c]), x, y);
    }
  }
}

// The sums of a group of channels of one pixel each, whose means differ.
template <bool kRelu>
HWY_INLINE void flat_gradient_totals(const ActivationShape& x, int64_t c, int64_t count,
                                     const float* dy, const float* in, const float* mean,
                                     const float* scale, const float* shift,
                                     float (*totals)[kLanes]) {
  HWY_ALIGN float lanes[2][kLanes * kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    const GradientTerm<kRelu> term{dy, in, set16(mean[c + i]), set16(scale[i]), set16(shift[i])};
    Sums<2> sums = zero_sums<2>();
    for (int64_t b = 0; b < x.blocks(); ++b) {
      const int64_t offset = (b * x.channels + c + i) * kLanes;
      add_images(sums, pixel_sums(term, offset, 1, 1), x.images - b * kLanes);
    }
    store16(lanes[0] + i * kLanes, sums.v[0]);
    store16(lanes[1] + i * kLanes, sums.v[1]);
  }
  store16(totals[0], tree_sums16(lanes[0]));
  store16(totals[1], tree_sums16(lanes[1]));
}

// dx = to_dy * dy + (to_x * x + constant) of channel c.
template <bool kRelu>
HWY_INLINE void gradient_of_channel(const ActivationShape& shape, int64_t c,
                                    const GradientTerm<kRelu>& term, float to_dy, float to_x,
                                    float constant, float* dx) {
  const V16 a = set16(to_dy), b = set16(to_x), k = set16(constant);
  for (int64_t block = 0; block < shape.blocks(); ++block) {
    const int64_t begin = (block * shape.features() + c * shape.pixels()) * kLanes;
    for (int64_t i = begin; i < begin + shape.pixels() * kLanes; i += kLanes) {
      const V16 x = load16(term.x + i);
      const V16 dy = term.masked(load16(term.dy + i), x);
      store16(dx + i, fma16(a, dy, fma16(b, x, k)));
    }
  }
}

template <bool kRelu>
HWY_INLINE void gradient(const BatchNormShape& shape, Range channels, const float* dy,
                         const float* x, const float* gamma, const float* beta, const float* mean,
                         const float* inv_std, float* dx, float* dgamma, float* dbeta) {
  const float m = static_cast<float>(shape.x.images * shape.x.pixels());
  const int64_t group = shape.x.pixels() == 1 ? kLanes : 1;
  for (int64_t begin = channels.begin; begin < channels.end; begin += group) {
    const int64_t count = std::min(group, channels.end - begin);
    float scale[kLanes], shift[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = begin + i;
      scale[i] = gamma[c] * inv_std[c];
      if (kRelu) shift[i] = std::fma(-mean[c], scale[i], beta[c]);
    }
    HWY_ALIGN float sums[2][kLanes];
    if (group == 1) {
      const GradientTerm<kRelu> term{dy, x, set16(mean[begin]), set16(scale[0]), set16(shift[0])};
      totals_of(term, shape.x, begin, 1, sums);
    } else {
      flat_gradient_totals<kRelu>(shape.x, begin, count, dy, x, mean, scale, shift, sums);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = begin + i;
      dbeta[c] = sums[0][i];
      dgamma[c] = sums[1][i] * inv_std[c];
      const float to_x = -(scale[i] * inv_std[c]) * (dgamma[c] / m);
      const float constant = std::fma(-to_x, mean[c], -(scale[i] * (dbeta[c] / m)));
      const GradientTerm<kRelu> term{dy, x, set16(mean[c]), set16(scale[i]), set16(shift[i])};
      gradient_of_channel<kRelu>(shape.x, c, term, scale[i], to_x, constant, dx);
    }
  }
}

void normalise_channels(const BatchNormShape& shape, Range channels, const float* x,
                        const float* gamma, const float* beta, float* y, float* mean, float* var,
                        float* inv_std) {
  if (shape.relu) {
    normalise<true>(shape, channels, x, gamma, beta, y, mean, var, inv_std);
  } else {
    normalise<false>(shape, channels, x, gamma, beta, y, mean, var, inv_std);
  }
}

void gradient_of_channels(const BatchNormShape& shape, Range channels, const float* dy,
                          const float* x, const float* gamma, const float* beta, const float* mean,
                          const float* inv_std, float* dx, float* dgamma, float* dbeta) {
  if (shape.relu) {
    gradient<true>(shape, channels, dy, x, gamma, beta, mean, inv_std, dx, dgamma, dbeta);
  } else {
    gradient<false>(shape, channels, dy, x, gamma, beta, mean, inv_std, dx, dgamma, dbeta);
  }
}

void infer_channels(const BatchNormShape& shape, Range channels, const float* x, const float* gamma,
                    const float* beta, const float* mean, const float* var, float* y) {
  for (int64_t c = channels.begin; c < channels.end; ++c) {
    const float inv_std = 1.0f / std::sqrt(var[c] + shape.epsilon);
    const float scale = gamma[c] * inv_std;
    const float shift = std::fma(-mean[c], scale, beta[c]);
    if (shape.relu) {
      apply_channel<true>(shape.x, c, scale, shift, x, y);
    } else {
      apply_channel<false>(shape.x, c, scale, shift, x, y);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(normalise_channels);
HWY_EXPORT(gradient_of_channels);
HWY_EXPORT(infer_channels);

int batch_norm_parts(const BatchNormShape& shape) { return channel_parts(shape.x); }
void batch_norm(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                float* y, float* mean, float* var, float* inv_std, int part) {
  PODIUM_DISPATCH(normalise_channels)
  (shape, part_channels(shape.x, part), x, gamma, beta, y, mean, var, inv_std);
}

int batch_norm_grad_parts(const BatchNormShape& shape) { return channel_parts(shape.x); }
void batch_norm_grad(const BatchNormShape& shape, const float* dy, const float* x,
                     const float* gamma, const float* beta, const float* mean, const float* inv_std,
                     float* dx, float* dgamma, float* dbeta, int part) {
  PODIUM_DISPATCH(gradient_of_channels)
  (shape, part_channels(shape.x, part), dy, x, gamma, beta, mean, inv_std, dx, dgamma, dbeta);
}

int batch_norm_inference_parts(const BatchNormShape& shape) { return channel_parts(shape.x); }
void batch_norm_inference(const BatchNormShape& shape, const float* x, const float* gamma,
                          const float* beta, const float* running_mean, const float* running_var,
                          float* y, int part) {
  PODIUM_DISPATCH(infer_channels)
  (shape, part_channels(shape.x, part), x, gamma, beta, running_mean, running_var, y);
}

void batch_norm_running(std::int64_t channels, std::int64_t count, float momentum,
                        const float* mean, const float* var, const float* old_mean,
                        const float* old_var, float* new_mean, float* new_var) {
  const float fresh = 1.0f - momentum;
  const float m = static_cast<float>(count);
  const float unbiased = m / (m - 1.0f);
  for (std::int64_t c = 0; c < channels; ++c) {
    new_mean[c] = std::fma(momentum, old_mean[c], fresh * mean[c]);
    new_var[c] = std::fma(momentum, old_var[c], fresh * (var[c] * unbiased));
  }
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
