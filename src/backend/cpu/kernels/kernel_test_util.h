// What the kernels' tests share: random numbers, both layouts, comparison of bits, all targets of
// the machine. The expected values are written out in each test from docs/numerics.md in scalar
// code, apart from the operations' reference loops.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/targets.h"
#include "base/error.h"

namespace podium::cpu {

using Floats = std::vector<float>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline const std::int64_t kImageCounts[] = {1, 3, 7, 16, 17, 32, 85, 256};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(engine_);
  }
  // About one in sixteen is a zero of either sign.
  float number() {
    const float x = std::normal_distribution<float>()(engine_);
    const std::int64_t kind = pick(0, 31);
    return kind == 0 ? 0.0f : kind == 1 ? -0.0f : x;
  }
  Floats numbers(std::int64_t count) {
    Floats out(static_cast<std::size_t>(count));
    for (float& x : out) x = number();
    return out;
  }
  Floats positive_numbers(std::int64_t count) {
    Floats out = numbers(count);
    for (float& x : out) x = std::abs(x) + 0.01f;
    return out;
  }
  std::int64_t image_count() { return kImageCounts[pick(0, 7)]; }

 private:
  std::mt19937 engine_;
};

// plain [N][F] to lanes, with NaN in the padding.
inline Floats to_lanes(const Floats& plain, std::int64_t images) {
  const std::int64_t features = static_cast<std::int64_t>(plain.size()) / images;
  Floats lanes(static_cast<std::size_t>(padded(images) * features), kNan);
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t f = 0; f < features; ++f) {
      lanes[(n / kLanes * features + f) * kLanes + n % kLanes] = plain[n * features + f];
    }
  }
  return lanes;
}
inline Floats from_lanes(const Floats& lanes, std::int64_t images) {
  const std::int64_t features = static_cast<std::int64_t>(lanes.size()) / padded(images);
  Floats plain(static_cast<std::size_t>(images * features));
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t f = 0; f < features; ++f) {
      plain[n * features + f] = lanes[(n / kLanes * features + f) * kLanes + n % kLanes];
    }
  }
  return plain;
}

// Equal bits; any NaN equals any other.
inline void expect_same(const Floats& got, const Floats& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << what << " at " << i << ": got " << got[i] << ", want " << want[i];
  }
}

// An output of `count` floats, with a guard on both sides that no kernel may touch.
class Guarded {
 public:
  explicit Guarded(std::int64_t count)
      : memory_(static_cast<std::size_t>(count + 2 * kGuard), kMark) {}
  float* data() { return memory_.data() + kGuard; }
  Floats take(const std::string& what) {
    for (std::int64_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(memory_[i], kMark) << what << " wrote before its output";
      EXPECT_EQ(memory_[memory_.size() - 1 - i], kMark) << what << " wrote behind its output";
    }
    return Floats(memory_.begin() + kGuard, memory_.end() - kGuard);
  }

 private:
  static constexpr std::int64_t kGuard = 32;
  static constexpr float kMark = 1234567.0f;
  Floats memory_;
};

// Runs the parts from the last to the first: their order must not matter.
inline void run_parts(int parts, const std::function<void(int)>& part) {
  ASSERT_GE(parts, 1);
  for (int p = parts; p-- > 0;) part(p);
}

// Calls body(target name) with each of the machine's targets in use.
inline void for_each_target(const std::function<void(const std::string&)>& body) {
  const std::string before = vector_target();
  for (const std::string& target : vector_targets()) {
    set_vector_target(target);
    body(target);
    if (::testing::Test::HasFatalFailure()) break;
  }
  set_vector_target(before);
}

// tree(L[0..16)).
inline float lane_tree(const float* lanes, std::int64_t count = kLanes) {
  if (count == 1) return lanes[0];
  return lane_tree(lanes, count / 2) + lane_tree(lanes + count / 2, count / 2);
}
// Image sum of partials P[n]; also the class sum.
inline float image_sum_of(const Floats& partials) {
  float lanes[kLanes] = {};
  for (std::size_t n = 0; n < partials.size(); ++n) {
    lanes[n % kLanes] = lanes[n % kLanes] + partials[n];
  }
  return lane_tree(lanes);
}
// Image sum of pixel sums over channel c of plain [N, C, H, W]; link(acc, i) continues a chain with
// element i.
inline float channel_sum_of(const ActivationShape& s, std::int64_t c,
                            const std::function<float(float, std::int64_t)>& link) {
  Floats partials;
  for (std::int64_t n = 0; n < s.images; ++n) {
    float chain[4] = {};
    for (std::int64_t th = 0; th < (s.height + 3) / 4; ++th) {
      for (std::int64_t tw = 0; tw < (s.width + 3) / 4; ++tw) {
        for (std::int64_t r = 0; r < 4; ++r) {
          for (std::int64_t j = 0; j < 4; ++j) {
            const std::int64_t h = 4 * th + r, w = 4 * tw + j;
            if (h >= s.height || w >= s.width) continue;
            chain[j] = link(chain[j], ((n * s.channels + c) * s.height + h) * s.width + w);
          }
        }
      }
    }
    partials.push_back((chain[0] + chain[1]) + (chain[2] + chain[3]));
  }
  return image_sum_of(partials);
}

inline std::string name(const ActivationShape& s) {
  return cat("[", s.images, ", ", s.channels, ", ", s.height, ", ", s.width, "]");
}
inline ActivationShape random_activation(Random& random) {
  ActivationShape shape{random.image_count(), random.pick(1, 40), 1, 1};
  if (random.pick(0, 1) == 1) {
    shape.channels = random.pick(1, 7);
    shape.height = random.pick(1, 11);
    shape.width = random.pick(1, 11);
  }
  return shape;
}

}  // namespace podium::cpu
