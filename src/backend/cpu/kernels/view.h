// Views of images in evaluation (contract `view`; base/numerics/view.h).
#pragma once

#include <cstdint>

#include "base/numerics/view.h"

namespace podium::cpu {

// Planes one after the other, of pixels of one float, or of kLanes where the images are in lanes.
struct ViewShape {
  std::int64_t planes = 0, height = 0, width = 0;
  bool lanes = false;
};
int view_parts(const ViewShape& shape);
void view(const ViewShape& shape, const ViewPixels& pixels, const float* x, float* y, int part);

}  // namespace podium::cpu
