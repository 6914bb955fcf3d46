#include "backend/cpu/kernels/bf16/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace podium::cpu {
namespace {

#define PODIUM_AMX __attribute__((target("amx-tile,amx-bf16")))

// What LDTILECFG reads: each of the eight tile registers has 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

constexpr int kRegisters = 8;
constexpr std::int64_t kRowBytes = 64;

// The instructions, since compilers' functions for them do not say which memory they read. No code
// but this uses these registers.
template <int kTile>
PODIUM_AMX inline void load_tile(const void* from, std::int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(row_bytes), "i"(kTile)
               : "memory");
}
template <int kTile>
PODIUM_AMX inline void store_tile(void* to, std::int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
PODIUM_AMX inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kSum, int kLeft, int kRight>
PODIUM_AMX inline void add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

// Sums of one right tile, of which fewer than all rows are written.
struct alignas(64) Sums {
  float values[2 * kTileRows][kTileColumns];
};

void take_rows(const TileProduct& p, std::int64_t column, Sums& sums) {
  for (std::int64_t i = 0; i < p.rows; ++i)
    std::copy_n(p.out[column] + i * p.out_stride, kTileColumns, sums.values[i]);
}
void put_rows(const TileProduct& p, std::int64_t column, const Sums& sums) {
  for (std::int64_t i = 0; i < p.rows; ++i)
    std::copy_n(sums.values[i], kTileColumns, p.out[column] + i * p.out_stride);
}

// Registers 0 and 1 have the sums of the first left tile with two columns, 2 and 3 those of the
// second.
template <bool kTwoRows, bool kTwoColumns>
PODIUM_AMX void multiply_columns(const TileProduct& p, std::int64_t column, float* first,
                                 float* second, std::int64_t stride) {
  const auto bytes = static_cast<std::int64_t>(stride * sizeof(float));
  if (p.continues) {
    load_tile<0>(first, bytes);
    if constexpr (kTwoColumns) load_tile<1>(second, bytes);
    if constexpr (kTwoRows) load_tile<2>(first + kTileRows * stride, bytes);
    if constexpr (kTwoRows && kTwoColumns) load_tile<3>(second + kTileRows * stride, bytes);
  } else {
    zero_tile<0>();
    if constexpr (kTwoColumns) zero_tile<1>();
    if constexpr (kTwoRows) zero_tile<2>();
    if constexpr (kTwoRows && kTwoColumns) zero_tile<3>();
  }
  const std::uint16_t *upper = p.left, *lower = p.left + p.left_stride;
  const std::uint16_t* const* right = p.right + column * p.runs;
  const std::int64_t runs = p.runs;
  for (std::int64_t run = 0; run < runs; ++run) {
    load_tile<4>(upper + run * kTileValues, kRowBytes);
    load_tile<6>(right[run], kRowBytes);
    add_products<0, 4, 6>();
    if constexpr (kTwoColumns) {
      load_tile<7>(right[runs + run], kRowBytes);
      add_products<1, 4, 7>();
    }
    if constexpr (kTwoRows) {
      load_tile<5>(lower + run * kTileValues, kRowBytes);
      add_products<2, 5, 6>();
      if constexpr (kTwoColumns) add_products<3, 5, 7>();
    }
  }
  store_tile<0>(first, bytes);
  if constexpr (kTwoColumns) store_tile<1>(second, bytes);
  if constexpr (kTwoRows) store_tile<2>(first + kTileRows * stride, bytes);
  if constexpr (kTwoRows && kTwoColumns) store_tile<3>(second + kTileRows * stride, bytes);
}

template <bool kTwoRows, bool kTwoColumns>
void multiply_some(const TileProduct& p, std::int64_t column) {
  if (p.rows % kTileRows == 0)
    return multiply_columns<kTwoRows, kTwoColumns>(
        p, column, p.out[column], kTwoColumns ? p.out[column + 1] : nullptr, p.out_stride);
  Sums sums[2] = {};
  for (int i = 0; i < 1 + int{kTwoColumns}; ++i)
    if (p.continues) take_rows(p, column + i, sums[i]);
  multiply_columns<kTwoRows, kTwoColumns>(p, column, sums[0].values[0], sums[1].values[0],
                                          kTileColumns);
  for (int i = 0; i < 1 + int{kTwoColumns}; ++i) put_rows(p, column + i, sums[i]);
}

template <bool kTwoRows>
void multiply_all(const TileProduct& p) {
  std::int64_t column = 0;
  for (; column + 2 <= p.columns; column += 2) multiply_some<kTwoRows, true>(p, column);
  if (column < p.columns) multiply_some<kTwoRows, false>(p, column);
}

PODIUM_AMX void configure_tiles() {
  TileConfiguration configuration;
  for (int i = 0; i < kRegisters; ++i) {
    configuration.row_bytes[i] = kRowBytes;
    configuration.rows[i] = kTileRows;
  }
  asm volatile("ldtilecfg (%0)" : : "r"(&configuration) : "memory");
}
PODIUM_AMX void release_tiles() { asm volatile("tilerelease"); }

}  // namespace

bool has_amx() {
  // Linux gives the memory for tile registers to those who ask (arch_prctl, number of the state).
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
    return (d & kBf16) != 0 && (d & kTile) != 0 &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

void multiply_tiles_by_amx(const TileProduct& product) {
  // In each call: the state of tiles is a thread's own, and one that is released costs a switch
  // between threads nothing.
  configure_tiles();
  product.rows > kTileRows ? multiply_all<true>(product) : multiply_all<false>(product);
  release_tiles();
}

}  // namespace podium::cpu

#else

namespace podium::cpu {

bool has_amx() { return false; }
void multiply_tiles_by_amx(const TileProduct&) {}

}  // namespace podium::cpu
#endif
