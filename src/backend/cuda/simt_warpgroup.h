// Products that the four warps of a warpgroup compute together (`wgmma`), of GPUs of compute
// capability 9.0 alone, by code that was made for `90a`. Both operands lie in shared memory, and
// the sums in registers. The warpgroup goes on while its products are computed:
//
//   wait_for_operands<N>();      // as wait_for_copies; then a barrier
//   begin_products();
//   add_warpgroup_products<kN, kColumns>(sums, a, b);  // any number
//   end_products();              // they are a group
//   wait_for_products<N>();      // of all groups but the last N, as for copies
//   take_sums(sums);             // of all
//
// Nothing may be written to operands, and sums may not be used, before their products have been
// waited for. Sources: NVIDIA's PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions".
#pragma once

#include <cstdint>

#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE::simt {

// Operands lie in lines of octets of BF16 numbers. Where an octet lies in its line depends on the
// line's number, so that those that are read together lie in different banks.
//
// With the terms of a row side by side: a line is 32 terms of one row, 64 bytes.
__device__ inline int place_in_row(int row, int octet) { return row * 4 + (octet ^ row / 2 % 4); }
// With columns side by side: a line is 64 columns of one term, 128 bytes; `lines` lines, then come
// those of the next 64 columns.
__device__ inline int place_in_column(int term, int octet, int lines) {
  return (octet / 8 * lines + term) * 8 + (octet % 8 ^ term % 8);
}

// What tells where an operand is, of lines that begin at a multiple of 1,024 bytes: the first of 16
// terms, of the first row or column.
__device__ inline std::uint64_t operand_at(const void* first, std::uint64_t swizzle, unsigned block,
                                           unsigned eight_lines) {
  return (shared_address(first) & 0x3ffffu) >> 4 | std::uint64_t{block >> 4} << 16 |
         std::uint64_t{eight_lines >> 4} << 32 | swizzle << 62;
}
__device__ inline std::uint64_t rows_at(const void* first) { return operand_at(first, 2, 16, 512); }
__device__ inline std::uint64_t columns_at(const void* first, int lines) {
  return operand_at(first, 1, static_cast<unsigned>(lines) * 128, 1024);
}

#ifndef PODIUM_CUDA_EMULATED
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = true;
#else
inline constexpr bool kHasWarpgroups = false;
#endif
// Whether this code can compute them.
__device__ inline bool has_warpgroup_code() { return kHasWarpgroups; }

// The operands that the thread has copied are there, for the products, too.
template <int kGroups>
__device__ inline void wait_for_operands() {
  wait_for_copies<kGroups>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void begin_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void end_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Between groups nothing may touch the sums' registers: ptxas would wait for each product.
template <int kGroups>
__device__ inline void wait_for_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
#endif
}
// Before the first group and after the last: what was written to the sums is there, what reads them
// comes later.
template <int kCount>
__device__ inline void settle(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int kCount>
__device__ inline void take_sums(float (&sums)[kCount]) {
  wait_for_products<0>();
  settle(sums);
}

// sums += a b: a has 64 rows of 16 terms, row by row; b 16 terms of kN columns, whose columns lie
// side by side with kColumns, else their terms. Warp w of the warpgroup has rows 16 w to 16 w + 15;
// of eight columns, a lane has the four sums that it has of simt::add_bf16_products.
template <int kN, bool kColumns>
__device__ inline void add_warpgroup_products(float (&d)[kN / 2], std::uint64_t a,
                                              std::uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define PODIUM_NAMES(ten)                                                                         \
  "%" ten "0, %" ten "1, %" ten "2, %" ten "3, %" ten "4, %" ten "5, %" ten "6, %" ten "7, %" ten \
  "8, %" ten "9, "
#define PODIUM_EIGHT(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define PODIUM_THIRTY_TWO(i) \
  PODIUM_EIGHT(i), PODIUM_EIGHT(i + 8), PODIUM_EIGHT(i + 16), PODIUM_EIGHT(i + 24)
  constexpr int kOrder = kColumns ? 1 : 0;
  if constexpr (kN == 256)
    asm volatile(
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" PODIUM_NAMES("") PODIUM_NAMES(
            "1") PODIUM_NAMES("2") PODIUM_NAMES("3") PODIUM_NAMES("4") PODIUM_NAMES("5")
            PODIUM_NAMES("6") PODIUM_NAMES("7") PODIUM_NAMES("8") PODIUM_NAMES("9")
                PODIUM_NAMES("10") PODIUM_NAMES("11") "%120, %121, %122, %123, %124, %125, %126, "
                                                      "%127}, %128, %129, p, 1, 1, 0, %130;\n}"
        : PODIUM_THIRTY_TWO(0), PODIUM_THIRTY_TWO(32), PODIUM_THIRTY_TWO(64), PODIUM_THIRTY_TWO(96)
        : "l"(a), "l"(b), "n"(kOrder));
  else
    asm volatile(
        "{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PODIUM_NAMES("") PODIUM_NAMES("1")
            PODIUM_NAMES("2") PODIUM_NAMES("3") PODIUM_NAMES("4")
                PODIUM_NAMES("5") "%60, %61, %62, %63}, %64, %65, p, 1, 1, 0, %66;\n}"
        : PODIUM_THIRTY_TWO(0), PODIUM_THIRTY_TWO(32)
        : "l"(a), "l"(b), "n"(kOrder));
#undef PODIUM_NAMES
#undef PODIUM_EIGHT
#undef PODIUM_THIRTY_TWO
#endif
}
#endif

}  // namespace podium::PODIUM_CUDA_SPACE::simt
