#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace podium {
namespace {

constexpr int kBits = 22;
constexpr std::int32_t kRounding = 1 << (kBits - 1);

inline std::uint8_t to_byte(std::int32_t sum) {
  const std::int32_t value = sum >> kBits;  // not negative, as no weight is
  return static_cast<std::uint8_t>(value < 255 ? value : 255);
}

// Along the columns: pixels of four bytes become planes [3][rows][columns].
inline __attribute__((always_inline)) void columns_of_rows(const PicturePixels& pixels,
                                                           std::int64_t first_row,
                                                           std::int64_t rows,
                                                           const ResizeAxis& columns,
                                                           std::uint8_t* __restrict out) {
  const std::int64_t width = columns.size(), left = pixels.area.left, taps = columns.taps;
  const std::int32_t *const first = columns.first.data(), *const used = columns.used.data(),
                            *const all_weights = columns.weights.data();
  for (std::int64_t y = 0; y < rows; ++y) {
    const std::uint8_t* const row = pixels.row(first_row - pixels.area.top + y);
    std::uint8_t* const to = out + y * width;
    for (std::int64_t x = 0; x < width; ++x) {
      const std::uint8_t* from = row + 4 * (first[x] - left);
      const std::int32_t* const weights = all_weights + x * taps;
      // One by one: a compiler's vectors of four are slower.
      std::int32_t red = kRounding, green = kRounding, blue = kRounding;
      for (std::int32_t k = 0; k < used[x]; ++k, from += 4) {
        red += from[0] * weights[k];
        green += from[1] * weights[k];
        blue += from[2] * weights[k];
      }
      to[x] = to_byte(red);
      to[rows * width + x] = to_byte(green);
      to[2 * rows * width + x] = to_byte(blue);
    }
  }
}

// Along the rows, of one plane.
inline __attribute__((always_inline)) void rows_of_plane(const std::uint8_t* plane,
                                                         std::int64_t width, const ResizeAxis& rows,
                                                         std::int32_t* __restrict sums,
                                                         std::uint8_t* __restrict out) {
  for (std::int64_t y = 0; y < rows.size(); ++y) {
    const auto i = static_cast<std::size_t>(y);
    const std::uint8_t* from = plane + (rows.first[i] - rows.begin) * width;
    const std::int32_t* const weights = rows.weights.data() + y * rows.taps;
    for (std::int64_t x = 0; x < width; ++x) sums[x] = kRounding;
    for (std::int32_t k = 0; k < rows.used[i]; ++k, from += width)
      for (std::int64_t x = 0; x < width; ++x) sums[x] += from[x] * weights[k];
    for (std::int64_t x = 0; x < width; ++x) out[x] = to_byte(sums[x]);
    out += width;
  }
}

struct Scratch {
  std::vector<std::uint8_t> planes;
  std::vector<std::int32_t> sums;
};

inline __attribute__((always_inline)) void resize_body(const PicturePixels& pixels,
                                                       const ResizeAxis& rows,
                                                       const ResizeAxis& columns, Scratch& scratch,
                                                       std::uint8_t* out) {
  const std::int64_t height = rows.end - rows.begin, width = columns.size();
  columns_of_rows(pixels, rows.begin, height, columns, scratch.planes.data());
  for (std::int64_t c = 0; c < 3; ++c)
    rows_of_plane(scratch.planes.data() + c * height * width, width, rows, scratch.sums.data(),
                  out + c * rows.size() * width);
}

// Integers alone: every set of instructions gives the same bytes.
#if defined(__x86_64__)
__attribute__((target("avx2"))) void resize_avx2(const PicturePixels& pixels,
                                                 const ResizeAxis& rows, const ResizeAxis& columns,
                                                 Scratch& scratch, std::uint8_t* out) {
  resize_body(pixels, rows, columns, scratch, out);
}
#endif

}  // namespace

void make_resize_axis(double start, double extent, std::int64_t out_size, std::int64_t out_first,
                      std::int64_t out_count, ResizeAxis& axis) {
  PODIUM_CHECK(start >= 0 && extent > 0 && out_size >= 1 && out_first >= 0 && out_count >= 1 &&
                   out_first + out_count <= out_size,
               start, " ", extent, " ", out_size);
  const auto origin = static_cast<std::int64_t>(start);  // rounded down
  const auto in_size = static_cast<std::int64_t>(std::ceil(start + extent)) - origin;
  const double offset = start - static_cast<double>(origin);
  const double scale = extent / static_cast<double>(out_size);
  const double filter = scale < 1.0 ? 1.0 : scale;
  const double inverse = 1.0 / filter;
  axis.taps = 2 * static_cast<std::int64_t>(std::ceil(filter)) + 1;
  const auto count = static_cast<std::size_t>(out_count);
  axis.first.resize(count);
  axis.used.resize(count);
  axis.weights.assign(static_cast<std::size_t>(out_count * axis.taps), 0);
  axis.begin = in_size;
  axis.end = 0;
  std::vector<double> exact(static_cast<std::size_t>(axis.taps));
  for (std::int64_t i = 0; i < out_count; ++i) {
    const double centre = offset + (static_cast<double>(out_first + i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(centre - filter + 0.5), 0);
    const auto high =
        std::min<std::int64_t>(static_cast<std::int64_t>(centre + filter + 0.5), in_size);
    const std::int64_t used = high - low;
    PODIUM_CHECK(used >= 1 && used <= axis.taps, used);
    double sum = 0;
    for (std::int64_t k = 0; k < used; ++k) {
      const double distance = std::abs((static_cast<double>(k + low) - centre + 0.5) * inverse);
      exact[static_cast<std::size_t>(k)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += exact[static_cast<std::size_t>(k)];
    }
    for (std::int64_t k = 0; k < used; ++k) {
      double weight = exact[static_cast<std::size_t>(k)];
      if (sum != 0) weight /= sum;
      axis.weights[static_cast<std::size_t>(i * axis.taps + k)] =
          static_cast<std::int32_t>(0.5 + weight * (1 << kBits));
    }
    axis.first[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(origin + low);
    axis.used[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(used);
    axis.begin = std::min(axis.begin, low);
    axis.end = std::max(axis.end, high);
  }
  axis.begin += origin;
  axis.end += origin;
}

void resize(const PicturePixels& pixels, const ResizeAxis& rows, const ResizeAxis& columns,
            std::uint8_t* out) {
  const PictureArea& area = pixels.area;
  PODIUM_CHECK(rows.begin >= area.top && rows.end <= area.top + area.height &&
                   columns.begin >= area.left && columns.end <= area.left + area.width,
               rows.begin, " ", rows.end, " ", columns.begin, " ", columns.end);
  thread_local Scratch scratch;
  const std::int64_t planes = 3 * (rows.end - rows.begin) * columns.size();
  scratch.planes.resize(static_cast<std::size_t>(planes));
  scratch.sums.resize(static_cast<std::size_t>(columns.size()));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return resize_avx2(pixels, rows, columns, scratch, out);
#endif
  resize_body(pixels, rows, columns, scratch, out);
}

}  // namespace podium
