// The hash of tensors by which runs are compared. Within a tensor it does not depend on the order
// of computation, so any number of workers can share the work. It is simple enough to be computed
// by other programs (docs/numerics.md has it in Python):
//
//   words   u[0], u[1], ...   the tensor's FP32 bits in its file layout (row-major), an odd count
//                             padded with one 0
//   keys    k[i]   = (i + 1) * 0x9E3779B1 mod 2^32
//   sum            = sum over j of a[2j] * a[2j+1] mod 2^64, a[i] = u[i] + k[i] mod 2^32
//   tensor         = mix(sum + count), mix = the finaliser of SplitMix64
//   all            = h := 0; for each tensor in order: h := mix(h * 0x9E3779B97F4A7C15 + tensor)
//
// The sum is that of NH (Black et al., UMAC, CRYPTO 1999). It detects accidents, not attacks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/stop.h"

namespace podium {

// The finaliser of SplitMix64.
constexpr std::uint64_t hash_mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The partial sum over words [first, first + values.size()) of a tensor; `first` must be even. Sums
// of disjoint shares add (mod 2^64) to the sum of the whole.
std::uint64_t hash_sum(std::span<const float> values, std::uint64_t first = 0);

// The hash of bytes as those of a tensor of 32-bit words, little-endian, padded with zeros. Throws
// Stopped as `stop` says.
std::uint64_t hash_bytes(std::span<const std::uint8_t> bytes, StopToken stop = {});

// The hash of a tensor of `count` words, from the sum over all of them.
constexpr std::uint64_t hash_tensor(std::uint64_t sum, std::uint64_t count) {
  return hash_mix(sum + count);
}
// The hash of a list of tensors, from that of the list without its last one, `tensor`.
constexpr std::uint64_t hash_append(std::uint64_t all, std::uint64_t tensor) {
  return hash_mix(all * 0x9E3779B97F4A7C15ull + tensor);
}
// Sixteen lower-case hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace podium
