// The Winograd convolutions against the scalar loops of their contract, bit for bit on every target
// of this machine, and against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/conv_test_util.h"
#include "ops/images/winograd_reference.h"

namespace podium::cpu {
namespace {

struct Results {
  std::vector<float> y, dx, dw;

  Results(const ConvShape& s, const Tensors& t) : y(t.dy.size()), dx(t.x.size()), dw(t.w.size()) {
    winograd_reference(s, t.x.data(), t.w.data(), y.data());
    winograd_grad_input_reference(s, t.dy.data(), t.w.data(), dx.data());
    winograd_grad_weight_reference(s, t.dy.data(), t.x.data(), dw.data());
  }
};

void check_winograd(const ConvShape& s, unsigned seed) {
  ASSERT_TRUE(conv_winograd_applies(s));
  const Tensors t(s, seed);
  const Results expected(s, t);
  on_every_target([&] {
    EXPECT_TRUE(
        same_bits(expected.y, run_forward(s, t, conv_winograd_forward_work, conv_winograd_forward)))
        << name(s);
    EXPECT_TRUE(same_bits(
        expected.dx, run_grad_input(s, t, conv_winograd_grad_input_work, conv_winograd_grad_input)))
        << name(s);
    EXPECT_TRUE(same_bits(expected.dw, run_grad_weight(s, t, conv_winograd_grad_weight_work,
                                                       conv_winograd_grad_weight)))
        << name(s);
  });
}

// A convolution with filters of three strides: channels of x and y, padding on each side.
struct Layer {
  int images, in, height, width, out, stride = 1, padding = 1;
};
void check_all(std::initializer_list<Layer> layers) {
  unsigned seed = 0;
  for (const Layer& l : layers)
    check_winograd(make_shape(l.images, l.in, l.height, l.width, l.out, 3 * l.stride, 3 * l.stride,
                              l.stride, l.stride, l.padding, l.padding),
                   ++seed);
}

TEST(WinogradTest, has_the_bits_of_the_contract_on_the_shapes_of_mnist) {
  for (const int images : {1, 7, 16, 17, 32, 85}) {
    check_winograd(same_shape(images, 1, 28, 6, 3, 1), 1);
    check_winograd(same_shape(images, 6, 28, 12, 6, 2), 2);
    check_winograd(same_shape(images, 12, 14, 24, 6, 2), 3);
  }
}

TEST(WinogradTest, has_the_bits_of_the_contract_on_random_shapes) {
  std::mt19937 random(3);
  const auto pick = [&](int lo, int hi) {
    return std::uniform_int_distribution<int>(lo, hi)(random);
  };
  for (int i = 0; i < 120;) {
    const int stride_h = pick(1, 3), stride_w = pick(1, 3);
    const int top = pick(0, 3 * stride_h - 1), left = pick(0, 3 * stride_w - 1);
    const int h = pick(1, 24), w = pick(1, 24);
    if (h + 2 * top < 3 * stride_h || w + 2 * left < 3 * stride_w) continue;
    const bool wide = pick(0, 7) == 0;
    check_winograd(
        make_shape(pick(0, 2) ? pick(1, 20) : pick(1, 70), wide ? pick(16, 34) : pick(1, 5), h, w,
                   wide ? 16 * pick(1, 2) : pick(1, 14), 3 * stride_h, 3 * stride_w, stride_h,
                   stride_w, top, left),
        i++);
  }
}

TEST(WinogradTest, has_the_bits_of_the_contract_for_more_than_64_channels) {
  check_all({{5, 19, 9, 10, 70, 2, 2}, {17, 131, 6, 5, 9}});
}

TEST(WinogradTest, has_the_bits_of_the_contract_for_many_channels_on_both_sides) {
  check_all(
      {// Tiles of four and of three, runs that end within a block of images, a last block that is
       // not full.
       {37, 17, 9, 11, 32},
       {70, 16, 4, 4, 16},
       {20, 29, 3, 3, 48},
       {33, 5, 12, 10, 16, 2, 2},
       // One row of pixels, two columns.
       {9, 16, 1, 2, 16},
       // More than one part of output channels.
       {5, 25, 5, 4, 144},
       // Several groups.
       {130, 16, 14, 15, 16}});
}

TEST(WinogradTest, has_the_bits_of_the_contract_for_many_channels_of_odd_numbers) {
  check_all({{18, 24, 6, 6, 24},
             {5, 40, 11, 15, 31},
             {35, 24, 16, 10, 32},
             {70, 25, 12, 11, 30},
             {17, 7, 24, 23, 25, 2, 2},
             {2, 30, 6, 6, 130}});
}

TEST(WinogradTest, has_the_bits_of_the_contract_in_tiles_of_six) {
  check_all(
      {// Tiles of six and of five, alone and together; more channels than a span of four holds.
       {18, 24, 6, 6, 32},
       {5, 40, 11, 12, 48},
       {35, 24, 12, 10, 32},
       // Several groups and runs of the gradient to the weights.
       {50, 26, 17, 12, 48},
       {70, 16, 12, 11, 16},
       {3, 70, 12, 18, 144},
       // Strides; a row less of padding; filters that are more than tiles.
       {17, 7, 24, 23, 32, 2, 2},
       {2, 30, 6, 6, 144}});
}

TEST(WinogradTest, has_the_bits_of_the_contract_in_tiles_of_eight) {
  check_all(
      {// Tiles of eight and of seven, alone and together.
       {18, 24, 8, 8, 32},
       {5, 70, 7, 7, 80},
       {19, 64, 15, 16, 64},
       // Several groups and runs of the gradient to the weights; strides; filters that are more
       // than tiles; no padding; several spans whose products wait for the next run of input
       // channels.
       {70, 16, 14, 8, 16},
       {35, 33, 8, 15, 80},
       {3, 9, 16, 30, 32, 2, 2},
       {2, 64, 8, 8, 144},
       {17, 64, 10, 17, 64, 1, 0},
       {60, 96, 8, 8, 144}});
}

TEST(WinogradTest, has_the_bits_of_the_contract_where_filters_are_more_than_tiles) {
  check_all({// One span of tiles and several; tiles of four and of three, of two blocks, in a span.
             {3, 65, 4, 4, 112},
             {33, 130, 3, 5, 99},
             {18, 8, 7, 6, 100, 2, 2},
             {2, 20, 9, 8, 161, 1, 0}});
}

TEST(WinogradTest, parts_depend_on_the_shape_alone_and_run_in_any_order) {
  for (const ConvShape& s : {same_shape(70, 6, 28, 12, 6, 2), same_shape(70, 20, 14, 32, 3, 1),
                             same_shape(6, 80, 7, 96, 3, 1)}) {
    const Tensors t(s, 1);
    EXPECT_TRUE(same_bits(
        run_forward(s, t, conv_winograd_forward_work, conv_winograd_forward),
        run_forward(s, t, conv_winograd_forward_work, conv_winograd_forward, Order::kBackward)));
    EXPECT_TRUE(
        same_bits(run_grad_input(s, t, conv_winograd_grad_input_work, conv_winograd_grad_input),
                  run_grad_input(s, t, conv_winograd_grad_input_work, conv_winograd_grad_input,
                                 Order::kBackward)));
    EXPECT_TRUE(
        same_bits(run_grad_weight(s, t, conv_winograd_grad_weight_work, conv_winograd_grad_weight),
                  run_grad_weight(s, t, conv_winograd_grad_weight_work, conv_winograd_grad_weight,
                                  Order::kBackward)));
  }
}

// Root mean square of the error over that of the exact result.
double relative_error(const std::vector<double>& exact, const std::vector<float>& actual) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (actual[i] - exact[i]) * (actual[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

TEST(WinogradTest, errors_against_double_precision_are_small) {
  for (const ConvShape& s : {same_shape(32, 6, 28, 12, 6, 2), same_shape(32, 12, 14, 24, 6, 2),
                             same_shape(16, 5, 13, 7, 3, 1), same_shape(40, 24, 8, 32, 3, 1),
                             same_shape(40, 24, 15, 32, 3, 1), same_shape(40, 64, 6, 64, 3, 1),
                             same_shape(20, 64, 8, 64, 3, 1), same_shape(20, 64, 15, 64, 3, 1)}) {
    const bool six = s.in_channels >= 24 && s.out_height == 6;
    const bool eight = s.in_channels >= 24 && !six;
    const double most = eight ? 2.5e-5 : six ? 4.5e-6 : 8e-7;
    const Tensors t(s, 5);
    const Results actual(s, t);
    std::vector<double> y(t.dy.size()), dx(t.x.size()), dw(t.w.size());
    for (int n = 0; n < s.images; ++n)
      for (int k = 0; k < s.out_channels; ++k)
        for (int c = 0; c < s.in_channels; ++c)
          for (int p = 0; p < s.out_height; ++p)
            for (int q = 0; q < s.out_width; ++q)
              for (int r = 0; r < s.kernel_height; ++r)
                for (int u = 0; u < s.kernel_width; ++u) {
                  const std::int64_t i = p * s.stride_height + r - s.pad_top,
                                     j = q * s.stride_width + u - s.pad_left;
                  if (i < 0 || i >= s.in_height || j < 0 || j >= s.in_width) continue;
                  const std::int64_t xi =
                      ((n * s.in_channels + c) * s.in_height + i) * s.in_width + j;
                  const std::int64_t wi =
                      ((k * s.in_channels + c) * s.kernel_height + r) * s.kernel_width + u;
                  const std::int64_t yi =
                      ((n * s.out_channels + k) * s.out_height + p) * s.out_width + q;
                  y[yi] += double{t.x[xi]} * t.w[wi];
                  dx[xi] += double{t.dy[yi]} * t.w[wi];
                  dw[wi] += double{t.dy[yi]} * t.x[xi];
                }
    EXPECT_LT(relative_error(y, actual.y), most) << name(s);
    EXPECT_LT(relative_error(dx, actual.dx), most) << name(s);
    EXPECT_LT(relative_error(dw, actual.dw), std::max(most, 1.2e-6)) << name(s);
    RecordProperty("forward", std::to_string(relative_error(y, actual.y)));
    std::printf("%s: error %.2e forward, %.2e to the input, %.2e to the weights\n", name(s).c_str(),
                relative_error(y, actual.y), relative_error(dx, actual.dx),
                relative_error(dw, actual.dw));
  }
}

}  // namespace
}  // namespace podium::cpu
