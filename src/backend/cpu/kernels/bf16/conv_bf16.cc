// The forward pass and the gradient to the images: rows of tiles are the channels that are made,
// columns the images of a block, terms the channels that are summed over. Where these come in
// whole runs of 32, a run is one tap of the kernel, so each pixel is packed once and then read by
// all taps. Otherwise runs hold the terms of several taps, and each pixel of the result gathers
// its own.
#include "backend/cpu/kernels/bf16/conv_bf16.h"

#include <algorithm>
#include <cstddef>

#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {
namespace {

// One direction of a phase: pixels of the result that meet the same taps. Pixel j of them takes
// from its tap i the pixel `origin + j * stride + i * step` of the source.
struct Axis {
  std::int64_t pixels, first_pixel, pixel_step;  // of the result
  std::int64_t taps, first_tap, tap_step;        // of the kernel
  std::int64_t origin, stride, step;             // in the source
};

Axis forward_axis(std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {out, 0, 1, kernel, 0, 1, -pad, stride, 1};
}
// Pixels of the images that are `phase` modulo the stride.
Axis backward_axis(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                   std::int64_t phase) {
  const std::int64_t first_tap = (phase + pad) % stride;
  return {(in - phase + stride - 1) / stride,
          phase,
          stride,
          std::max<std::int64_t>((kernel - first_tap + stride - 1) / stride, 0),
          first_tap,
          stride,
          (phase + pad - first_tap) / stride,
          1,
          -1};
}

constexpr std::int64_t kMostColumns = 64;     // of a part
constexpr std::int64_t kGatheredTiles = 512;  // of a part: half of a usual L2

constexpr std::int64_t tiles_of(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
constexpr std::int64_t runs_of(std::int64_t terms) { return (terms + kBf16Run - 1) / kBf16Run; }
constexpr std::int64_t whole_lines_of(std::int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}
template <typename T>
T* in_memory(float* memory) {
  return reinterpret_cast<T*>(memory);
}

// What is common to the two passes.
struct Pass {
  bool to_input;
  const ConvShape& s;
  std::int64_t rows, summed;  // channels
  std::int64_t source_h, source_w, out_h, out_w;

  Pass(const ConvShape& shape, bool is_to_input)
      : to_input(is_to_input),
        s(shape),
        rows(to_input ? s.in_channels : s.out_channels),
        summed(to_input ? s.out_channels : s.in_channels),
        source_h(to_input ? s.out_height : s.in_height),
        source_w(to_input ? s.out_width : s.in_width),
        out_h(to_input ? s.in_height : s.out_height),
        out_w(to_input ? s.in_width : s.out_width) {}

  bool gathers() const { return summed % kBf16Run != 0; }
  std::int64_t chunks() const { return summed / kBf16Run; }
  std::int64_t source_pixels() const { return source_h * source_w; }

  // Phases of pixels, of which a gradient has one for each pixel of the stride.
  std::int64_t phases() const { return to_input ? s.stride_height * s.stride_width : 1; }
  Axis vertical(std::int64_t phase) const {
    return to_input ? backward_axis(s.in_height, s.kernel_height, s.stride_height, s.pad_top,
                                    phase / s.stride_width)
                    : forward_axis(s.out_height, s.kernel_height, s.stride_height, s.pad_top);
  }
  Axis horizontal(std::int64_t phase) const {
    return to_input ? backward_axis(s.in_width, s.kernel_width, s.stride_width, s.pad_left,
                                    phase % s.stride_width)
                    : forward_axis(s.out_width, s.kernel_width, s.stride_width, s.pad_left);
  }
  std::int64_t runs(std::int64_t phase) const {
    return runs_of(summed * vertical(phase).taps * horizontal(phase).taps);
  }
  std::int64_t most_runs() const {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < phases(); ++i) most = std::max(most, runs(i));
    return most;
  }
  std::int64_t columns(std::int64_t phase) const {
    return s.blocks() * vertical(phase).pixels * horizontal(phase).pixels;
  }
  // Columns of a part.
  std::int64_t part_columns() const {
    if (!gathers()) return kMostColumns;
    return std::clamp<std::int64_t>(kGatheredTiles / std::max<std::int64_t>(most_runs(), 1), 2,
                                    kMostColumns);
  }
  std::int64_t parts(std::int64_t phase) const {
    return (columns(phase) + part_columns() - 1) / part_columns();
  }

  // Memory shared by all parts: the tiles of the weights, by phase, then those of the source.
  std::int64_t weight_tiles(std::int64_t phase) const { return tiles_of(rows) * runs(phase); }
  std::int64_t weights_before(std::int64_t phase) const {
    std::int64_t tiles = 0;
    for (std::int64_t i = 0; i < phase; ++i) tiles += weight_tiles(i);
    return tiles;
  }
  std::int64_t source_tiles() const {
    return gathers() ? 0 : s.blocks() * chunks() * source_pixels();
  }
  // A part's: addresses of tiles, where sums go, gathered tiles, and what products want.
  std::int64_t address_floats() const { return whole_lines_of(part_columns() * most_runs() * 2); }
  std::int64_t out_floats() const { return whole_lines_of(part_columns() * 2); }
  std::int64_t gathered_floats() const {
    return gathers() ? part_columns() * most_runs() * kTileFloats : 0;
  }
  // The weights' phase has one kernel row in BF16 there.
  std::int64_t scratch_floats() const {
    const std::int64_t row =
        whole_lines_of(std::max(summed, kTileRows * std::int64_t{1}) * s.taps());
    return std::max(
        row, address_floats() + out_floats() + gathered_floats() + tile_scratch(most_runs()));
  }

  ConvWork work() const {
    ConvWork work;
    work.parts[work.phases++] = static_cast<int>(phases() * tiles_of(rows));
    if (!gathers()) work.parts[work.phases++] = static_cast<int>(s.blocks() * chunks());
    std::int64_t parts_of_all = 0;
    for (std::int64_t i = 0; i < phases(); ++i) parts_of_all += parts(i);
    work.parts[work.phases++] = static_cast<int>(parts_of_all);
    work.shared = (weights_before(phases()) + source_tiles()) * kTileFloats;
    work.scratch = scratch_floats();
    return work;
  }

  void pack_weights(const float* w, float* shared, float* scratch, std::int64_t part) const;
  void pack_source(const float* source, float* shared, std::int64_t part) const;
  void multiply(const float* source, float* out, float* shared, float* scratch,
                std::int64_t part) const;
  void run(const float* source, const float* w, float* out, float* shared, float* scratch,
           int phase, int part) const {
    if (phase == 0) return pack_weights(w, shared, scratch, part);
    if (phase == 1 && !gathers()) return pack_source(source, shared, part);
    multiply(source, out, shared, scratch, part);
  }
};

// Sixteen rows of one phase. The kernels of a row lie side by side (forward), or those of sixteen
// rows do for each channel that is summed over.
void Pass::pack_weights(const float* w, float* shared, float* scratch, std::int64_t part) const {
  const std::int64_t phase = part / tiles_of(rows), tile = part % tiles_of(rows),
                     runs = this->runs(phase), first = tile * kTileRows,
                     count = std::min<std::int64_t>(kTileRows, rows - first), taps = s.taps();
  const Axis vertical = this->vertical(phase), horizontal = this->horizontal(phase);
  std::uint16_t* to =
      in_memory<std::uint16_t>(shared) + (weights_before(phase) + tile * runs) * kTileValues;
  auto* rounded = in_memory<std::uint16_t>(scratch);
  std::fill_n(to, runs * kTileValues, std::uint16_t{0});
  const std::int64_t own_taps = vertical.taps * horizontal.taps;
  // The place of term (c, tap i) of a row of tiles.
  const auto place = [&](std::int64_t c, std::int64_t i) {
    const std::int64_t chunk = c / kBf16Run * kBf16Run,
                       width = std::min<std::int64_t>(kBf16Run, summed - chunk),
                       term = chunk * own_taps + i * width + c - chunk;
    return term / kBf16Run * kTileValues + term % kBf16Run;
  };
  const auto tap = [&](std::int64_t i) {
    return (vertical.first_tap + i / horizontal.taps * vertical.tap_step) * s.kernel_width +
           horizontal.first_tap + i % horizontal.taps * horizontal.tap_step;
  };
  if (!to_input) {
    for (std::int64_t row = 0; row < count; ++row) {
      round_to_bf16(w + (first + row) * summed * taps, summed * taps, rounded);
      for (std::int64_t chunk = 0; chunk < summed; chunk += kBf16Run)
        for (std::int64_t i = 0; i < own_taps; ++i) {
          const std::uint16_t* from = rounded + chunk * taps + tap(i);
          const std::int64_t width = std::min<std::int64_t>(kBf16Run, summed - chunk);
          for (std::int64_t c = 0; c < width; ++c)
            to[place(chunk + c, i) + row * kBf16Run] = from[c * taps];
        }
    }
    return;
  }
  for (std::int64_t k = 0; k < summed; ++k) {
    round_to_bf16(w + (k * rows + first) * taps, count * taps, rounded);
    for (std::int64_t i = 0; i < own_taps; ++i) {
      const std::uint16_t* from = rounded + tap(i);
      std::uint16_t* column = to + place(k, i);
      for (std::int64_t row = 0; row < count; ++row) column[row * kBf16Run] = from[row * taps];
    }
  }
}

// A block's 32 channels, all pixels.
void Pass::pack_source(const float* source, float* shared, std::int64_t part) const {
  const std::int64_t block = part / chunks(), chunk = part % chunks();
  pack_channels(source + (block * summed + chunk * kBf16Run) * source_pixels() * kLanes,
                source_pixels(), s.images - block * kLanes,
                in_memory<std::uint16_t>(shared) +
                    (weights_before(phases()) + part * source_pixels()) * kTileValues);
}

void Pass::multiply(const float* source, float* out, float* shared, float* scratch,
                    std::int64_t part) const {
  std::int64_t phase = 0;
  while (part >= parts(phase)) part -= parts(phase++);
  const Axis vertical = this->vertical(phase), horizontal = this->horizontal(phase);
  const std::int64_t runs = this->runs(phase), begin = part * part_columns(),
                     end = std::min(begin + part_columns(), columns(phase));
  auto** const right = in_memory<const std::uint16_t*>(scratch);
  auto** const to = in_memory<float*>(scratch + address_floats());
  auto* gathered = in_memory<std::uint16_t>(scratch + address_floats() + out_floats());
  float* const own = scratch + address_floats() + out_floats() + gathered_floats();
  const std::uint16_t* const packed =
      in_memory<std::uint16_t>(shared) + weights_before(phases()) * kTileValues;
  const auto** next = right;
  for (std::int64_t column = begin; column < end; ++column) {
    const std::int64_t x = column % horizontal.pixels,
                       y = column / horizontal.pixels % vertical.pixels,
                       block = column / horizontal.pixels / vertical.pixels,
                       images = s.images - block * kLanes;
    to[column - begin] = out + (block * rows * out_h * out_w +
                                (vertical.first_pixel + y * vertical.pixel_step) * out_w +
                                horizontal.first_pixel + x * horizontal.pixel_step) *
                                   kLanes;
    // The source's pixel for a tap; below 0 outside.
    const auto pixel = [&](std::int64_t i, std::int64_t j) -> std::int64_t {
      const std::int64_t h = vertical.origin + y * vertical.stride + i * vertical.step,
                         v = horizontal.origin + x * horizontal.stride + j * horizontal.step;
      return h < 0 || h >= source_h || v < 0 || v >= source_w ? -1 : h * source_w + v;
    };
    if (!gathers()) {
      const std::uint16_t* tiles = packed + block * chunks() * source_pixels() * kTileValues;
      for (std::int64_t chunk = 0; chunk < chunks();
           ++chunk, tiles += source_pixels() * kTileValues)
        for (std::int64_t i = 0; i < vertical.taps; ++i)
          for (std::int64_t j = 0; j < horizontal.taps; ++j) {
            const std::int64_t at = pixel(i, j);
            *next++ = at < 0 ? kZeroTile : tiles + at * kTileValues;
          }
      continue;
    }
    const float* terms[kBf16Run];
    int filled = 0;
    const auto take = [&](const float* term) {
      terms[filled++] = term;
      if (filled < kBf16Run) return;
      pack_terms(terms, images, gathered);
      *next++ = gathered;
      gathered += kTileValues;
      filled = 0;
    };
    const float* own_source = source + block * summed * source_pixels() * kLanes;
    for (std::int64_t chunk = 0; chunk < summed; chunk += kBf16Run)
      for (std::int64_t i = 0; i < vertical.taps; ++i)
        for (std::int64_t j = 0; j < horizontal.taps; ++j) {
          const std::int64_t at = pixel(i, j);
          for (std::int64_t c = chunk; c < std::min<std::int64_t>(chunk + kBf16Run, summed); ++c)
            take(at < 0 ? nullptr : own_source + (c * source_pixels() + at) * kLanes);
        }
    while (filled != 0) take(nullptr);
  }
  const std::int64_t row_floats = out_h * out_w * kLanes;
  const std::uint16_t* weights =
      in_memory<std::uint16_t>(shared) + weights_before(phase) * kTileValues;
  for (std::int64_t row = 0; row < rows; row += 2 * kTileRows) {
    multiply_tiles({.left = weights + row / kTileRows * runs * kTileValues,
                    .left_stride = runs * kTileValues,
                    .right = right,
                    .runs = runs,
                    .columns = end - begin,
                    .out = to,
                    .out_stride = row_floats,
                    .rows = std::min<std::int64_t>(2 * kTileRows, rows - row)},
                   own);
    for (std::int64_t i = 0; i < end - begin; ++i) to[i] += 2 * kTileRows * row_floats;
  }
}

}  // namespace

ConvWork conv_bf16_forward_work(const ConvShape& shape) { return Pass(shape, false).work(); }
void conv_bf16_forward(const ConvShape& shape, const float* x, const float* w, float* y,
                       float* shared, float* scratch, int phase, int part) {
  Pass(shape, false).run(x, w, y, shared, scratch, phase, part);
}

ConvWork conv_bf16_grad_input_work(const ConvShape& shape) { return Pass(shape, true).work(); }
void conv_bf16_grad_input(const ConvShape& shape, const float* dy, const float* w, float* dx,
                          float* shared, float* scratch, int phase, int part) {
  Pass(shape, true).run(dy, w, dx, shared, scratch, phase, part);
}

}  // namespace podium::cpu
