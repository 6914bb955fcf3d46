// The direct convolutions against their contracts (docs/numerics.md), written here as plain loops:
// equal bits, on every target of this machine, with NaN in the padding lanes and memory cut off at
// its ends.
#include "backend/cpu/kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/conv/conv_test_util.h"

namespace podium::cpu {
namespace {

std::vector<float> forward_by_contract(const ConvShape& s, const std::vector<float>& x,
                                       const std::vector<float>& w) {
  std::vector<float> out;
  for (int n = 0; n < s.images; ++n)
    for (int k = 0; k < s.out_channels; ++k)
      for (int p = 0; p < s.out_height; ++p)
        for (int q = 0; q < s.out_width; ++q) {
          float acc = 0;
          for (int chunk = 0; chunk < s.in_channels; chunk += 16)
            for (int r = 0; r < s.kernel_height; ++r)
              for (int t = 0; t < s.kernel_width; ++t)
                for (int c = chunk; c < s.in_channels && c < chunk + 16; ++c) {
                  const std::int64_t y = p * s.stride_height + r - s.pad_top;
                  const std::int64_t z = q * s.stride_width + t - s.pad_left;
                  if (y < 0 || y >= s.in_height || z < 0 || z >= s.in_width) continue;
                  acc = std::fma(
                      x[((n * s.in_channels + c) * s.in_height + y) * s.in_width + z],
                      w[((k * s.in_channels + c) * s.kernel_height + r) * s.kernel_width + t], acc);
                }
          out.push_back(acc);
        }
  return out;
}

std::vector<float> grad_input_by_contract(const ConvShape& s, const std::vector<float>& dy,
                                          const std::vector<float>& w) {
  std::vector<float> out;
  for (int n = 0; n < s.images; ++n)
    for (int c = 0; c < s.in_channels; ++c)
      for (int y = 0; y < s.in_height; ++y)
        for (int z = 0; z < s.in_width; ++z) {
          float acc = 0;
          for (int chunk = 0; chunk < s.out_channels; chunk += 16)
            for (int r = 0; r < s.kernel_height; ++r)
              for (int t = 0; t < s.kernel_width; ++t)
                for (int k = chunk; k < s.out_channels && k < chunk + 16; ++k) {
                  const std::int64_t py = y + s.pad_top - r, qz = z + s.pad_left - t;
                  if (py < 0 || qz < 0 || py % s.stride_height || qz % s.stride_width) continue;
                  const std::int64_t p = py / s.stride_height, q = qz / s.stride_width;
                  if (p >= s.out_height || q >= s.out_width) continue;
                  acc = std::fma(
                      dy[((n * s.out_channels + k) * s.out_height + p) * s.out_width + q],
                      w[((k * s.in_channels + c) * s.kernel_height + r) * s.kernel_width + t], acc);
                }
          out.push_back(acc);
        }
  return out;
}

std::vector<float> grad_weight_by_contract(const ConvShape& s, const std::vector<float>& dy,
                                           const std::vector<float>& x) {
  std::vector<float> out;
  for (int k = 0; k < s.out_channels; ++k)
    for (int c = 0; c < s.in_channels; ++c)
      for (int r = 0; r < s.kernel_height; ++r)
        for (int t = 0; t < s.kernel_width; ++t) {
          float lanes[16] = {};
          for (int n = 0; n < s.images; ++n) {
            float acc = 0;
            for (int p = 0; p < s.out_height; ++p)
              for (int q = 0; q < s.out_width; ++q) {
                const std::int64_t y = p * s.stride_height + r - s.pad_top;
                const std::int64_t z = q * s.stride_width + t - s.pad_left;
                if (y < 0 || y >= s.in_height || z < 0 || z >= s.in_width) continue;
                acc =
                    std::fma(dy[((n * s.out_channels + k) * s.out_height + p) * s.out_width + q],
                             x[((n * s.in_channels + c) * s.in_height + y) * s.in_width + z], acc);
              }
            lanes[n % 16] += acc;
          }
          for (int step = 1; step < 16; step *= 2)
            for (int i = 0; i < 16; i += 2 * step) lanes[i] += lanes[i + step];
          out.push_back(lanes[0]);
        }
  return out;
}

void check(const ConvShape& s, unsigned seed) {
  const Tensors t(s, seed);
  const std::vector<float> y = forward_by_contract(s, t.x, t.w);
  const std::vector<float> dx = grad_input_by_contract(s, t.dy, t.w);
  const std::vector<float> dw = grad_weight_by_contract(s, t.dy, t.x);
  on_every_target([&] {
    EXPECT_TRUE(same_bits(y, run_forward(s, t, conv_forward_work, conv_forward))) << name(s);
    EXPECT_TRUE(same_bits(dx, run_grad_input(s, t, conv_grad_input_work, conv_grad_input)))
        << name(s);
    EXPECT_TRUE(same_bits(dw, run_grad_weight(s, t, conv_grad_weight_work, conv_grad_weight)))
        << name(s);
  });
}

TEST(ConvTest, has_the_bits_of_the_contract_on_the_shapes_of_mnist) {
  for (const int images : {1, 7, 16, 17, 32, 85}) {
    check(same_shape(images, 1, 28, 6, 3, 1), 1);
    check(same_shape(images, 6, 28, 12, 6, 2), 2);
    check(same_shape(images, 12, 14, 24, 6, 2), 3);
  }
}

TEST(ConvTest, has_the_bits_of_the_contract_on_random_shapes) {
  std::mt19937 random(7);
  for (int i = 0; i < 150; ++i) check(random_shape(random, 6, 20), i);
}

TEST(ConvTest, has_the_bits_of_the_contract_for_more_than_sixteen_channels) {
  check(make_shape(3, 37, 6, 5, 21, 3, 3, 1, 1, 1, 1), 1);
  check(make_shape(18, 16, 7, 7, 33, 2, 5, 2, 1, 0, 2), 2);
}

TEST(ConvTest, of_one_pixel_have_the_bits_of_the_contract) {
  const auto check_pass = [](const ConvShape& s, unsigned seed) {
    const Tensors t(s, seed);
    const std::vector<float> y = forward_by_contract(s, t.x, t.w),
                             dx = grad_input_by_contract(s, t.dy, t.w);
    on_every_target([&] {
      EXPECT_TRUE(same_bits(y, run_forward(s, t, conv_forward_work, conv_forward))) << name(s);
      EXPECT_TRUE(same_bits(dx, run_grad_input(s, t, conv_grad_input_work, conv_grad_input)))
          << name(s);
    });
  };
  // Of fewer and of more channels than lie in L1 at a time; pixels that fill no tile; strides.
  check_pass(same_shape(17, 16, 7, 16, 1, 1), 1);
  check_pass(same_shape(3, 129, 3, 19, 1, 1), 2);
  check_pass(same_shape(2, 40, 5, 250, 1, 1), 3);
  check_pass(same_shape(18, 230, 1, 64, 1, 1), 4);
  check_pass(make_shape(5, 140, 7, 6, 33, 1, 1, 2, 2, 0, 0), 5);
  check_pass(make_shape(3, 16, 5, 9, 24, 1, 1, 1, 3, 0, 0), 6);
}

TEST(ConvTest, sums_over_images_ignore_what_the_padding_lanes_hold) {
  // Tensors fills the padding lanes with NaN; a kernel that met one would return NaN.
  const ConvShape s = same_shape(5, 2, 6, 3, 3, 1);
  const Tensors t(s, 1);
  for (const float value : run_grad_weight(s, t, conv_grad_weight_work, conv_grad_weight))
    EXPECT_FALSE(std::isnan(value));
}

TEST(ConvTest, parts_depend_on_the_shape_alone_and_run_in_any_order) {
  const ConvShape s = same_shape(33, 6, 28, 12, 6, 2);
  const Tensors t(s, 1);
  EXPECT_TRUE(same_bits(run_forward(s, t, conv_forward_work, conv_forward),
                        run_forward(s, t, conv_forward_work, conv_forward, Order::kBackward)));
  EXPECT_TRUE(
      same_bits(run_grad_input(s, t, conv_grad_input_work, conv_grad_input),
                run_grad_input(s, t, conv_grad_input_work, conv_grad_input, Order::kBackward)));
  EXPECT_TRUE(
      same_bits(run_grad_weight(s, t, conv_grad_weight_work, conv_grad_weight),
                run_grad_weight(s, t, conv_grad_weight_work, conv_grad_weight, Order::kBackward)));
}

}  // namespace
}  // namespace podium::cpu
