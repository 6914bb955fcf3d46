#include "backend/cpu/kernels/roof.h"

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels/best_rate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/roof.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

inline constexpr int kChains = 12;  // enough for two units of four cycles' latency

// Returns the operations done; *sink keeps the compiler from leaving them out.
double multiply_add(int64_t rounds, float* sink) {
  Native acc[kChains];
  HWY_UNROLL(12)
  for (int j = 0; j < kChains; ++j) acc[j] = hn::Set(NativeTag(), static_cast<float>(j));
  const Native a = hn::Set(NativeTag(), 0.5f), b = hn::Set(NativeTag(), 1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
    HWY_UNROLL(12)
    for (int j = 0; j < kChains; ++j) acc[j] = hn::MulAdd(acc[j], a, b);
  }
  for (int j = 0; j < kChains; ++j) hn::StoreU(acc[j], NativeTag(), sink + j * kNative);
  return 2.0 * kChains * kNative * static_cast<double>(rounds);
}

void copy(int64_t floats, const float* from, float* to) {
  for (int64_t i = 0; i < floats; i += kLanes) store16(to + i, load16(from + i));
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(multiply_add);
HWY_EXPORT(copy);

double fma_peak() {
  std::vector<float> sink(256);
  return best_rate([&] { return PODIUM_DISPATCH(multiply_add)(20000, sink.data()); });
}

double copy_bandwidth(std::int64_t bytes) {
  const std::int64_t floats = std::max<std::int64_t>(bytes / 8 / kLanes, 1) * kLanes;
  std::vector<float> from(static_cast<std::size_t>(floats)), to(from);
  const std::int64_t rounds = std::max<std::int64_t>(1, (1 << 20) / floats);
  return best_rate([&] {
    for (std::int64_t i = 0; i < rounds; ++i) {
      PODIUM_DISPATCH(copy)(floats, from.data(), to.data());
    }
    return 8.0 * static_cast<double>(floats * rounds);
  });
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
