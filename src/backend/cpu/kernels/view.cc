// Copies of pixels, which need no vector target: the compiler's own reach the speed of memory.
#include "backend/cpu/kernels/view.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {
namespace {

// Pixels of kWide floats.
template <int kWide>
void copy_row(const ViewPixels& pixels, std::int64_t width, const float* row, float* out) {
  const std::int64_t from = pixels.from();
  // The places of the view, before it is mirrored, that the image covers; beside them is at most
  // one, the first or the last.
  const std::int64_t begin = std::max<std::int64_t>(0, -from),
                     end = width - std::max<std::int64_t>(0, from);
  const auto copy = [&](std::int64_t x, std::int64_t column) {
    std::memcpy(out + x * kWide, row + column * kWide, kWide * sizeof(float));
  };
  if (pixels.mirrors()) {
    for (std::int64_t i = begin; i < end; ++i) copy(width - 1 - i, i + from);
  } else {
    std::memcpy(out + begin * kWide, row + (begin + from) * kWide,
                static_cast<std::size_t>((end - begin) * kWide) * sizeof(float));
  }
  if (from == 0) return;
  const std::int64_t bare = begin > 0 ? 0 : width - 1;
  const std::int64_t x = pixels.mirrors() ? width - 1 - bare : bare;
  copy(x, pixels.column(x, width));
}

}  // namespace

int view_parts(const ViewShape& shape) {
  return parts_of(shape.planes, shape.height * shape.width * (shape.lanes ? kLanes : 1), 16384);
}
void view(const ViewShape& shape, const ViewPixels& pixels, const float* x, float* y, int part) {
  const Range planes = share_of(shape.planes, view_parts(shape), part);
  const std::int64_t row = shape.width * (shape.lanes ? kLanes : 1);
  for (std::int64_t plane = planes.begin; plane < planes.end; ++plane) {
    for (std::int64_t line = 0; line < shape.height; ++line) {
      const float* from = x + (plane * shape.height + pixels.row(line, shape.height)) * row;
      float* to = y + (plane * shape.height + line) * row;
      if (shape.lanes)
        copy_row<kLanes>(pixels, shape.width, from, to);
      else
        copy_row<1>(pixels, shape.width, from, to);
    }
  }
}

}  // namespace podium::cpu
