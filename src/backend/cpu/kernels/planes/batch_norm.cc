#include "backend/cpu/kernels/planes/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/planes/channel_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/planes/batch_norm.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/functions-inl.h"
#include "backend/cpu/kernels/max-inl.h"
#include "backend/cpu/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// x and x^2.
struct MomentTerm {
  static constexpr int kSums = 2;
  using At = V16;
  const float* x;
  HWY_INLINE V16 at(int64_t offset) const { return read16(x + offset); }
  template <int kSum>
  HWY_INLINE V16 step(const V16& value, const V16& acc) const {
    if constexpr (kSum == 0) {
      return add16(acc, value);
    } else {
      return fma16(value, value, acc);
    }
  }
};

// dy and dy * (x - mean), dy led back through the activation. A term serves channels of one mean:
// `totals_of` is called channel by channel, or `flat_gradient_totals`. Where the derivative is
// costly, what comes of dy is kept in dx for the second pass.
template <ActivationKind kKind>
struct GradientTerm {
  static constexpr int kSums = 2;
  struct At {
    V16 dy, centered;
  };
  const float* dy;
  const float* x;
  float* dx;
  Activator<kKind> activator;
  V16 mean, scale, shift;
  HWY_INLINE V16 led_back(const V16& d, const V16& value) const {
    return activator.gradient(d, fma16(value, scale, shift));
  }
  HWY_INLINE At at(int64_t offset) const {
    const V16 value = read16(x + offset);
    const V16 d = led_back(read16(dy + offset), value);
    if constexpr (is_costly(kKind)) store16(dx + offset, d);
    return {d, sub16(value, mean)};
  }
  HWY_INLINE V16 again(int64_t offset, const V16& value) const {
    return is_costly(kKind) ? read16(dx + offset) : led_back(read16(dy + offset), value);
  }
  template <int kSum>
  HWY_INLINE V16 step(const At& at, const V16& acc) const {
    if constexpr (kSum == 0) {
      return add16(acc, at.dy);
    } else {
      return fma16(at.dy, at.centered, acc);
    }
  }
};

// The largest of a window's four values, row by row; the first of equals, NaN before all.
HWY_INLINE V16 largest_of(const V16 (&values)[4]) {
  V16 held = values[0];
  for (int k = 1; k < 4; ++k) {
    for (int i = 0; i < kRegisters; ++i) {
      const Native next = values[k].r[i];
      held.r[i] = hn::IfThenElse(replaces(next, held.r[i]), next, held.r[i]);
    }
  }
  return held;
}

// Calls f(out, in) for each window of 2x2 of channel c.
template <typename F>
HWY_INLINE void for_each_window(const ActivationShape& x, int64_t c, const F& f) {
  for (int64_t plane = c; plane < x.blocks() * x.channels; plane += x.channels)
    for_each_window(PoolShape{x, 2, 2}, {plane, plane + 1}, f);
}

// apply_channel, then the largest of each window.
template <ActivationKind kKind>
HWY_INLINE void apply_pooled_channel(const BatchNormShape& shape, const Activator<kKind>& activator,
                                     int64_t c, float scale, float shift, const float* in,
                                     float* out) {
  const ActivationShape& x = shape.x;
  const V16 a = set16(scale), b = set16(shift);
  const Writing how{streams(out, x.floats() / 4), shape.rounded};
  const int64_t row = x.width * kLanes;
  for_each_window(x, c, [&](int64_t to, int64_t from) HWY_ATTR {
    V16 values[4];
    HWY_UNROLL(4)
    for (int k = 0; k < 4; ++k)
      values[k] = activator.value(fma16(read16(in + from + k / 2 * row + k % 2 * kLanes), a, b));
    put16(out + to, largest_of(values), how);
  });
  end_streams(how.streamed);
}

// y = x * scale + shift of channel c, activated, plus the addend if there is one; or with that,
// and then activated.
template <ActivationKind kKind>
HWY_INLINE void apply_whole_channel(const BatchNormShape& shape, const Activator<kKind>& activator,
                                    int64_t c, float scale, float shift, const float* in,
                                    const float* addend, float* out) {
  const ActivationShape& x = shape.x;
  const V16 a = set16(scale), b = set16(shift);
  const Writing how{!is_costly(kKind) && streams(out, x.floats()), shape.rounded};
  for (int64_t block = 0; block < x.blocks(); ++block) {
    const int64_t begin = (block * x.features() + c * x.pixels()) * kLanes;
    const int64_t end = begin + x.pixels() * kLanes;
    if (addend == nullptr) {
      for (int64_t i = begin; i < end; i += kLanes)
        put16(out + i, activator.value(fma16(read16(in + i), a, b)), how);
    } else if (shape.activates_sum) {
      for (int64_t i = begin; i < end; i += kLanes)
        put16(out + i, activator.value(add16(fma16(read16(in + i), a, b), read16(addend + i))),
              how);
    } else {
      for (int64_t i = begin; i < end; i += kLanes)
        put16(out + i, add16(activator.value(fma16(read16(in + i), a, b)), read16(addend + i)),
              how);
    }
  }
  end_streams(how.streamed);
}

// The result of some channels, whose scales and shifts begin at the arrays.
template <ActivationKind kKind>
HWY_INLINE void apply(const BatchNormShape& shape, const Activator<kKind>& activator,
                      Range channels, const float* scale, const float* shift, const float* in,
                      const float* addend, float* out) {
  for (int64_t c = channels.begin; c < channels.end; ++c, ++scale, ++shift) {
    if (shape.defers)
      out[c] = *scale, out[shape.x.channels + c] = *shift;
    else if (shape.pools)
      apply_pooled_channel(shape, activator, c, *scale, *shift, in, out);
    else
      apply_whole_channel(shape, activator, c, *scale, *shift, in, addend, out);
  }
}

// Channels go in groups of sixteen where they have one pixel each, else one by one.
HWY_INLINE int64_t group_of(const ActivationShape& x) { return x.pixels() == 1 ? kLanes : 1; }

// scale = gamma * inv_std and shift = beta - mean * scale of up to sixteen channels, to arrays.
HWY_INLINE void store_affine(const float* gamma, const float* beta, const V16& mean,
                             const V16& inv_std, int64_t count, float* scale, float* shift) {
  const V16 factor = mul16(load_first16(gamma, count), inv_std);
  store16(scale, factor);
  store16(shift, fnma16(mean, factor, load_first16(beta, count)));
}

HWY_INLINE V16 inv_std_of(const V16& var, float epsilon) {
  return div16(set16(1.0f), sqrt16(add16(var, set16(epsilon))));
}

template <ActivationKind kKind>
HWY_INLINE void normalise(const BatchNormShape& shape, const Activator<kKind>& activator,
                          Range channels, const float* x, const float* gamma, const float* beta,
                          const float* addend, float* y, float* mean, float* var, float* inv_std) {
  const V16 m = set16(static_cast<float>(shape.x.images * shape.x.pixels()));
  const MomentTerm term{x};
  for (int64_t c = channels.begin; c < channels.end; c += group_of(shape.x)) {
    const int64_t count = std::min(group_of(shape.x), channels.end - c);
    HWY_ALIGN float sums[2][kLanes] = {}, scale[kLanes], shift[kLanes];
    totals_of(term, shape.x, c, count, sums);
    const V16 average = div16(load16(sums[0]), m);
    const V16 variance = not_below_zero16(fnma16(average, average, div16(load16(sums[1]), m)));
    const V16 inverse = inv_std_of(variance, shape.epsilon);
    store_first16(mean + c, average, count);
    store_first16(var + c, variance, count);
    store_first16(inv_std + c, inverse, count);
    store_affine(gamma + c, beta + c, average, inverse, count, scale, shift);
    apply(shape, activator, {c, c + count}, scale, shift, x, addend, y);
  }
}

// As GradientTerm, of a unit that pools: dy is one value a window, which goes to the largest.
template <ActivationKind kKind>
struct PooledGradientTerm {
  struct At {
    V16 dy, x;
  };
  const float* dy;
  const float* x;
  int64_t row;  // floats
  Activator<kKind> activator;
  V16 mean, scale, shift;

  // The window's four pixels, row by row.
  HWY_INLINE void at(int64_t out, int64_t in, At (&pixels)[4]) const {
    const V16 gradient = read16(dy + out);
    HWY_UNROLL(4)
    for (int k = 0; k < 4; ++k) pixels[k].x = read16(x + in + k / 2 * row + k % 2 * kLanes);
    for (int i = 0; i < kRegisters; ++i) {
      Native before[4], value[4];
      HWY_UNROLL(4)
      for (int k = 0; k < 4; ++k) {
        before[k] = hn::MulAdd(pixels[k].x.r[i], scale.r[i], shift.r[i]);
        value[k] = activator.value(before[k]);
      }
      const auto second = replaces(value[1], value[0]);
      Native held = hn::IfThenElse(second, value[1], value[0]);
      const auto third = replaces(value[2], held);
      held = hn::IfThenElse(third, value[2], held);
      const auto fourth = replaces(value[3], held);
      // The last that takes a place keeps it.
      Native d = gradient.r[i];
      pixels[3].dy.r[i] = activator.gradient(hn::IfThenElseZero(fourth, d), before[3]);
      d = hn::IfThenZeroElse(fourth, d);
      pixels[2].dy.r[i] = activator.gradient(hn::IfThenElseZero(third, d), before[2]);
      d = hn::IfThenZeroElse(third, d);
      pixels[1].dy.r[i] = activator.gradient(hn::IfThenElseZero(second, d), before[1]);
      d = hn::IfThenZeroElse(second, d);
      pixels[0].dy.r[i] = activator.gradient(d, before[0]);
    }
  }
  HWY_INLINE void link(const At& at, Sums<2>& acc) const {
    acc.v[0] = add16(acc.v[0], at.dy);
    acc.v[1] = fma16(at.dy, sub16(at.x, mean), acc.v[1]);
  }
};

// pixel_sums (sums-inl.h) of a plane of windows of 2x2: `out` and `in` are where dy and x begin.
// A chain takes every fourth column, so that two windows side by side feed all four.
template <class Term>
HWY_INLINE Sums<2> window_sums_of_band(const Term& term, int64_t out, int64_t in, int64_t height,
                                       int64_t width) {
  Sums<2> c[4];
  for (Sums<2>& chain : c) chain = zero_sums<2>();
  const auto pair = [&](int64_t h, int64_t w, int first) HWY_ATTR {
    typename Term::At pixels[4];
    term.at(out + (h / 2 * (width / 2) + w / 2) * kLanes, in + (h * width + w) * kLanes, pixels);
    HWY_UNROLL(4)
    for (int k = 0; k < 4; ++k) term.link(pixels[k], c[first + k % 2]);
  };
  for (int64_t top = 0; top < height; top += 4) {
    const int64_t bottom = std::min(top + 4, height);
    for (int64_t left = 0; left < width; left += 4) {
      for (int64_t h = top; h < bottom; h += 2) {
        pair(h, left, 0);
        if (left + 2 < width) pair(h, left + 2, 2);
      }
    }
  }
  return join_chains(c[0], c[1], c[2], c[3]);
}
template <class Term>
HWY_INLINE Sums<2> window_sums(const Term& term, int64_t out, int64_t in, int64_t height,
                               int64_t width) {
  return band_sums<2>(height, [&](int64_t row, int64_t rows) HWY_ATTR {
    return window_sums_of_band(term, out + row / 2 * (width / 2) * kLanes,
                               in + row * width * kLanes, rows, width);
  });
}

template <class Term>
HWY_INLINE void pooled_gradient_of_channel(const BatchNormShape& shape, int64_t c, const Term& term,
                                           float to_dy, float to_x, float constant,
                                           const float* addend, float* dx) {
  const V16 a = set16(to_dy), b = set16(to_x), k0 = set16(constant);
  const Writing how{streams(dx, shape.x.floats()), shape.rounded};
  for_each_window(shape.x, c, [&](int64_t out, int64_t in) HWY_ATTR {
    typename Term::At pixels[4];
    term.at(out, in, pixels);
    HWY_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      const int64_t i = in + k / 2 * term.row + k % 2 * kLanes;
      V16 value = fma16(a, pixels[k].dy, fma16(b, pixels[k].x, k0));
      if (addend != nullptr) value = add16(value, read16(addend + i));
      put16(dx + i, value, how);
    }
  });
  end_streams(how.streamed);
}

// The sums of a group of channels of one pixel each, whose means differ.
template <ActivationKind kKind>
HWY_INLINE void flat_gradient_totals(const ActivationShape& x, const Activator<kKind>& activator,
                                     int64_t c, int64_t count, const float* dy, const float* in,
                                     const float* mean, const float* scale, const float* shift,
                                     float* dx, float (*totals)[kLanes]) {
  HWY_ALIGN float lanes[2][kLanes * kLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    const GradientTerm<kKind> term{
        dy, in, dx, activator, set16(mean[c + i]), set16(scale[i]), set16(shift[i])};
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

// dx = to_dy * dy + (to_x * x + constant) of channel c, plus the addend if there is one.
template <ActivationKind kKind>
HWY_INLINE void gradient_of_channel(const BatchNormShape& shape, int64_t c,
                                    const GradientTerm<kKind>& term, float to_dy, float to_x,
                                    float constant, const float* addend) {
  const ActivationShape& dx = shape.x;
  const V16 a = set16(to_dy), b = set16(to_x), k = set16(constant);
  const auto at = [&](int64_t i) HWY_ATTR {
    const V16 x = read16(term.x + i);
    return fma16(a, term.again(i, x), fma16(b, x, k));
  };
  // What the first pass kept in dx is in the caches.
  const Writing how{!is_costly(kKind) && streams(term.dx, dx.floats()), shape.rounded};
  for (int64_t block = 0; block < dx.blocks(); ++block) {
    const int64_t begin = (block * dx.features() + c * dx.pixels()) * kLanes;
    const int64_t end = begin + dx.pixels() * kLanes;
    if (addend == nullptr) {
      for (int64_t i = begin; i < end; i += kLanes) put16(term.dx + i, at(i), how);
    } else {
      for (int64_t i = begin; i < end; i += kLanes)
        put16(term.dx + i, add16(at(i), read16(addend + i)), how);
    }
  }
  end_streams(how.streamed);
}

template <ActivationKind kKind>
HWY_INLINE void gradient(const BatchNormShape& shape, const Activator<kKind>& activator,
                         Range channels, const float* dy, const float* x, const float* gamma,
                         const float* beta, const float* mean, const float* inv_std,
                         const float* addend, float* dx, float* dgamma, float* dbeta) {
  const V16 m = set16(static_cast<float>(shape.x.images * shape.x.pixels()));
  const bool flat = shape.x.pixels() == 1;
  for (int64_t c = channels.begin; c < channels.end; c += group_of(shape.x)) {
    const int64_t count = std::min(group_of(shape.x), channels.end - c);
    const V16 average = load_first16(mean + c, count), inverse = load_first16(inv_std + c, count);
    HWY_ALIGN float scale[kLanes], shift[kLanes], to_x[kLanes], constant[kLanes];
    store_affine(gamma + c, beta + c, average, inverse, count, scale, shift);
    HWY_ALIGN float sums[2][kLanes] = {};
    const PooledGradientTerm<kKind> pooled{
        dy, x, shape.x.width * kLanes, activator, set16(mean[c]), set16(scale[0]), set16(shift[0])};
    if (shape.pools) {
      float totals[2];
      const auto plane_sums = [&](int64_t plane) HWY_ATTR {
        return window_sums(pooled, plane / 4, plane, shape.x.height, shape.x.width);
      };
      image_totals<2>(plane_sums, shape.x, c, totals);
      sums[0][0] = totals[0], sums[1][0] = totals[1];
    } else if (flat) {
      flat_gradient_totals(shape.x, activator, c, count, dy, x, mean, scale, shift, dx, sums);
    } else {
      const GradientTerm<kKind> term{
          dy, x, dx, activator, set16(mean[c]), set16(scale[0]), set16(shift[0])};
      totals_of(term, shape.x, c, 1, sums);
    }
    const V16 a = load16(scale), sum_dy = load16(sums[0]);
    const V16 sum_dyx = mul16(load16(sums[1]), inverse);
    store_first16(dbeta + c, sum_dy, count);
    store_first16(dgamma + c, sum_dyx, count);
    const V16 b = mul16(neg16(mul16(a, inverse)), div16(sum_dyx, m));
    store16(to_x, b);
    store16(constant, fma16(neg16(b), average, neg16(mul16(a, div16(sum_dy, m)))));
    if (shape.pools) {
      pooled_gradient_of_channel(shape, c, pooled, scale[0], to_x[0], constant[0], addend, dx);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const GradientTerm<kKind> term{
          dy, x, dx, activator, set16(mean[c + i]), set16(scale[i]), set16(shift[i])};
      gradient_of_channel(shape, c + i, term, scale[i], to_x[i], constant[i], addend);
    }
  }
}

void normalise_channels(const BatchNormShape& shape, Range channels, const float* x,
                        const float* gamma, const float* beta, const float* addend, float* y,
                        float* mean, float* var, float* inv_std) {
  with_activator(shape.activation, [&](const auto& activator) HWY_ATTR {
    normalise(shape, activator, channels, x, gamma, beta, addend, y, mean, var, inv_std);
  });
}

void gradient_of_channels(const BatchNormShape& shape, Range channels, const float* dy,
                          const float* x, const float* gamma, const float* beta, const float* mean,
                          const float* inv_std, const float* addend, float* dx, float* dgamma,
                          float* dbeta) {
  with_activator(shape.activation, [&](const auto& activator) HWY_ATTR {
    gradient(shape, activator, channels, dy, x, gamma, beta, mean, inv_std, addend, dx, dgamma,
             dbeta);
  });
}

void infer_channels(const BatchNormShape& shape, Range channels, const float* x, const float* gamma,
                    const float* beta, const float* mean, const float* var, const float* addend,
                    float* y) {
  for (int64_t c = channels.begin; c < channels.end; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, channels.end - c);
    HWY_ALIGN float scale[kLanes], shift[kLanes];
    store_affine(gamma + c, beta + c, load_first16(mean + c, count),
                 inv_std_of(load_first16(var + c, count), shape.epsilon), count, scale, shift);
    with_activator(shape.activation, [&](const auto& activator) HWY_ATTR {
      apply(shape, activator, {c, c + count}, scale, shift, x, addend, y);
    });
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
                const float* addend, float* y, float* mean, float* var, float* inv_std, int part) {
  PODIUM_DISPATCH(normalise_channels)
  (shape, part_channels(shape.x, part), x, gamma, beta, addend, y, mean, var, inv_std);
}

int batch_norm_grad_parts(const BatchNormShape& shape) { return channel_parts(shape.x); }
void batch_norm_grad(const BatchNormShape& shape, const float* dy, const float* x,
                     const float* gamma, const float* beta, const float* mean, const float* inv_std,
                     const float* addend, float* dx, float* dgamma, float* dbeta, int part) {
  PODIUM_DISPATCH(gradient_of_channels)
  (shape, part_channels(shape.x, part), dy, x, gamma, beta, mean, inv_std, addend, dx, dgamma,
   dbeta);
}

int batch_norm_inference_parts(const BatchNormShape& shape) { return channel_parts(shape.x); }
void batch_norm_inference(const BatchNormShape& shape, const float* x, const float* gamma,
                          const float* beta, const float* running_mean, const float* running_var,
                          const float* addend, float* y, int part) {
  PODIUM_DISPATCH(infer_channels)
  (shape, part_channels(shape.x, part), x, gamma, beta, running_mean, running_var, addend, y);
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
