// The forward pass and the gradient to the images: rows of tiles are the channels that are made,
// columns the images of a block, terms the channels that are summed over. Where these come in whole
// runs of 32, a run is one tap of the kernel, so each pixel is packed once and then read by all
// taps. Otherwise runs hold the terms of several taps, and each pixel of the
// result gathers its own.
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

constexpr std::int64_t kMostColumns = 64;  // of a part
constexpr std::int64_t kOwnTiles = 512;    // of a part: half of a usual L2
constexpr std::int64_t kOwnChunks = 16;

constexpr std::int64_t whole_lines_of(std::int64_t floats) {
  return (floats + kLanes - 1) / kLanes * kLanes;
}

// What is common to the two passes.
struct Pass {
  Bf16Order order;
  bool to_input, rounds;
  const ConvShape& s;
  std::int64_t rows, summed;  // channels
  std::int64_t source_h, source_w, out_h, out_w;

  Pass(Bf16Order its_order, const ConvShape& shape, bool is_to_input, bool rounded = false)
      : order(its_order),
        to_input(is_to_input),
        rounds(rounded),
        s(shape),
        rows(to_input ? s.in_channels : s.out_channels),
        summed(to_input ? s.out_channels : s.in_channels),
        source_h(to_input ? s.out_height : s.in_height),
        source_w(to_input ? s.out_width : s.in_width),
        out_h(to_input ? s.in_height : s.out_height),
        out_w(to_input ? s.in_width : s.out_width) {}

  bool whole_runs() const { return summed % kBf16Run == 0; }
  // Whether all parts share tiles of the source; else each packs what it reads, which no other part
  // does if the kernel is one pixel.
  bool shares() const {
    return whole_runs() &&
           (s.taps() > 1 || s.stride_height * s.stride_width > 1 || chunks() > kOwnChunks);
  }
  std::int64_t chunks() const { return summed / kBf16Run; }
  std::int64_t source_pixels() const { return source_h * source_w; }
  // Of a tensor core's order, whose terms go through a tap's channels first.
  bool by_taps() const { return is_tensor_core(order); }
  // Terms of a tap.
  std::int64_t tap_terms() const { return by_taps() ? octets_of(summed) * kBf16Octet : summed; }

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
    return runs_of(tap_terms() * vertical(phase).taps * horizontal(phase).taps);
  }
  std::int64_t most_runs() const {
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < phases(); ++i) most = std::max(most, runs(i));
    return most;
  }
  std::int64_t columns(std::int64_t phase) const {
    return blocks_of(s.images) * vertical(phase).pixels * horizontal(phase).pixels;
  }
  // Columns of a part.
  std::int64_t part_columns() const {
    if (shares()) return kMostColumns;
    return std::clamp<std::int64_t>(kOwnTiles / std::max<std::int64_t>(most_runs(), 1), 2,
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
    return !shares() ? 0 : blocks_of(s.images) * chunks() * source_pixels();
  }
  // A part's: addresses of tiles, where sums go, gathered tiles, and what products want.
  std::int64_t address_floats() const { return whole_lines_of(part_columns() * most_runs() * 2); }
  std::int64_t out_floats() const { return whole_lines_of(part_columns() * 2); }
  std::int64_t own_floats() const {
    return !shares() ? part_columns() * most_runs() * kTileFloats : 0;
  }
  std::int64_t tap_floats() const { return whole_lines_of(2 * s.taps()); }
  // The weights' phase has kernels in BF16 there: those of a row, or of 16 rows for 32 channels.
  std::int64_t scratch_floats() const {
    const std::int64_t row =
        tap_floats() +
        whole_lines_of(std::max<std::int64_t>(to_input ? kTileValues : summed, 1) * s.taps());
    return std::max(
        row, address_floats() + out_floats() + own_floats() + tile_scratch(order, most_runs()));
  }

  ConvWork work() const {
    ConvWork work;
    work.parts[work.phases++] = static_cast<int>(phases() * tiles_of(rows));
    if (shares()) work.parts[work.phases++] = static_cast<int>(blocks_of(s.images) * chunks());
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
  // The right tiles of these columns, [column][run].
  struct Columns;
  void address_shared(const Columns& columns, const std::uint16_t* packed,
                      const std::uint16_t** right) const;
  void pack_pixels(const Columns& columns, const float* source, std::uint16_t* own,
                   const std::uint16_t** right) const;
  void gather(const Columns& columns, const float* source, std::uint16_t* own,
              const std::uint16_t** right) const;
  void run(const float* source, const float* w, float* out, float* shared, float* scratch,
           int phase, int part) const {
    if (phase == 0) return pack_weights(w, shared, scratch, part);
    if (phase == 1 && shares()) return pack_source(source, shared, part);
    multiply(source, out, shared, scratch, part);
  }
};

// Columns of tiles: pixels of the result of one phase, of one block of images after the other.
struct Pass::Columns {
  const Pass& pass;
  Axis vertical, horizontal;
  std::int64_t begin, end;

  Columns(const Pass& of, std::int64_t phase, std::int64_t part)
      : pass(of),
        vertical(of.vertical(phase)),
        horizontal(of.horizontal(phase)),
        begin(part * of.part_columns()),
        end(std::min(begin + of.part_columns(), of.columns(phase))) {}

  std::int64_t count() const { return end - begin; }
  std::int64_t block(std::int64_t column) const {
    return column / (horizontal.pixels * vertical.pixels);
  }
  std::int64_t y(std::int64_t column) const { return column / horizontal.pixels % vertical.pixels; }
  std::int64_t x(std::int64_t column) const { return column % horizontal.pixels; }
  // Where it lies in the result: block, row 0, pixel.
  std::int64_t place(std::int64_t column) const {
    return (block(column) * pass.rows * pass.out_h + vertical.first_pixel +
            y(column) * vertical.pixel_step) *
               pass.out_w +
           horizontal.first_pixel + x(column) * horizontal.pixel_step;
  }
  // The source's pixel for a tap; below 0 outside.
  std::int64_t source(std::int64_t column, std::int64_t i, std::int64_t j) const {
    const std::int64_t h = vertical.origin + y(column) * vertical.stride + i * vertical.step,
                       v = horizontal.origin + x(column) * horizontal.stride + j * horizontal.step;
    if (h < 0 || h >= pass.source_h || v < 0 || v >= pass.source_w) return -1;
    return h * pass.source_w + v;
  }
};

// to[tap][c] = from[c * from_step + taps[tap]], where tiles of a tap are `to_step` apart; kTaps, if
// it is not 0: they are all taps of the kernel, in order.
template <int kTaps>
void put_taps(const std::uint16_t* from, std::int64_t from_step, std::int64_t channels,
              const std::int64_t* taps, std::int64_t count, std::uint16_t* to,
              std::int64_t to_step) {
  for (std::int64_t c = 0; c < channels; ++c) {
    if constexpr (kTaps != 0) {
      for (int i = 0; i < kTaps; ++i) to[i * to_step + c] = from[c * from_step + i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * to_step + c] = from[c * from_step + taps[i]];
    }
  }
}

// Sixteen rows of one phase. The kernels of a row lie side by side (forward), or those of sixteen
// rows do for each channel that is summed over.
void Pass::pack_weights(const float* w, float* shared, float* scratch, std::int64_t part) const {
  const std::int64_t phase = part / tiles_of(rows), tile = part % tiles_of(rows),
                     runs = this->runs(phase), first = tile * kTileRows,
                     count = std::min<std::int64_t>(kTileRows, rows - first), taps = s.taps();
  const Axis vertical = this->vertical(phase), horizontal = this->horizontal(phase);
  const std::int64_t own_taps = vertical.taps * horizontal.taps;
  std::uint16_t* to =
      in_memory<std::uint16_t>(shared) + (weights_before(phase) + tile * runs) * kTileValues;
  // Which tap of the kernel is number i of this phase, then kernels in BF16.
  auto* tap_of = in_memory<std::int64_t>(scratch);
  auto* rounded = in_memory<std::uint16_t>(scratch + tap_floats());
  for (std::int64_t i = 0; i < own_taps; ++i)
    tap_of[i] = (vertical.first_tap + i / horizontal.taps * vertical.tap_step) * s.kernel_width +
                horizontal.first_tap + i % horizontal.taps * horizontal.tap_step;
  const bool all = own_taps == taps, whole = summed % kBf16Run == 0;
  if (!whole || count != kTileRows) std::fill_n(to, runs * kTileValues, std::uint16_t{0});
  // The terms of a chunk of channels, of one row: `from_step` from a channel's kernel to the next.
  const auto put = [&](std::int64_t chunk, std::int64_t row, const std::uint16_t* from,
                       std::int64_t from_step) {
    const std::int64_t width = std::min<std::int64_t>(kBf16Run, summed - chunk);
    if (whole) {
      std::uint16_t* tiles =
          to + chunk / kBf16Run * (by_taps() ? 1 : own_taps) * kTileValues + row * kBf16Run;
      const auto put_all = all && taps == 1   ? put_taps<1>
                           : all && taps == 9 ? put_taps<9>
                                              : put_taps<0>;
      return put_all(from, from_step, width, tap_of, own_taps, tiles,
                     (by_taps() ? chunks() : 1) * kTileValues);
    }
    for (std::int64_t i = 0; i < own_taps; ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t term =
            by_taps() ? i * tap_terms() + chunk + c : chunk * own_taps + i * width + c;
        to[term / kBf16Run * kTileValues + row * kBf16Run + term % kBf16Run] =
            from[c * from_step + tap_of[i]];
      }
  };
  if (!to_input) {
    for (std::int64_t row = 0; row < count; ++row) {
      round_to_bf16(w + (first + row) * summed * taps, summed * taps, rounded);
      for (std::int64_t chunk = 0; chunk < summed; chunk += kBf16Run)
        put(chunk, row, rounded + chunk * taps, taps);
    }
    return;
  }
  const std::int64_t step = count * taps;
  for (std::int64_t chunk = 0; chunk < summed; chunk += kBf16Run) {
    for (std::int64_t k = chunk; k < std::min<std::int64_t>(chunk + kBf16Run, summed); ++k)
      round_to_bf16(w + (k * rows + first) * taps, step, rounded + (k - chunk) * step);
    for (std::int64_t row = 0; row < count; ++row) put(chunk, row, rounded + row * taps, step);
  }
}

// A block's 32 channels, all pixels.
void Pass::pack_source(const float* source, float* shared, std::int64_t part) const {
  const std::int64_t block = part / chunks(), chunk = part % chunks();
  pack_channels(source + (block * summed + chunk * kBf16Run) * source_pixels() * kLanes,
                source_pixels(), source_pixels(), s.images - block * kLanes,
                in_memory<std::uint16_t>(shared) +
                    (weights_before(phases()) + part * source_pixels()) * kTileValues);
}

void Pass::multiply(const float* source, float* out, float* shared, float* scratch,
                    std::int64_t part) const {
  std::int64_t phase = 0;
  while (part >= parts(phase)) part -= parts(phase++);
  const Columns columns(*this, phase, part);
  const std::int64_t runs = this->runs(phase);
  auto** const right = in_memory<const std::uint16_t*>(scratch);
  auto** const to = in_memory<float*>(scratch + address_floats());
  auto* const own = in_memory<std::uint16_t>(scratch + address_floats() + out_floats());
  for (std::int64_t i = columns.begin; i < columns.end; ++i)
    to[i - columns.begin] = out + columns.place(i) * kLanes;
  if (shares())
    address_shared(
        columns, in_memory<std::uint16_t>(shared) + weights_before(phases()) * kTileValues, right);
  else if (whole_runs())
    pack_pixels(columns, source, own, right);
  else
    gather(columns, source, own, right);
  const std::int64_t row_floats = out_h * out_w * kLanes;
  const std::uint16_t* weights =
      in_memory<std::uint16_t>(shared) + weights_before(phase) * kTileValues;
  for (std::int64_t row = 0; row < rows; row += 2 * kTileRows) {
    const std::int64_t count = std::min<std::int64_t>(2 * kTileRows, rows - row);
    multiply_tiles({.left = weights + row / kTileRows * runs * kTileValues,
                    .left_stride = runs * kTileValues,
                    .right = right,
                    .runs = runs,
                    .columns = columns.count(),
                    .out = to,
                    .out_stride = row_floats,
                    .rows = count,
                    .order = order},
                   scratch + address_floats() + out_floats() + own_floats());
    for (std::int64_t i = 0; i < columns.count(); ++i) {
      if (rounds) round_floats(to[i], count, kLanes, row_floats, to[i]);
      to[i] += 2 * kTileRows * row_floats;
    }
  }
}

void Pass::address_shared(const Columns& columns, const std::uint16_t* packed,
                          const std::uint16_t** right) const {
  for (std::int64_t column = columns.begin; column < columns.end; ++column) {
    const std::uint16_t* tiles =
        packed + columns.block(column) * chunks() * source_pixels() * kTileValues;
    const std::int64_t taps = columns.vertical.taps * columns.horizontal.taps;
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk, tiles += source_pixels() * kTileValues)
      for (std::int64_t i = 0; i < columns.vertical.taps; ++i)
        for (std::int64_t j = 0; j < columns.horizontal.taps; ++j) {
          const std::int64_t at = columns.source(column, i, j),
                             tap = i * columns.horizontal.taps + j,
                             run = by_taps() ? tap * chunks() + chunk : chunk * taps + tap;
          right[run] = at < 0 ? kZeroTile : tiles + at * kTileValues;
        }
    right += chunks() * taps;
  }
}

// Of a kernel of one pixel, which reads the pixels that it makes.
void Pass::pack_pixels(const Columns& columns, const float* source, std::uint16_t* own,
                       const std::uint16_t** right) const {
  for (std::int64_t column = columns.begin; column < columns.end;) {
    const std::int64_t block = columns.block(column), pixel = column % source_pixels(),
                       count = std::min(columns.end - column, source_pixels() - pixel);
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) {
      pack_channels(
          source + ((block * summed + chunk * kBf16Run) * source_pixels() + pixel) * kLanes,
          source_pixels(), count, s.images - block * kLanes, own);
      for (std::int64_t i = 0; i < count; ++i, own += kTileValues)
        right[(column - columns.begin + i) * chunks() + chunk] = own;
    }
    column += count;
  }
}

void Pass::gather(const Columns& columns, const float* source, std::uint16_t* own,
                  const std::uint16_t** right) const {
  for (std::int64_t column = columns.begin; column < columns.end; ++column) {
    const std::int64_t block = columns.block(column);
    const float* images = source + block * summed * source_pixels() * kLanes;
    const float* terms[kBf16Run];
    int filled = 0;
    const auto take = [&](const float* term) {
      terms[filled++] = term;
      if (filled < kBf16Run) return;
      pack_terms(terms, s.images - block * kLanes, own);
      *right++ = own;
      own += kTileValues;
      filled = 0;
    };
    const std::int64_t at_once = by_taps() ? tap_terms() : kBf16Run;  // channels of a tap
    for (std::int64_t chunk = 0; chunk < summed; chunk += at_once)
      for (std::int64_t i = 0; i < columns.vertical.taps; ++i)
        for (std::int64_t j = 0; j < columns.horizontal.taps; ++j) {
          const std::int64_t at = columns.source(column, i, j);
          for (std::int64_t c = chunk; c < std::min(chunk + at_once, tap_terms()); ++c)
            take(at < 0 || c >= summed ? nullptr : images + (c * source_pixels() + at) * kLanes);
        }
    while (filled != 0) take(nullptr);
  }
}

}  // namespace

ConvWork conv_bf16_forward_work(Bf16Order order, const ConvShape& shape) {
  return Pass(order, shape, false).work();
}
void conv_bf16_forward(Bf16Order order, bool rounded, const ConvShape& shape, const float* x,
                       const float* w, float* y, float* shared, float* scratch, int phase,
                       int part) {
  Pass(order, shape, false, rounded).run(x, w, y, shared, scratch, phase, part);
}

ConvWork conv_bf16_grad_input_work(Bf16Order order, const ConvShape& shape) {
  return Pass(order, shape, true).work();
}
void conv_bf16_grad_input(Bf16Order order, bool rounded, const ConvShape& shape, const float* dy,
                          const float* w, float* dx, float* shared, float* scratch, int phase,
                          int part) {
  Pass(order, shape, true, rounded).run(dy, w, dx, shared, scratch, phase, part);
}

}  // namespace podium::cpu
