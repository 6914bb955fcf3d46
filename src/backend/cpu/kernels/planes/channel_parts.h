// How the kernels that go channel by channel are cut: a part owns channels, whole groups of sixteen
// where a channel is one pixel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

constexpr std::int64_t channel_unit(const ActivationShape& shape) {
  return shape.pixels() == 1 ? kLanes : 1;
}
// At least 16384 values to a part.
constexpr int channel_parts(const ActivationShape& shape) {
  const std::int64_t unit = channel_unit(shape);
  return parts_of((shape.channels + unit - 1) / unit, unit * shape.pixels() * padded(shape.images),
                  16384);
}
constexpr Range part_channels(const ActivationShape& shape, int part) {
  const std::int64_t unit = channel_unit(shape);
  const Range units = share_of((shape.channels + unit - 1) / unit, channel_parts(shape), part);
  return {units.begin * unit, std::min(units.end * unit, shape.channels)};
}

}  // namespace podium::cpu
