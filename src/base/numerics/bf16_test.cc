#include "base/numerics/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace podium {
namespace {

constexpr float kInfiniteBf16 = std::numeric_limits<float>::infinity();

TEST(Bf16, rounds_to_the_nearest_and_between_two_to_the_even_one) {
  EXPECT_EQ(bf16_rounded(1.0f), 1.0f);
  EXPECT_EQ(bf16_rounded(1 + 0x1p-8f), 1.0f);             // half way: 1 is even
  EXPECT_EQ(bf16_rounded(1 + 3 * 0x1p-8f), 1 + 0x1p-6f);  // half way: up to the even one
  EXPECT_EQ(bf16_rounded(1 + 0x1.01p-8f), 1 + 0x1p-7f);   // above half way
  EXPECT_EQ(bf16_rounded(-1 - 0x1.01p-8f), -1 - 0x1p-7f);
  EXPECT_EQ(bf16_rounded(std::numeric_limits<float>::max()), kInfiniteBf16);
  EXPECT_EQ(bf16_rounded(-kInfiniteBf16), -kInfiniteBf16);
  EXPECT_TRUE(std::isnan(bf16_rounded(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(bf16_rounded(std::bit_cast<float>(0x7f800001u))));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(bf16_rounded(-0x1.8p-127f)), 0x80000000u);
  EXPECT_EQ(bf16_rounded(0x1p-126f), 0x1p-126f);
}

TEST(Bf16, of_any_number_is_one_of_its_two_neighbours_and_the_nearer) {
  std::mt19937 words(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(words()));
    if (!std::isfinite(x) || std::fabs(x) < 0x1p-126f || std::fabs(x) > 0x1p127f) continue;
    const std::uint32_t below = std::bit_cast<std::uint32_t>(x) & 0xffff0000u;
    const auto down = static_cast<double>(std::bit_cast<float>(below)),
               up = static_cast<double>(std::bit_cast<float>(below + 0x10000u)),
               exact = static_cast<double>(x);
    const double to_down = std::fabs(exact - down), to_up = std::fabs(up - exact);
    const bool even = (below >> 16) % 2 == 0;
    const double expected = to_down < to_up || (to_down == to_up && even) ? down : up;
    ASSERT_EQ(static_cast<double>(bf16_rounded(x)), expected) << std::hexfloat << x;
  }
}

TEST(Bf16, sums_flush_what_is_subnormal_after_rounding) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(flushed_fma(-0x1p-64f, 0x1p-64f, 0)), 0x80000000u);
  EXPECT_EQ(flushed_fma(0x1p-63f, 0x1p-63f, 0), 0x1p-126f);
  // 2^-126 - 2^-151 is half way between two numbers of 24 bits, and 2^-126 is the even one; less
  // than that is not.
  EXPECT_EQ(flushed_fma(-0x1p-75f, 0x1p-76f, 0x1p-126f), 0x1p-126f);
  EXPECT_EQ(flushed_fma(-0x1.02p-75f, 0x1p-76f, 0x1p-126f), 0.0f);
  EXPECT_EQ(flushed_add(0x1.8p-126f, -0x1p-126f), 0.0f);
  EXPECT_EQ(flushed_add(0x1.8p-126f, 0x1p-126f), 0x1.4p-125f);
}

#if defined(__x86_64__)
// A multiply-add of the processor, with subnormal operands and results as 0.
__attribute__((target("fma"), noinline)) float by_processor(float a, float b, float c) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);
  volatile __m128 sum = _mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c));
  const __m128 result = sum;
  _mm_setcsr(before);
  return _mm_cvtss_f32(result);
}

TEST(Bf16, a_multiply_add_is_that_of_x86_processors) {
  std::mt19937 words(2);
  const auto draw = [&](std::uint32_t exponent, std::uint32_t spread) {
    const auto word = static_cast<std::uint32_t>(words());
    return (word & 0x80000000u) | (exponent + word % spread) << 23;
  };
  std::int64_t limits = 0;
  for (int i = 0; i < 400000; ++i) {
    // Products and sums around 2^-126, and of a few bits, so that many sums lie just below it.
    const auto bits = static_cast<std::uint32_t>(words());
    const float a = std::bit_cast<float>(draw(60, 8) | (bits & 0x30000u)),
                b = std::bit_cast<float>(draw(40, 30) | (bits >> 4 & 0x70000u)),
                c = std::bit_cast<float>(draw(1, 3) | (bits >> 8 & 1u));
    const float sum = flushed_fma(a, b, c);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sum),
              std::bit_cast<std::uint32_t>(by_processor(a, b, c)))
        << std::hexfloat << a << " * " << b << " + " << c;
    limits += std::fabs(std::fma(a, b, c)) == 0x1p-126f && sum == 0 ? 1 : 0;
  }
  EXPECT_GT(limits, 10);  // the case that rounding twice would get wrong
}
#endif

}  // namespace
}  // namespace podium
