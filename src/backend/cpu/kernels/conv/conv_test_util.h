// What the tests of the convolutions share: shapes, random tensors in both layouts, runs of a
// kernel.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/targets.h"

namespace podium::cpu {

inline ConvShape make_shape(int images, int c, int h, int w, int k, int r, int s, int stride_h,
                            int stride_w, int pad_top, int pad_left) {
  ConvShape shape;
  shape.images = images, shape.in_channels = c, shape.in_height = h, shape.in_width = w;
  shape.out_channels = k, shape.kernel_height = r, shape.kernel_width = s;
  shape.stride_height = stride_h, shape.stride_width = stride_w;
  shape.pad_top = pad_top, shape.pad_left = pad_left;
  shape.out_height = (h + 2 * pad_top - r) / stride_h + 1;
  shape.out_width = (w + 2 * pad_left - s) / stride_w + 1;
  return shape;
}

// A square kernel with the padding that TensorFlow calls "same".
inline ConvShape same_shape(int images, int c, int size, int k, int kernel, int stride) {
  ConvShape shape = make_shape(images, c, size, size, k, kernel, kernel, stride, stride, 0, 0);
  const int out = (size + stride - 1) / stride;
  shape.out_height = shape.out_width = out;
  shape.pad_top = shape.pad_left = std::max(0, (out - 1) * stride + kernel - size) / 2;
  return shape;
}

inline ConvShape random_shape(std::mt19937& random, int channels, int size) {
  const auto pick = [&](int lo, int hi) {
    return std::uniform_int_distribution<int>(lo, hi)(random);
  };
  for (;;) {
    const int r = pick(1, 7), s = pick(1, 7), top = pick(0, r - 1), left = pick(0, s - 1);
    const int h = pick(1, size), w = pick(1, size);
    if (h + 2 * top < r || w + 2 * left < s) continue;
    return make_shape(pick(0, 2) ? pick(1, 20) : pick(1, 40), pick(1, channels), h, w, pick(1, 13),
                      r, s, pick(1, 3), pick(1, 3), top, left);
  }
}

inline std::string name(const ConvShape& s) {
  std::ostringstream out;
  out << "N" << s.images << " C" << s.in_channels << " " << s.in_height << "x" << s.in_width << " K"
      << s.out_channels << " " << s.out_height << "x" << s.out_width << " kernel "
      << s.kernel_height << "x" << s.kernel_width << " stride " << s.stride_height << "x"
      << s.stride_width << " pad " << s.pad_top << "," << s.pad_left;
  return out.str();
}

struct Tensors {
  std::vector<float> x, w, dy;

  Tensors(const ConvShape& s, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    x.resize(s.images * s.in_channels * s.in_pixels());
    w.resize(s.weight_floats());
    dy.resize(s.images * s.out_channels * s.out_pixels());
    for (auto* v : {&x, &w, &dy})
      for (float& value : *v) value = normal(random);
  }
};

inline testing::AssertionResult same_bits(const std::vector<float>& expected,
                                          const std::vector<float>& actual) {
  if (expected.size() != actual.size())
    return testing::AssertionFailure() << expected.size() << " values against " << actual.size();
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::bit_cast<std::uint32_t>(expected[i]) != std::bit_cast<std::uint32_t>(actual[i]) &&
        wrong++ == 0)
      first = i;
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << wrong << " of " << expected.size() << " differ, the first at " << first << ": "
         << expected[first] << " against " << actual[first];
}

template <typename Function>
void on_every_target(const Function& function) {
  const std::string before = vector_target();
  for (const std::string& target : vector_targets()) {
    set_vector_target(target);
    SCOPED_TRACE(target);
    function();
  }
  set_vector_target(before);
}

enum class Order { kForward, kBackward };

// Runs a kernel k(shape, in1, in2, out, shared, scratch, phase, part), scratch being rubbish before
// each part.
template <typename Work, typename Kernel>
std::vector<float> run_kernel(const ConvShape& s, const std::vector<float>& in1,
                              const std::vector<float>& in2, std::int64_t out_floats,
                              const Work& work_of, const Kernel& kernel, Order order) {
  const ConvWork work = work_of(s);
  std::vector<float> out(out_floats, kNan), shared(work.shared, kNan);
  for (int phase = 0; phase < work.phases; ++phase)
    for (int i = 0; i < work.parts[phase]; ++i) {
      std::vector<float> scratch(work.scratch, kNan);
      kernel(s, in1.data(), in2.data(), out.data(), shared.data(), scratch.data(), phase,
             order == Order::kForward ? i : work.parts[phase] - 1 - i);
    }
  return out;
}

template <typename Work, typename Kernel>
std::vector<float> run_forward(const ConvShape& s, const Tensors& t, const Work& work,
                               const Kernel& kernel, Order order = Order::kForward) {
  return from_lanes(run_kernel(s, to_lanes(t.x, s.images), t.w, out_floats(s), work, kernel, order),
                    s.images);
}
template <typename Work, typename Kernel>
std::vector<float> run_grad_input(const ConvShape& s, const Tensors& t, const Work& work,
                                  const Kernel& kernel, Order order = Order::kForward) {
  return from_lanes(run_kernel(s, to_lanes(t.dy, s.images), t.w, in_floats(s), work, kernel, order),
                    s.images);
}
template <typename Work, typename Kernel>
std::vector<float> run_grad_weight(const ConvShape& s, const Tensors& t, const Work& work,
                                   const Kernel& kernel, Order order = Order::kForward) {
  return run_kernel(s, to_lanes(t.dy, s.images), to_lanes(t.x, s.images), s.weight_floats(), work,
                    kernel, order);
}

}  // namespace podium::cpu
