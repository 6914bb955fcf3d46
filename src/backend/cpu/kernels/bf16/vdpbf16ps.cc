#include "backend/cpu/kernels/bf16/vdpbf16ps.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace podium::cpu {
namespace {

#define PODIUM_VDPBF16PS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

constexpr int kRows = 8;  // by two columns of tiles: their sums are in registers

// A pair of terms in each word.
PODIUM_VDPBF16PS inline __m512bh pairs_at(const std::uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}
PODIUM_VDPBF16PS inline __m512bh pair_at(const std::uint32_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(*from)));
}

// Rows [row, row + kRows), of which those below `rows` are written.
template <int kColumns>
PODIUM_VDPBF16PS void multiply_rows(const TileProduct& p, std::int64_t row, std::int64_t column) {
  const std::int64_t rows = std::min<std::int64_t>(kRows, p.rows - row);
  const std::uint16_t* left = p.left + row / kTileRows * p.left_stride + row % kTileRows * kBf16Run;
  const std::uint16_t* const* right = p.right + column * p.runs;
  __m512 sums[kRows][kColumns];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j)
      sums[i][j] = p.continues && i < rows
                       ? _mm512_loadu_ps(p.out[column + j] + (row + i) * p.out_stride)
                       : _mm512_setzero_ps();
  for (std::int64_t run = 0; run < p.runs; ++run) {
    const auto* factors = reinterpret_cast<const std::uint32_t*>(left + run * kTileValues);
    for (int pair = 0; pair < kBf16Run / 2; ++pair) {
      __m512bh others[kColumns];
      for (int j = 0; j < kColumns; ++j)
        others[j] = pairs_at(right[j * p.runs + run] + pair * 2 * kTileColumns);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const __m512bh own = pair_at(factors + i * (kBf16Run / 2) + pair);
#pragma GCC unroll 2
        for (int j = 0; j < kColumns; ++j)
          sums[i][j] = _mm512_dpbf16_ps(sums[i][j], own, others[j]);
      }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (int j = 0; j < kColumns; ++j)
      _mm512_storeu_ps(p.out[column + j] + (row + i) * p.out_stride, sums[i][j]);
}

}  // namespace

bool has_vdpbf16ps() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kBf16 = 1u << 5;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kBf16) != 0;
  }();
  return has;
}

void multiply_tiles_by_vdpbf16ps(const TileProduct& p) {
  for (std::int64_t row = 0; row < p.rows; row += kRows) {
    std::int64_t column = 0;
    for (; column + 2 <= p.columns; column += 2) multiply_rows<2>(p, row, column);
    if (column < p.columns) multiply_rows<1>(p, row, column);
  }
}

}  // namespace podium::cpu

#else

namespace podium::cpu {

bool has_vdpbf16ps() { return false; }
void multiply_tiles_by_vdpbf16ps(const TileProduct&) {}

}  // namespace podium::cpu
#endif
