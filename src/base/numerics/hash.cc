#include "base/numerics/hash.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace podium {

std::uint64_t hash_sum(std::span<const float> values, std::uint64_t first) {
  PODIUM_CHECK(first % 2 == 0);
  constexpr std::uint32_t kStep = 0x9E3779B1u;
  const std::size_t pairs = values.size() / 2;
  std::uint64_t sum = 0;
  // Plain enough for the compiler to vectorise: 32 x 32 -> 64 bit products, eight bytes a pair.
  const std::uint32_t key0 = static_cast<std::uint32_t>(first + 1) * kStep;
  for (std::size_t j = 0; j < pairs; ++j) {
    const std::uint32_t key = key0 + static_cast<std::uint32_t>(2 * j) * kStep;
    const std::uint32_t a = std::bit_cast<std::uint32_t>(values[2 * j]) + key;
    const std::uint32_t b = std::bit_cast<std::uint32_t>(values[2 * j + 1]) + (key + kStep);
    sum += std::uint64_t{a} * b;
  }
  if (values.size() % 2 != 0) {
    const std::uint32_t key = key0 + static_cast<std::uint32_t>(2 * pairs) * kStep;
    sum += std::uint64_t{std::bit_cast<std::uint32_t>(values.back()) + key} * (key + kStep);
  }
  return sum;
}

std::uint64_t hash_bytes(std::span<const std::uint8_t> bytes, StopToken stop) {
  constexpr std::size_t kWords = 4096;
  float words[kWords];
  std::uint64_t sum = 0;
  for (std::size_t first = 0; first < bytes.size(); first += sizeof words) {
    stop.check();
    const std::size_t n = std::min(bytes.size() - first, sizeof words);
    std::memset(words + n / 4, 0, n % 4 == 0 ? 0 : 4);
    std::memcpy(words, bytes.data() + first, n);
    sum += hash_sum({words, (n + 3) / 4}, first / 4);
  }
  return hash_tensor(sum, bytes.size());
}

std::string hash_text(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace podium
