#include "backend/cpu/kernels/elementwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/elementwise.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// y = f(operands...) over [0, count).
template <class F, class... Operands>
HWY_INLINE void map(int64_t count, float* y, const Writing& how, const F& f,
                    const Operands*... operands) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    // What is read was mostly made just before, what is written was last used long ago.
    if (!how.streamed) fetch_to_l2(y + i + kPassAhead);
    put16(y + i, f(load16(operands + i)...), how);
  }
  end_streams(how.streamed);
  if (i < count) {
    const int64_t rest = count - i;
    HWY_ALIGN float last[kLanes];
    put16(last, f(load_first16(operands + i, rest)...),
          {.streamed = false, .rounded = how.rounded});
    store_first16(y + i, load16(last), rest);
  }
}

#define PODIUM_FUNCTOR(Name, name, expression)                                       \
  struct Name {                                                                      \
    V16 constant;                                                                    \
    HWY_INLINE V16 operator()(const V16& a, const V16& b) const {                    \
      static_cast<void>(b);                                                          \
      return expression;                                                             \
    }                                                                                \
  };                                                                                 \
  void flat_##name(int64_t count, const float* a, const float* b, float c, float* y, \
                   const Writing& how) {                                             \
    map(count, y, how, Name{set16(c)}, a, b);                                        \
  }

PODIUM_FUNCTOR(Add, add, add16(a, b))
PODIUM_FUNCTOR(Sub, sub, sub16(a, b))
PODIUM_FUNCTOR(Mul, mul, mul16(a, b))
PODIUM_FUNCTOR(Scale, scale, mul16(a, constant))
PODIUM_FUNCTOR(Divide, divide, div16(a, constant))

#undef PODIUM_FUNCTOR

void flat_combine(int64_t count, float a, const float* x, float b, const float* y, float* out,
                  const Writing& how) {
  const V16 by_x = set16(a), by_y = set16(b);
  map(
      count, out, how,
      [&](const V16& vx, const V16& vy) HWY_ATTR { return fma16(by_x, vx, mul16(by_y, vy)); }, x,
      y);
}
void flat_activate(int64_t count, const Activation& a, const float* x, float* y,
                   const Writing& how) {
  with_activator(a, [&](const auto& activator) HWY_ATTR {
    map(
        count, y, how, [&](const V16& v) HWY_ATTR { return activator.value(v); }, x);
  });
}
void flat_activate_grad(int64_t count, const Activation& a, const float* dy, const float* x,
                        float* dx, const Writing& how) {
  with_activator(a, [&](const auto& activator) HWY_ATTR {
    map(
        count, dx, how,
        [&](const V16& d, const V16& v) HWY_ATTR { return activator.gradient(d, v); }, dy, x);
  });
}
void flat_activate_sum_grad(int64_t count, const Activation& a, const float* dy, const float* more,
                            const float* x, float* dx, const Writing& how) {
  with_activator(a, [&](const auto& activator) HWY_ATTR {
    map(
        count, dx, how,
        [&](const V16& d, const V16& e, const V16& v)
            HWY_ATTR { return activator.gradient(add16(d, e), v); },
        dy, more, x);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(flat_activate);
HWY_EXPORT(flat_activate_grad);
HWY_EXPORT(flat_activate_sum_grad);
HWY_EXPORT(flat_combine);
HWY_EXPORT(flat_add);
HWY_EXPORT(flat_sub);
HWY_EXPORT(flat_mul);
HWY_EXPORT(flat_scale);
HWY_EXPORT(flat_divide);

namespace {

Writing writing(const FlatResult& y, std::int64_t count) {
  return {streams(y.floats, count), y.rounded};
}

// Calls a kernel of one part's range.
template <typename Kernel>
void run(Kernel kernel, std::int64_t count, const float* a, const float* b, float constant,
         const FlatResult& y, int part) {
  const std::int64_t begin = part * kFlatPart;
  kernel(std::min(kFlatPart, count - begin), a + begin, b + begin, constant, y.floats + begin,
         writing(y, count));
}

}  // namespace

void activate(std::int64_t count, const Activation& activation, const float* x, FlatResult y,
              int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(flat_activate)
  (std::min(kFlatPart, count - begin), activation, x + begin, y.floats + begin, writing(y, count));
}
void activate_grad(std::int64_t count, const Activation& activation, const float* dy,
                   const float* x, FlatResult dx, int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(flat_activate_grad)
  (std::min(kFlatPart, count - begin), activation, dy + begin, x + begin, dx.floats + begin,
   writing(dx, count));
}
void activate_sum_grad(std::int64_t count, const Activation& activation, const float* dy,
                       const float* more, const float* x, FlatResult dx, int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(flat_activate_sum_grad)
  (std::min(kFlatPart, count - begin), activation, dy + begin, more + begin, x + begin,
   dx.floats + begin, writing(dx, count));
}
void combine(std::int64_t count, float a, const float* x, float b, const float* y, FlatResult out,
             bool shared, int part) {
  const std::int64_t begin = part * kFlatPart;
  const bool streamed = streams(out.floats, count) || (shared && whole_lines(out.floats));
  PODIUM_DISPATCH(flat_combine)
  (std::min(kFlatPart, count - begin), a, x + begin, b, y + begin, out.floats + begin,
   Writing{streamed, out.rounded});
}
void add(std::int64_t count, const float* a, const float* b, FlatResult y, int part) {
  run(PODIUM_DISPATCH(flat_add), count, a, b, 0, y, part);
}
void sub(std::int64_t count, const float* a, const float* b, FlatResult y, int part) {
  run(PODIUM_DISPATCH(flat_sub), count, a, b, 0, y, part);
}
void mul(std::int64_t count, const float* a, const float* b, FlatResult y, int part) {
  run(PODIUM_DISPATCH(flat_mul), count, a, b, 0, y, part);
}
void scale(std::int64_t count, const float* x, float factor, FlatResult y, int part) {
  run(PODIUM_DISPATCH(flat_scale), count, x, x, factor, y, part);
}
void divide(std::int64_t count, const float* x, float divisor, FlatResult y, int part) {
  run(PODIUM_DISPATCH(flat_divide), count, x, x, divisor, y, part);
}
void fill(std::int64_t count, float value, float* y, int part) {
  const std::int64_t begin = part * kFlatPart;
  std::fill(y + begin, y + std::min(begin + kFlatPart, count), value);
}

void add_into(std::int64_t count, const float* b, float* a, int part) { add(count, a, b, a, part); }

}  // namespace podium::cpu
#endif  // HWY_ONCE
