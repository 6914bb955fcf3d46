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

// The same without a table, for sets of any size: where `place` of `epoch` goes, a bijection of
// [0, count). Six rounds of a Feistel network on the smallest even number of bits, 2 h, that hold
// count - 1, repeated until the result is below `count`:
//
//   (left, right) = the high and the low h bits of place
//   round r = 0, ..., 5: (left, right) = (right, left ^ low h bits of word)
//     word = PhiloxStream(seed, kPermute).block(right, epoch, r)[0]
//
// `count` is at most 2^62, `epoch` below 2^32.
std::int64_t permuted(std::uint64_t seed, std::int64_t epoch, std::int64_t count,
                      std::int64_t place);

}  // namespace podium
