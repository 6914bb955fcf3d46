// Colour jitter: random brightness, contrast, saturation and hue of a training image, in integers,
// in this order (docs/numerics.md, Photographs):
//
//   brightness  v = mix(0, v)                      v + (v - towards) (f - 1), rounded, kept a byte
//   contrast    v = mix(m, v)                      m: the mean of the image's luminance, rounded
//   saturation  v = mix(l, v)                      l: the pixel's luminance
//   hue         turns the colour circle of 1,536 steps; luminance may change, as in HSV
//
// with mix(t, v) = (65536 t + F (v - t) + 32768) >> 16 and F = round(65536 f). The luminance is
// (19595 r + 38470 g + 7471 b + 32768) >> 16. f is drawn uniformly from 1 - amount to 1 + amount,
// the turn from -hue to hue of the circle.
#pragma once

#include <cstdint>

#include "data/pictures/prepare/augment.h"

namespace podium {

// Whether the options change colours.
bool changes_colours(const AugmentOptions& options);

// Changes an image [channels, pixels] in place; of 1 or 3 channels.
void change_colours(const AugmentOptions& options, const ExampleKey& key, std::int64_t channels,
                    std::int64_t pixels, std::uint8_t* image);

}  // namespace podium
