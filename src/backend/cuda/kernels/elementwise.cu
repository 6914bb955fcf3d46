#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/flat.h"
#include "base/numerics/philox.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// y[i] = f(x[i])
template <typename F>
void each(const Launch& launch, std::int64_t count, Source x, const Result& y, F f) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned replica) {
    store(y, replica, i, f(load(x, replica, i)));
  });
}
// y[i] = f(a[i], b[i])
template <typename F>
void each(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y, F f) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned replica) {
    store(y, replica, i, f(load(a, replica, i), load(b, replica, i)));
  });
}

__device__ inline float decayed(float weight_decay, float parameter, float gradient) {
  return weight_decay == 0 ? gradient : std::fma(weight_decay, parameter, gradient);
}

}  // namespace

void add(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y) {
  each(launch, count, a, b, y, [] __device__(float u, float v) { return u + v; });
}
void sub(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y) {
  each(launch, count, a, b, y, [] __device__(float u, float v) { return u - v; });
}
void mul(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y) {
  each(launch, count, a, b, y, [] __device__(float u, float v) { return u * v; });
}
void scale(const Launch& launch, std::int64_t count, float factor, Source x, const Result& y) {
  each(launch, count, x, y, [=] __device__(float u) { return u * factor; });
}
void divide(const Launch& launch, std::int64_t count, float divisor, Source x, const Result& y) {
  each(launch, count, x, y, [=] __device__(float u) { return u / divisor; });
}
void multiply_by(const Launch& launch, std::int64_t count, Source x, ConstFloats factor,
                 const Result& y) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned replica) {
    store(y, replica, i, load(x, replica, i) * *factor.of(replica));
  });
}
void combine(const Launch& launch, std::int64_t count, const CombineAttributes& attributes,
             Source u, Source v, const Result& y) {
  const float a = attributes.a, b = attributes.b;
  each(launch, count, u, v, y, [=] __device__(float s, float t) { return std::fma(a, s, b * t); });
}
void activate(const Launch& launch, std::int64_t count, const Activation& activation, Source x,
              const Result& y) {
  each(launch, count, x, y, [=] __device__(float u) { return activate_f32(activation, u); });
}
void activate_grad(const Launch& launch, std::int64_t count, const Activation& activation,
                   Source dy, Source x, const Result& dx) {
  each(launch, count, dy, x, dx,
       [=] __device__(float d, float u) { return activate_grad_f32(activation, d, u); });
}
void activate_sum_grad(const Launch& launch, std::int64_t count, const Activation& activation,
                       Source dy, Source more, Source x, const Result& dx) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    store(dx, r, i,
          activate_grad_f32(activation, load(dy, r, i) + load(more, r, i), load(x, r, i)));
  });
}
void round_bf16(const Launch& launch, std::int64_t count, Source x, const Result& y) {
  each(launch, count, x, y, [] __device__(float u) { return bf16_rounded(u); });
}
void bias_add(const Launch& launch, std::int64_t channels, std::int64_t inner, Source x,
              ConstFloats bias, const Result& y) {
  launch_flat(launch, channels * inner, [=] __device__(std::int64_t i, unsigned replica) {
    store(y, replica, i, load(x, replica, i) + bias.of(replica)[i / inner]);
  });
}

void descend(const Launch& launch, std::int64_t count, ConstFloats p, ConstFloats direction,
             ConstFloats rate, Floats y) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned replica) {
    y.of(replica)[i] = std::fma(-*rate.of(replica), direction.of(replica)[i], p.of(replica)[i]);
  });
}

void sgd_update(const Launch& launch, std::span<const SgdPart> parts) {
  launch_parts(launch, parts, [] __device__(const SgdPart& part, std::int64_t i, unsigned r) {
    const SgdAttributes& a = part.attributes;
    const SgdOperands& o = part.operands;
    const float p = o.p.of(r)[i];
    const float g = decayed(a.weight_decay, p, o.g.of(r)[i]);
    const float v = std::fma(a.momentum, o.v.of(r)[i], g);
    const float direction = a.nesterov ? std::fma(a.momentum, v, g) : v;
    o.new_p.of(r)[i] = std::fma(-*o.rate.of(r), direction, p);
    o.new_v.of(r)[i] = v;
  });
}

void adam_update(const Launch& launch, std::int64_t count, const AdamAttributes& attributes,
                 const AdamOperands& o) {
  const AdamAttributes a = attributes;
  const float fresh1 = 1.0f - a.beta1, fresh2 = 1.0f - a.beta2;
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    const float old = o.p.of(r)[i];
    const float shrink = a.decoupled ? *o.learning_rate.of(r) * a.weight_decay : 0.0f;
    const float g = a.decoupled ? o.g.of(r)[i] : decayed(a.weight_decay, old, o.g.of(r)[i]);
    const float p = shrink == 0 ? old : std::fma(-shrink, old, old);
    const float m = std::fma(a.beta1, o.m.of(r)[i], fresh1 * g);
    const float v = std::fma(a.beta2, o.v.of(r)[i], (fresh2 * g) * g);
    o.new_p.of(r)[i] = std::fma(-*o.step_size.of(r),
                                m / std::fma(std::sqrt(v), *o.correction.of(r), a.epsilon), p);
    o.new_m.of(r)[i] = m;
    o.new_v.of(r)[i] = v;
  });
}

void dropout_mask(const Launch& launch, const DropoutMaskAttributes& attributes,
                  Each<const std::uint32_t> step, Each<const std::uint32_t> replica, Floats mask) {
  const std::int64_t images = attributes.shape[0], features = attributes.shape.elements_from(1);
  const auto threshold =
      static_cast<std::uint32_t>(static_cast<double>(attributes.rate) * 4294967296.0);
  const float kept = 1.0f / (1.0f - attributes.rate);
  const PhiloxStream stream(attributes.seed, RandomPurpose::kDropout, attributes.layer);
  // A thread has four features of an image, which are one block of random words.
  const std::int64_t blocks = (features + 3) / 4;
  launch_flat(launch, blocks * images, [=] __device__(std::int64_t i, unsigned r) {
    const std::int64_t block = i / images, n = i % images;
    const auto example = static_cast<std::uint32_t>(*replica.of(r) * images + n);
    const PhiloxBlock words = stream.block(static_cast<std::uint32_t>(block), example, *step.of(r));
    for (std::int64_t k = 0; k < 4 && block * 4 + k < features; ++k)
      mask.of(r)[(block * 4 + k) * images + n] =
          words[static_cast<std::size_t>(k)] >= threshold ? kept : 0.0f;
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
