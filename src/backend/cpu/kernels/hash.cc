#include "backend/cpu/kernels/hash.h"

#include <algorithm>

#include "base/numerics/hash.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/hash.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Of `count` words, a multiple of sixteen, the first of which has the key `key`.
std::uint64_t hash_words(int64_t count, std::uint32_t key, const float* x) {
  const hn::RebindToUnsigned<NativeTag> d;
  const hn::Repartition<std::uint64_t, decltype(d)> wide;
  constexpr std::uint32_t kStep = 0x9E3779B1u;
  auto keys = hn::Add(hn::Mul(hn::Iota(d, 0), hn::Set(d, kStep)), hn::Set(d, key));
  const auto next = hn::Set(d, static_cast<std::uint32_t>(kNative) * kStep);
  auto sum = hn::Zero(wide);
  for (int64_t i = 0; i < count; i += kNative) {
    fetch_to_l2(x + i + kPassAhead);
    const auto words = hn::Add(hn::BitCast(d, hn::LoadU(NativeTag(), x + i)), keys);
    // A pair is one wide lane: its first word is the low half.
    const auto second = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, words)));
    sum = hn::Add(sum, hn::MulEven(words, second));
    keys = hn::Add(keys, next);
  }
  HWY_ALIGN std::uint64_t lanes[kNative / 2];
  hn::Store(sum, wide, lanes);
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(hash_words);

namespace {
constexpr std::int64_t kHashPart = 65536;
}

int hash_parts(std::int64_t count) {
  return count <= kHashPart ? 1 : static_cast<int>((count + kHashPart - 1) / kHashPart);
}
void hash_part(std::int64_t count, std::uint64_t first, const float* x, std::uint64_t* sums,
               int part) {
  const std::int64_t begin = part * kHashPart, words = std::min(kHashPart, count - begin),
                     whole = words / kLanes * kLanes;
  const std::uint64_t place = first + static_cast<std::uint64_t>(begin);
  const auto rest = static_cast<std::size_t>(words - whole);
  sums[part] = PODIUM_DISPATCH(hash_words)(
                   whole, static_cast<std::uint32_t>(place + 1) * 0x9E3779B1u, x + begin) +
               hash_sum({x + begin + whole, rest}, place + static_cast<std::uint64_t>(whole));
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
