#include "data/pictures/prepare/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/resize_pixels.h"
#include "base/error.h"

namespace podium {
namespace {

constexpr std::int32_t kRounding = 1 << (cpu::kResizeBits - 1);

// Memory that is kept for the next picture.
struct Scratch {
  std::vector<std::uint8_t> rows, row;  // pixels of four bytes: all, of which the columns have been
                                        // resized, and one row of the output
  std::vector<std::int64_t> starts;     // of backend/cpu/kernels/resize_pixels.h, as the others
  std::vector<std::int16_t> column_weights;
  std::vector<std::int32_t> row_weights, padded;
};

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The high or the low parts of two weights, as two numbers of 16 bits.
std::int32_t high_pair(std::int32_t a, std::int32_t b) {
  return (a >> cpu::kLowBits) | (b >> cpu::kLowBits) << 16;
}
std::int32_t low_pair(std::int32_t a, std::int32_t b) {
  constexpr std::int32_t kMask = (1 << cpu::kLowBits) - 1;
  return (a & kMask) | (b & kMask) << 16;
}

// For rows of `pixels` pixels, the first of which is `left`.
void prepare_columns(const ResizeAxis& columns, std::int64_t left, std::int64_t pixels,
                     std::int64_t groups, Scratch& scratch) {
  const std::int64_t blocks = cpu::resize_blocks(), width = columns.size(),
                     all = rounded_up(width, blocks), window = groups * cpu::kPixelGroup;
  scratch.starts.resize(static_cast<std::size_t>(all));
  scratch.column_weights.resize(static_cast<std::size_t>(all * groups * 4 * 8));
  scratch.padded.resize(static_cast<std::size_t>(window));
  for (std::int64_t x = 0; x < all; ++x) {
    const auto column = static_cast<std::size_t>(std::min(x, width - 1));
    // Nothing is read beyond the row.
    const std::int64_t first = columns.first[column] - left,
                       start = std::min(first, pixels - window);
    scratch.starts[static_cast<std::size_t>(x)] = 4 * start;
    std::ranges::fill(scratch.padded, 0);
    std::copy_n(columns.weights.begin() + static_cast<std::ptrdiff_t>(column) * columns.taps,
                columns.used[column], scratch.padded.begin() + (first - start));
    for (std::int64_t k = 0; k < window; k += 2) {
      const std::int32_t *const w = scratch.padded.data() + k,
                                both[] = {high_pair(w[0], w[1]), low_pair(w[0], w[1])};
      for (std::int64_t part = 0; part < 2; ++part) {
        std::int16_t* to =
            scratch.column_weights.data() +
            (((x / blocks * groups * 2 + k / 2) * 2 + part) * blocks + x % blocks) * 8;
        for (int channel = 0; channel < 4; ++channel, to += 2)
          std::memcpy(to, &both[part], sizeof both[part]);
      }
    }
  }
}

// A row that is narrower than what the vectors read.
void resize_narrow_row(const std::uint8_t* row, const ResizeAxis& columns, std::int64_t left,
                       std::uint8_t* to) {
  for (std::int64_t x = 0; x < columns.size(); ++x) {
    const auto column = static_cast<std::size_t>(x);
    const std::int32_t* const weights = columns.weights.data() + x * columns.taps;
    for (std::int64_t c = 0; c < 4; ++c) {
      std::int32_t sum = kRounding;
      for (std::int64_t k = 0; k < columns.used[column]; ++k)
        sum += row[4 * (columns.first[column] - left + k) + c] * weights[k];
      to[4 * x + c] = static_cast<std::uint8_t>(std::min(sum >> cpu::kResizeBits, 255));
    }
  }
}

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
          static_cast<std::int32_t>(0.5 + weight * (1 << cpu::kResizeBits));
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
  const std::int64_t height = rows.end - rows.begin, width = columns.size(),
                     bytes = rounded_up(4 * width, cpu::resize_row_bytes()),
                     most = *std::ranges::max_element(columns.used),
                     groups = (most + cpu::kPixelGroup - 1) / cpu::kPixelGroup;
  const bool narrow = groups * cpu::kPixelGroup > area.width;
  scratch.rows.resize(static_cast<std::size_t>(height * bytes));
  scratch.row.resize(static_cast<std::size_t>(bytes));
  scratch.row_weights.resize(static_cast<std::size_t>(rows.taps + 1));
  if (!narrow) prepare_columns(columns, area.left, area.width, groups, scratch);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* const row = pixels.row(rows.begin - area.top + y);
    std::uint8_t* const to = scratch.rows.data() + y * bytes;
    if (narrow) {
      resize_narrow_row(row, columns, area.left, to);
    } else {
      cpu::resize_columns(row, width, groups, scratch.starts.data(), scratch.column_weights.data(),
                          to);
    }
  }
  for (std::int64_t y = 0; y < rows.size(); ++y) {
    const auto i = static_cast<std::size_t>(y);
    const std::int32_t *const weights = rows.weights.data() + y * rows.taps, used = rows.used[i];
    for (std::int32_t k = 0; k < used; k += 2) {
      const std::int32_t next = k + 1 < used ? weights[k + 1] : 0;
      scratch.row_weights[static_cast<std::size_t>(k)] = high_pair(weights[k], next);
      scratch.row_weights[static_cast<std::size_t>(k) + 1] = low_pair(weights[k], next);
    }
    cpu::resize_rows(scratch.rows.data() + (rows.first[i] - rows.begin) * bytes, bytes, used,
                     scratch.row_weights.data(), scratch.row.data());
    cpu::split_pixels(scratch.row.data(), width, rows.size() * width, out + y * width);
  }
}

}  // namespace podium
