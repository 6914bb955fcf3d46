// Products of tiles against their contract, on every vector target and by AMX.
#include "backend/cpu/kernels/bf16/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/bf16/amx.h"
#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/vdpbf16ps.h"
#include "backend/cpu/kernels/targets.h"
#include "base/numerics/bf16_sum.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kRuns = 11;
constexpr std::int64_t kColumns = 3;

struct alignas(64) Tile {
  std::uint16_t values[kTileValues];
};

using Multiply = std::function<void(const TileProduct&, float*)>;

struct Case {
  std::vector<Tile> left{2 * kRuns}, right{kColumns * kRuns};
  std::vector<float> before;  // [column][32][16]
  std::int64_t rows = 32;
  bool continues = false;
  Bf16Order order = Bf16Order::kAmx;
  bool by_octets = false;

  // Exponents around `exponent`.
  Case(std::uint32_t seed, std::uint32_t exponent, std::uint32_t spread) {
    std::mt19937 words(seed);
    const auto draw = [&] {
      const auto word = static_cast<std::uint32_t>(words());
      return static_cast<std::uint16_t>((word & 0x8000u) | (exponent + (word >> 16) % spread) << 7 |
                                        (word & 0x7fu));
    };
    for (Tile& tile : left) std::ranges::generate(tile.values, draw);
    for (Tile& tile : right) std::ranges::generate(tile.values, draw);
    for (int i = 0; i < kColumns * 32 * 16; ++i) before.push_back(bf16_value(draw()));
  }

  // Sums cancel, and groups of zeros follow: few mantissas, and every second octet is zero.
  void thin_out() {
    for (Tile& tile : left)
      for (std::uint16_t& value : tile.values) value &= 0xff81u;
    for (Tile& tile : right)
      for (int i = 0; i < kTileValues; ++i)
        tile.values[i] = i / kOctetValues % 2 == 0 ? tile.values[i] & 0xff81u : 0;
  }

  std::vector<float> expected() const {
    std::vector<float> sums = before;
    for (std::int64_t column = 0; column < kColumns; ++column)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = 0; j < kTileColumns; ++j) {
          float& sum = sums[static_cast<std::size_t>((column * 32 + row) * kTileColumns + j)];
          if (!continues) sum = 0;
          for (std::int64_t run = 0; run < kRuns; ++run) {
            const Tile &a = left[static_cast<std::size_t>(row / kTileRows * kRuns + run)],
                       &b = right[static_cast<std::size_t>(column * kRuns + run)];
            Bf16Terms terms;
            for (std::int64_t i = 0; i < kBf16Run; ++i) {
              terms.a[i] = bf16_value(a.values[row % kTileRows * kBf16Run + i]);
              terms.b[i] = bf16_value(b.values[i / 2 * 2 * kTileColumns + 2 * j + i % 2]);
            }
            sum = add_run(order, sum, terms);
          }
        }
    return sums;
  }

  std::vector<float> actual(const Multiply& multiply) const {
    std::vector<float> sums = before;
    std::vector<const std::uint16_t*> addresses;
    for (const Tile& tile : right)
      for (int i = 0; i < (by_octets ? kRunOctets : 1); ++i)
        addresses.push_back(tile.values + i * kOctetValues);
    std::vector<float*> to;
    for (std::int64_t column = 0; column < kColumns; ++column)
      to.push_back(sums.data() + column * 32 * kTileColumns);
    std::vector<float> scratch(static_cast<std::size_t>(tile_scratch(order, kRuns)));
    multiply({.left = left.front().values,
              .left_stride = kRuns * kTileValues,
              .right = addresses.data(),
              .runs = kRuns,
              .columns = kColumns,
              .out = to.data(),
              .out_stride = kTileColumns,
              .rows = rows,
              .continues = continues,
              .order = order,
              .by_octets = by_octets},
             scratch.data());
    return sums;
  }
};

// A NaN of a processor may be any.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

void expect_contract(const std::string& what, Bf16Order order,
                     const Multiply& multiply = multiply_tiles) {
  std::uint32_t seed = 1;
  // Numbers near each other; products around 2^-95 and 2^-126; subnormal numbers, infinities, NaN.
  for (const auto& [exponent, spread] : {std::pair{120u, 12u},
                                         {80u, 2u},
                                         {77u, 6u},
                                         {56u, 14u},
                                         {61u, 4u},
                                         {1u, 250u},
                                         {0u, 256u},
                                         {0u, 2u},
                                         {246u, 10u}})
    for (const std::int64_t rows : {1, 16, 20, 32})
      for (const bool continues : {false, true}) {
        Case c(seed++, exponent, spread);
        if (seed % 3 == 0) c.thin_out();
        c.rows = rows;
        c.order = order;
        c.by_octets = is_tensor_core(order) && seed % 2 == 0;
        c.continues = continues;
        const std::vector<float> expected = c.expected(), actual = c.actual(multiply);
        ASSERT_EQ(std::ranges::mismatch(expected, actual, same).in1 - expected.begin(),
                  std::ssize(expected))
            << what << ", " << name_of(order) << ", exponents from " << exponent << ", " << rows
            << " rows, " << (continues ? "continued" : "from 0");
      }
}

TEST(Bf16Tiles, have_the_bits_of_the_contract_on_every_vector_target) {
  allow_amx(false);
  for (const std::string& target : vector_targets()) {
    set_vector_target(target);
    for (const Bf16Order order : kBf16Orders) expect_contract(target, order);
  }
  allow_amx(true);
  set_vector_target(vector_targets().front());
}

TEST(Bf16Tiles, have_the_bits_of_the_contract_by_amx) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX for BF16";
  ASSERT_TRUE(uses_amx());
  expect_contract("amx", Bf16Order::kAmx);
}

TEST(Bf16Tiles, have_the_bits_of_the_contract_by_vdpbf16ps) {
  if (!has_vdpbf16ps()) GTEST_SKIP() << "this processor has no AVX512_BF16";
  // Whether it is used depends on how fast it is.
  expect_contract("vdpbf16ps", Bf16Order::kVdpbf16ps,
                  [](const TileProduct& p, float*) { multiply_tiles_by_vdpbf16ps(p); });
}

TEST(Bf16Tiles, are_packed_with_the_rounding_of_every_number) {
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 0x10000u; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      numbers.push_back(std::bit_cast<float>(upper << 16 | lower));
  numbers.resize(numbers.size() - 3);  // not whole vectors
  for (const std::string& target : vector_targets()) {
    set_vector_target(target);
    std::vector<std::uint16_t> rounded(numbers.size());
    round_to_bf16(numbers.data(), std::ssize(numbers), rounded.data());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(rounded[i], bf16_bits(numbers[i])) << target << " " << std::hexfloat << numbers[i];
  }
  set_vector_target(vector_targets().front());
}

}  // namespace
}  // namespace podium::cpu
