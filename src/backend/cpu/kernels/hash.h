// The hash of a range of a tensor (contract `hash_sum`; base/numerics/hash.h).
#pragma once

#include <cstdint>

namespace podium::cpu {

// Parts of 65536 words. The sum of each part's words goes to sums[part]; their sum mod 2^64 is that
// of base/numerics/hash.h's hash_sum({x, count}, first).
int hash_parts(std::int64_t count);
void hash_part(std::int64_t count, std::uint64_t first, const float* x, std::uint64_t* sums,
               int part);

}  // namespace podium::cpu
