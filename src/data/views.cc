#include "data/views.h"

#include <algorithm>

#include "base/error.h"

namespace podium {

int view_count(std::int64_t views) {
  PODIUM_REQUIRE(std::ranges::find(kViewCounts, views) != kViewCounts.end(), ExitCode::kUsage,
                 "`evaluation.views` = ", views, "; it must be 1, 2 or 6");
  return static_cast<int>(views);
}

float view_weight(std::int64_t views, int i) {
  PODIUM_CHECK(i >= 0 && i < view_count(views), views, " ", i);
  if (views == 1) return 1.0f;
  if (views == 2) return 0.5f;
  return i < 2 ? 0.25f : 0.125f;
}

void make_view(std::int64_t views, int i, std::int64_t channels, std::int64_t height,
               std::int64_t width, const float* in, float* out) {
  PODIUM_CHECK(i >= 0 && i < view_count(views), views, " ", i);
  PODIUM_CHECK(views != 6 || (height > 1 && width > 1), height, " ", width);
  const ViewPixels pixels(i);
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      const float* const row = in + (c * height + pixels.row(y, height)) * width;
      for (std::int64_t x = 0; x < width; ++x) *out++ = row[pixels.column(x, width)];
    }
  }
}

}  // namespace podium
