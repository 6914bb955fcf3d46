#include "data/pictures/prepare/colour.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/pictures/prepare/draws.h"

namespace podium {
namespace {

constexpr std::int32_t kOne = 65536, kHalf = 32768;
constexpr std::int32_t kCircle = 1536, kSector = 256;

// Uniform in [-most, most).
double symmetric_factor(std::uint32_t word, float most) {
  return static_cast<double>(most) * (2 * (static_cast<double>(word) * 0x1p-32) - 1);
}
std::int32_t factor(std::uint32_t word, float amount) {
  return static_cast<std::int32_t>(std::nearbyint((1 + symmetric_factor(word, amount)) * kOne));
}

std::int32_t luminance(std::int32_t r, std::int32_t g, std::int32_t b) {
  return (19595 * r + 38470 * g + 7471 * b + kHalf) >> 16;
}

std::uint8_t mix(std::int32_t towards, std::int32_t v, std::int32_t f) {
  return static_cast<std::uint8_t>(
      std::clamp((kOne * towards + f * (v - towards) + kHalf) >> 16, 0, 255));
}

void turn(std::int32_t steps, std::uint8_t& r, std::uint8_t& g, std::uint8_t& b) {
  const std::int32_t most = std::max({r, g, b}), least = std::min({r, g, b}), span = most - least;
  if (span == 0) return;
  const auto part = [&](std::int32_t up, std::int32_t down) {
    return (kSector * (up - down) + (up >= down ? span / 2 : -(span / 2))) / span;
  };
  std::int32_t place = most == r   ? part(g, b)
                       : most == g ? 2 * kSector + part(b, r)
                                   : 4 * kSector + part(r, g);
  place = (place + steps + 2 * kCircle) % kCircle;
  const std::int32_t within = (span * (place % kSector) + kSector / 2) / kSector;
  const auto high = static_cast<std::uint8_t>(most), low = static_cast<std::uint8_t>(least),
             rising = static_cast<std::uint8_t>(least + within),
             falling = static_cast<std::uint8_t>(most - within);
  switch (place / kSector) {
    case 0: r = high, g = rising, b = low; break;
    case 1: r = falling, g = high, b = low; break;
    case 2: r = low, g = high, b = rising; break;
    case 3: r = low, g = falling, b = high; break;
    case 4: r = rising, g = low, b = high; break;
    default: r = high, g = low, b = falling; break;
  }
}

}  // namespace

bool changes_colours(const AugmentOptions& options) {
  return options.brightness != 0 || options.contrast != 0 || options.saturation != 0 ||
         options.hue != 0;
}

void change_colours(const AugmentOptions& options, const ExampleKey& key, std::int64_t channels,
                    std::int64_t pixels, std::uint8_t* image) {
  PODIUM_CHECK(channels == 1 || channels == 3, channels);
  const PhiloxBlock words = Draws(key, AugmentKind::kColour).block(0);
  const bool colour = channels == 3;
  std::uint8_t *const r = image, *const g = colour ? image + pixels : image,
                      *const b = colour ? image + 2 * pixels : image;
  if (options.brightness != 0) {
    const std::int32_t f = factor(words[0], options.brightness);
    for (std::int64_t i = 0; i < channels * pixels; ++i) image[i] = mix(0, image[i], f);
  }
  if (options.contrast != 0) {
    const std::int32_t f = factor(words[1], options.contrast);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < pixels; ++i) sum += luminance(r[i], g[i], b[i]);
    const auto mean = static_cast<std::int32_t>((sum + pixels / 2) / pixels);
    for (std::int64_t i = 0; i < channels * pixels; ++i) image[i] = mix(mean, image[i], f);
  }
  if (options.saturation != 0 && colour) {
    const std::int32_t f = factor(words[2], options.saturation);
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::int32_t grey = luminance(r[i], g[i], b[i]);
      r[i] = mix(grey, r[i], f), g[i] = mix(grey, g[i], f), b[i] = mix(grey, b[i], f);
    }
  }
  if (options.hue != 0 && colour) {
    const auto steps = static_cast<std::int32_t>(
        std::nearbyint(symmetric_factor(words[3], options.hue) * kCircle));
    for (std::int64_t i = 0; i < pixels; ++i) turn(steps, r[i], g[i], b[i]);
  }
}

}  // namespace podium
