#include "backend/cpu/kernels/dropout.h"

#include <algorithm>
#include <array>

#include "base/numerics/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dropout.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<NativeTag>;
using Wide = hn::RepartitionToWide<Words>;
using Word = hn::Vec<Words>;

// Philox's state of as many counters as 64-bit lanes: a word stands in the lower half of each lane,
// where the 32 x 32 -> 64 bit product reads it; the upper half holds anything.
struct Counter {
  Word c0, c1, c2, c3;
};

HWY_INLINE void philox_rounds(Counter& c, std::array<std::uint32_t, 2> key) {
  const Words d;
  const Word multiplier0 = hn::Set(d, kPhiloxMultiplier0);
  const Word multiplier1 = hn::Set(d, kPhiloxMultiplier1);
  HWY_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const auto p0 = hn::MulEven(c.c0, multiplier0);
    const auto p1 = hn::MulEven(c.c2, multiplier1);
    c.c0 = hn::Xor(hn::Xor(hn::BitCast(d, hn::ShiftRight<32>(p1)), c.c1), hn::Set(d, key[0]));
    c.c1 = hn::BitCast(d, p1);
    c.c2 = hn::Xor(hn::Xor(hn::BitCast(d, hn::ShiftRight<32>(p0)), c.c3), hn::Set(d, key[1]));
    c.c3 = hn::BitCast(d, p0);
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
}

// The lower halves of `even` and `odd`, lane by lane in turn.
HWY_INLINE Word join(const Word& even, const Word& odd) {
  const Words d;
  const Wide wide;
  return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd))), even);
}

// `factor` where the word is at or above the threshold, else +0.
HWY_INLINE void store_factor(const Word& word, const Word& threshold, float factor, float* to) {
  const NativeTag d;
  const auto below = hn::BitCast(d, hn::VecFromMask(Words(), hn::Lt(word, threshold)));
  hn::StoreU(hn::AndNot(below, hn::Set(d, factor)), d, to);
}

// The masks of `groups` groups of four features of all images.
void mask_groups(const DropoutShape& shape, Range groups, const std::array<std::uint32_t, 2>& key,
                 std::uint32_t tag, std::uint32_t step, std::uint32_t first_example,
                 std::uint32_t threshold_word, float factor, float* mask) {
  const Words d;
  const Wide wide;
  const Word threshold = hn::Set(d, threshold_word);
  const int64_t blocks = blocks_of(shape.images);
  for (int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < kRegisters; ++i) {
      const auto first = first_example + static_cast<std::uint32_t>(b * kLanes + i * kNative);
      const Word example = hn::Iota(d, first);
      const Word odd_example = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, example)));
      for (int64_t g = groups.begin; g < groups.end; ++g) {
        const Word group = hn::Set(d, static_cast<std::uint32_t>(g));
        Counter even{group, example, hn::Set(d, step), hn::Set(d, tag)};
        Counter odd{group, odd_example, hn::Set(d, step), hn::Set(d, tag)};
        philox_rounds(even, key);
        philox_rounds(odd, key);
        const int64_t count = std::min<int64_t>(4, shape.features - 4 * g);
        float* to = mask + (b * shape.features + 4 * g) * kLanes + i * kNative;
        store_factor(join(even.c0, odd.c0), threshold, factor, to);
        if (count > 1) store_factor(join(even.c1, odd.c1), threshold, factor, to + kLanes);
        if (count > 2) store_factor(join(even.c2, odd.c2), threshold, factor, to + 2 * kLanes);
        if (count > 3) store_factor(join(even.c3, odd.c3), threshold, factor, to + 3 * kLanes);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(mask_groups);

int dropout_mask_parts(const DropoutShape& shape) {
  return parts_of((shape.features + 3) / 4, padded(shape.images), 4096);
}
void dropout_mask(const DropoutShape& shape, std::uint64_t seed, std::uint32_t layer,
                  std::uint32_t step, std::uint32_t first_example, float* mask, int part) {
  const PhiloxStream stream(seed, RandomPurpose::kDropout, layer);
  const auto threshold = static_cast<std::uint32_t>(static_cast<double>(shape.rate) * 4294967296.0);
  const float factor = 1.0f / (1.0f - shape.rate);
  const Range groups = share_of((shape.features + 3) / 4, dropout_mask_parts(shape), part);
  PODIUM_DISPATCH(mask_groups)
  (shape, groups, stream.key(), stream.tag(), step, first_example, threshold, factor, mask);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
