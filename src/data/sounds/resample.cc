// Samples at another rate: band-limited interpolation by a windowed sinc (Smith, Gossett 1984).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/numerics/functions.h"
#include "data/sounds/sound_file.h"

namespace podium {
namespace {

constexpr double kCrossings = 16;  // of the sinc on each side

double windowed_sinc(double t) {
  if (t == 0) return 1;
  if (std::abs(t) >= kCrossings) return 0;
  const double window = 0.5 + 0.5 * cos_2pi(t / (2 * kCrossings));
  return sin_2pi(t / 2) / (std::numbers::pi * t) * window;
}

// What the samples near a place `part` / `parts` after one of them weigh.
struct Weights {
  std::int64_t first = 0;  // of the samples, from the one before the place
  std::vector<double> of;
};

Weights weights_at(std::int64_t part, std::int64_t parts, double cutoff) {
  const double place = static_cast<double>(part) / static_cast<double>(parts);
  const auto reach = static_cast<std::int64_t>(std::ceil(kCrossings / cutoff));
  Weights weights{.first = 1 - reach, .of = {}};
  for (std::int64_t k = 1 - reach; k <= reach; ++k)
    weights.of.push_back(cutoff * windowed_sinc(cutoff * (static_cast<double>(k) - place)));
  return weights;
}

}  // namespace

Sound resampled(const Sound& sound, std::int64_t rate) {
  if (rate == sound.rate) return sound;
  const std::int64_t common = std::gcd(rate, sound.rate);
  const std::int64_t up = rate / common, down = sound.rate / common;
  const double cutoff = std::min(1.0, static_cast<double>(rate) / static_cast<double>(sound.rate));
  const std::int64_t count = std::ssize(sound.samples);
  std::vector<Weights> phases(static_cast<std::size_t>(up));
  Sound result{.rate = rate, .samples = {}};
  result.samples.reserve(static_cast<std::size_t>((count * up + down - 1) / down));
  for (std::int64_t n = 0; n * down < count * up; ++n) {
    const std::int64_t before = n * down / up, part = n * down % up;
    Weights& weights = phases[static_cast<std::size_t>(part)];
    if (weights.of.empty()) weights = weights_at(part, up, cutoff);
    double sum = 0;
    for (std::int64_t i = 0; i < std::ssize(weights.of); ++i) {
      const std::int64_t at = before + weights.first + i;
      if (at >= 0 && at < count)
        sum +=
            weights.of[static_cast<std::size_t>(i)] * sound.samples[static_cast<std::size_t>(at)];
    }
    result.samples.push_back(sum);
  }
  return result;
}

}  // namespace podium
