// The roof of one core: what its arithmetic and its memory can do at best, measured. Benchmarks
// print what they reach over it.
#pragma once

#include <cstdint>

namespace podium::cpu {

// FP32 operations per second in fused multiply-adds from registers alone, with the target in use.
// Takes about 20 ms.
double fma_peak();

// Bytes read and written per second by a copy of `bytes` bytes, repeated: choose a size that fits
// the cache in question. Takes about 20 ms.
double copy_bandwidth(std::int64_t bytes);

// Sizes for a copy within a usual L2 cache, and for one far beyond it. A much larger one would
// measure page tables and what else the machine does: on a virtual machine, 64 MiB gave 4 to 27
// GB/s within a minute, and 8 MiB 28 to 30.
inline constexpr std::int64_t kNearCopy = 256 << 10, kFarCopy = 8 << 20;

}  // namespace podium::cpu
