#include "base/numerics/tensor_core.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/numerics/bf16_sum.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace podium {
namespace {

constexpr float kInfiniteSum = std::numeric_limits<float>::infinity();
constexpr Bf16Order kTensorCores[] = {Bf16Order::kAmpere, Bf16Order::kHopper};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// Products of numbers that are BF16, and 0 from the last on.
float sum_of(Bf16Order order, float c, const std::vector<std::pair<float, float>>& factors) {
  return tensor_core_sum(tensor_core_of(order), c, [&](int i, std::uint16_t& a, std::uint16_t& b) {
    if (i >= std::ssize(factors)) return;
    a = bf16_upper(factors[static_cast<std::size_t>(i)].first);
    b = bf16_upper(factors[static_cast<std::size_t>(i)].second);
  });
}

// What GPUs returned (north-numerical-computing/MATLAB-tensor-core): of each, a_NAME_bf16.txt and
// b_NAME_bf16.txt with a group of words a line, c_NAME_fp32.txt and d_NAME_fp32.txt with one.
const std::map<std::string, Bf16Order, std::less<>>& recorded_gpus() {
  static const std::map<std::string, Bf16Order, std::less<>> gpus = {
      {"A100", Bf16Order::kAmpere}, {"A2", Bf16Order::kAmpere},   {"Ada", Bf16Order::kAmpere},
      {"L40S", Bf16Order::kAmpere}, {"H100", Bf16Order::kHopper}, {"H200", Bf16Order::kHopper},
      {"B200", Bf16Order::kHopper}};
  return gpus;
}

std::filesystem::path recorded_folder() {
  const char* const data = std::getenv("PODIUM_DATA");
  return std::filesystem::path(data == nullptr ? "../shared/data" : data) / "tensor-cores";
}
std::vector<std::uint32_t> words_in(const std::filesystem::path& file, int base) {
  std::ifstream in(file);
  std::vector<std::uint32_t> words;
  for (std::string word; in >> word;)
    words.push_back(static_cast<std::uint32_t>(std::stoul(word, nullptr, base)));
  return words;
}

TEST(TensorCore, returns_every_recorded_output_of_each_gpu) {
  int gpus = 0;
  for (const auto& [name, order] : recorded_gpus()) {
    const auto file = [&, &gpu = name](const char* operand, const char* type) {
      return recorded_folder() / (std::string(operand) + "_" + gpu + "_" + type + ".txt");
    };
    if (!exists(file("d", "fp32"))) continue;
    const auto a = words_in(file("a", "bf16"), 16), b = words_in(file("b", "bf16"), 16),
               c = words_in(file("c", "fp32"), 2), d = words_in(file("d", "fp32"), 2);
    const TensorCore core = tensor_core_of(order);
    const auto group = static_cast<std::size_t>(core.group);
    ASSERT_FALSE(d.empty()) << name;
    ASSERT_EQ(c.size(), d.size()) << name;
    ASSERT_EQ(a.size(), group * d.size()) << name;
    ASSERT_EQ(b.size(), group * d.size()) << name;
    for (std::size_t i = 0; i < d.size(); ++i) {
      const float sum = tensor_core_sum(
          core, std::bit_cast<float>(c[i]), [&](int k, std::uint16_t& x, std::uint16_t& y) {
            x = static_cast<std::uint16_t>(a[i * group + static_cast<std::size_t>(k)] >> 16);
            y = static_cast<std::uint16_t>(b[i * group + static_cast<std::size_t>(k)] >> 16);
          });
      ASSERT_EQ(bits_of(sum), d[i]) << name << ", output " << i;
    }
    ++gpus;
  }
  if (gpus == 0) GTEST_SKIP() << "no recorded outputs in " << recorded_folder();
}

TEST(TensorCore, cuts_each_term_at_a_bit_below_the_largest_exponent) {
  // 2^-25 is kept beside 1 where 25 bits are; two of them make 2^-24, which FP32 cuts off at 1.
  EXPECT_EQ(sum_of(Bf16Order::kHopper, -1, {{1, 1}, {0x1p-25f, 1}}), 0x1p-25f);
  EXPECT_EQ(sum_of(Bf16Order::kAmpere, -1, {{1, 1}, {0x1p-25f, 1}}), 0);
  EXPECT_EQ(sum_of(Bf16Order::kAmpere, -1, {{1, 1}, {0x1p-24f, 1}}), 0x1p-24f);
  for (const Bf16Order order : kTensorCores) {
    // Toward zero, terms and sums alike.
    EXPECT_EQ(sum_of(order, -1, {{-0x1p-24f, 1}}), -1);
    EXPECT_EQ(sum_of(order, 1, {{0x1.8p-24f, 1}}), 1);
    EXPECT_EQ(sum_of(order, 1, {{-0x1p-24f, 1}}), 1 - 0x1p-24f);
    // A product's exponent is the sum of its factors': 1.5 * 1.5 counts as 2^0.
    EXPECT_EQ(sum_of(order, -2.25f, {{1.5f, 1.5f}, {0x1p-24f, 1}}),
              order == Bf16Order::kHopper ? 0x1p-24f : 0);
    // Zeros do not count.
    EXPECT_EQ(sum_of(order, 0x1p-100f, {{0, 0x1p+100f}}), 0x1p-100f);
  }
}

TEST(TensorCore, treats_numbers_at_the_ends_of_their_range_as_gpus_do) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), most = 0x1.fep127f;
  for (const Bf16Order order : kTensorCores) {
    EXPECT_EQ(bits_of(sum_of(order, -0.0f, {{-0.0f, 1}})), 0u);
    EXPECT_EQ(bits_of(sum_of(order, 1, {{-1, 1}})), 0u);
    EXPECT_EQ(sum_of(order, 0, {{most, 2}}), kInfiniteSum);
    EXPECT_EQ(sum_of(order, 0, {{most, -2}}), -kInfiniteSum);
    EXPECT_EQ(sum_of(order, 0, {{most, 2}, {most, -2}}), 0);
    EXPECT_EQ(sum_of(order, -kInfiniteSum, {{most, 2}}), -kInfiniteSum);
    for (const float sum :
         {sum_of(order, nan, {}), sum_of(order, 0, {{nan, 0}}),
          sum_of(order, 0, {{kInfiniteSum, 0}}), sum_of(order, kInfiniteSum, {{kInfiniteSum, -1}}),
          sum_of(order, 0, {{kInfiniteSum, 1}, {-kInfiniteSum, 1}})})
      EXPECT_EQ(bits_of(sum), 0x7fffffffu);
    // Subnormal numbers are neither operands of 0 nor results of 0.
    EXPECT_EQ(sum_of(order, 0, {{0x1p-133f, 1}}), 0x1p-133f);
    EXPECT_EQ(sum_of(order, 0x1p-149f, {}), 0x1p-149f);
    EXPECT_EQ(sum_of(order, 0, {{0x1.8p-75f, 0x1p-74f}}), 0x1p-149f);
  }
}

TEST(TensorCore, parts_of_a_long_sum_follow_from_the_shape) {
  EXPECT_EQ(bf16_part_runs(64, 576, 16), 16);        // too short to be cut
  EXPECT_EQ(bf16_part_runs(512, 4608, 1000), 1000);  // enough sums side by side
  EXPECT_EQ(bf16_part_runs(64, 27, 3200), 34);       // 96 parts, rounded up
  EXPECT_EQ(bf16_part_runs(16, 27, 32), 16);
}

#if defined(__x86_64__)
bool has_vdpbf16ps() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512bw") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & 1u << 5) != 0;
}
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"), noinline)) void by_processor(
    const float* sums, const std::uint32_t* a, const std::uint32_t* b, float* to) {
  const __m512i left = _mm512_loadu_si512(a), right = _mm512_loadu_si512(b);
  _mm512_storeu_ps(to, _mm512_dpbf16_ps(_mm512_loadu_ps(sums), reinterpret_cast<__m512bh>(left),
                                        reinterpret_cast<__m512bh>(right)));
}

TEST(Vdpbf16ps, adds_the_second_product_then_the_first) {
  if (!has_vdpbf16ps()) GTEST_SKIP() << "this processor has no AVX512_BF16";
  std::mt19937 words(3);
  std::uint32_t a[16], b[16];
  float c[16], actual[16];
  std::int64_t numbers = 0;
  for (int round = 0; round < 100000; ++round) {
    // All exponents; products and sums near each other; products around 2^-126, operands subnormal.
    const int kind = round % 3;
    const auto half = [&](std::uint32_t from, std::uint32_t spread) {
      const auto word = static_cast<std::uint32_t>(words());
      return (word & 0x8000u) | (from + (word >> 16) % spread) << 7 | (word & 0x7fu);
    };
    for (int i = 0; i < 16; ++i) {
      const auto draw = [&] {
        return kind == 0 ? half(0, 255) : kind == 1 ? half(120, 14) : half(i % 2 == 0 ? 0 : 60, 8);
      };
      a[i] = draw() | draw() << 16;
      b[i] = draw() | draw() << 16;
      c[i] = std::bit_cast<float>((kind == 2 ? half(0, 6) : draw()) << 16 |
                                  static_cast<std::uint32_t>(words() & 0xffffu));
    }
    by_processor(c, a, b, actual);
    for (int i = 0; i < 16; ++i) {
      const auto low = [](std::uint32_t pair) { return std::bit_cast<float>(pair << 16); };
      const auto high = [](std::uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); };
      const float expected = add_pair(c[i], low(a[i]), low(b[i]), high(a[i]), high(b[i]));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(actual[i]));
        continue;
      }
      ++numbers;
      ASSERT_EQ(bits_of(actual[i]), bits_of(expected))
          << std::hexfloat << c[i] << " + " << low(a[i]) << " * " << low(b[i]) << " + "
          << high(a[i]) << " * " << high(b[i]);
    }
  }
  EXPECT_GT(numbers, 1000000);
}
#endif

}  // namespace
}  // namespace podium
