// The order in which an epoch visits the examples: a pure function of (seed, epoch, count), so that
// there is no loader state to save and an outside program can recompute it:
//
//   order = 0, 1, ..., count - 1
//   for i = count - 1 down to 1: swap order[i] with order[j],
//     j = (word(i) * (i + 1)) >> 32, word(i) = PhiloxStream(seed, kShuffle).word(i, epoch)
//
// (Fisher and Yates; the bias of j is below count / 2^32.)
#pragma once

#include <cstdint>
#include <vector>

namespace podium {

// `count` and `epoch` are below 2^32.
std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count);

}  // namespace podium
