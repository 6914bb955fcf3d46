// The gradient to the weights in the order of a tensor core: terms are the pixels of dy, of each
// its images in octets, and parts of them are summed apart. Rows of tiles are channels of dy,
// columns channels of x. A tap reads other pixels of x, so the octets of these are packed once.
#include <algorithm>
#include <cstddef>

#include "backend/cpu/kernels/bf16/conv_bf16.h"
#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kAddressRuns = 32;  // whose addresses a part holds

struct PartsPass {
  const ConvShape& s;
  std::int64_t left_tiles, right_tiles;  // of channels
  std::int64_t octets;                   // of a pixel's images
  std::int64_t all_octets, runs;

  explicit PartsPass(const ConvShape& shape)
      : s(shape),
        left_tiles(tiles_of(s.out_channels)),
        right_tiles(tiles_of(s.in_channels)),
        octets(octets_of(s.images)),
        all_octets(s.out_pixels() * octets),
        runs((all_octets + kRunOctets - 1) / kRunOctets) {}

  std::int64_t pairs() const { return (left_tiles + 1) / 2; }
  // Shared: [left tile][run] tiles of dy; [block][right tile][pixel] halves of tiles of x.
  std::int64_t left_values() const { return left_tiles * runs * kTileValues; }
  std::int64_t right_values() const {
    return blocks_of(s.images) * right_tiles * s.in_pixels() * kHalfTile;
  }
  // A part's: addresses of octets, where sums go, sums of one part and of all so far.
  static constexpr std::int64_t kAddressFloats = kAddressRuns * kRunOctets * 2;
  static constexpr std::int64_t kOutFloats = kLanes;
  std::int64_t sums_floats() const { return pairs() * kPairSums; }

  ConvWork work() const {
    ConvWork work;
    work.parts[work.phases++] = static_cast<int>(left_tiles * blocks_of(s.images));
    work.parts[work.phases++] = static_cast<int>(blocks_of(s.images) * right_tiles);
    work.parts[work.phases++] = static_cast<int>(right_tiles * s.taps());
    work.shared = (left_values() + right_values()) / 2;
    work.scratch =
        kAddressFloats + kOutFloats + 2 * sums_floats() + tile_scratch(Bf16Order::kHopper, 1);
    return work;
  }

  // A tile of channels of a block of dy.
  void pack_left(const float* dy, float* shared, std::int64_t part) const {
    const std::int64_t tile = part / blocks_of(s.images), block = part % blocks_of(s.images),
                       first = tile * kTileRows,
                       count = std::min<std::int64_t>(kTileRows, s.out_channels - first);
    const float* from = dy + (block * s.out_channels + first) * s.out_pixels() * kLanes;
    std::uint16_t* to = in_memory<std::uint16_t>(shared) + tile * runs * kTileValues;
    const auto put = [&](std::int64_t octet, const std::uint16_t* rows) {
      std::uint16_t* place =
          to + octet / kRunOctets * kTileValues + octet % kRunOctets * kBf16Octet;
      for (int row = 0; row < kTileRows; ++row)
        std::copy_n(rows + row * kBf16Run, kBf16Octet, place + row * kBf16Run);
    };
    alignas(64) std::uint16_t rows[kTileValues];
    for (std::int64_t pixel = 0; pixel < s.out_pixels(); ++pixel) {
      pack_rows(from + pixel * kLanes, count, s.out_pixels(), false, s.images - block * kLanes,
                rows);
      for (std::int64_t half = 0; half < 2 && 2 * block + half < octets; ++half)
        put(pixel * octets + 2 * block + half, rows + half * kBf16Octet);
    }
    for (std::int64_t octet = all_octets; block == 0 && octet < runs * kRunOctets; ++octet)
      put(octet, kZeroTile);
  }

  // A tile of channels of a block of x.
  void pack_right(const float* x, float* shared, std::int64_t part) const {
    const std::int64_t block = part / right_tiles, first = part % right_tiles * kTileColumns,
                       count = std::min<std::int64_t>(kTileColumns, s.in_channels - first),
                       pixels = s.in_pixels();
    const float* from = x + (block * s.in_channels + first) * pixels * kLanes;
    std::uint16_t* to =
        in_memory<std::uint16_t>(shared) + left_values() + part * pixels * kHalfTile;
    for (std::int64_t i = 0; i < pixels; i += 2, to += kTileValues) {
      const bool two = i + 1 < pixels;
      pack_columns(from + i * kLanes, two ? from + (i + 1) * kLanes : nullptr, count, pixels,
                   s.images - block * kLanes, to, two ? to + kHalfTile : nullptr);
    }
  }

  // A tap of a tile of channels of x.
  void multiply(Bf16Order order, float* dw, float* shared, float* scratch,
                std::int64_t part) const {
    const std::int64_t tile = part / s.taps(), tap = part % s.taps(),
                       r = tap / s.kernel_width - s.pad_top, t = tap % s.kernel_width - s.pad_left;
    const auto* left = in_memory<std::uint16_t>(shared);
    const std::uint16_t* packed = left + left_values();
    auto** const right = in_memory<const std::uint16_t*>(scratch);
    auto** const to = in_memory<float*>(scratch + kAddressFloats);
    float* const sums = scratch + kAddressFloats + kOutFloats;
    float* const totals = sums + sums_floats();
    float* const own = totals + sums_floats();
    const auto octet_at = [&](std::int64_t octet) {
      const std::int64_t pixel = octet / octets, o = octet % octets,
                         h = pixel / s.out_width * s.stride_height + r,
                         v = pixel % s.out_width * s.stride_width + t;
      if (octet >= all_octets || h < 0 || h >= s.in_height || v < 0 || v >= s.in_width)
        return kZeroTile;
      return packed +
             ((o / 2 * right_tiles + tile) * s.in_pixels() + h * s.in_width + v) * kHalfTile +
             o % 2 * kOctetValues;
    };
    const std::int64_t part_runs = bf16_part_runs(s.out_channels, s.in_channels * s.taps(), runs);
    std::fill_n(totals, sums_floats(), 0.0f);
    for (std::int64_t first = 0; first < runs; first += part_runs) {
      const std::int64_t end = std::min(first + part_runs, runs);
      for (std::int64_t run = first; run < end; run += kAddressRuns) {
        const std::int64_t count = std::min(kAddressRuns, end - run);
        for (std::int64_t i = 0; i < count * kRunOctets; ++i)
          right[i] = octet_at(run * kRunOctets + i);
        for (std::int64_t pair = 0; pair < pairs(); ++pair) {
          *to = sums + pair * kPairSums;
          multiply_tiles({.left = left + (2 * pair * runs + run) * kTileValues,
                          .left_stride = runs * kTileValues,
                          .right = right,
                          .runs = count,
                          .columns = 1,
                          .out = to,
                          .out_stride = kTileColumns,
                          .rows = (2 * pair + 1 < left_tiles ? 2 : 1) * kTileRows,
                          .continues = run != first,
                          .order = order,
                          .by_octets = true},
                         own);
        }
      }
      for (std::int64_t i = 0; i < s.out_channels * kTileColumns; ++i)
        totals[i] = first == 0 ? sums[i] : totals[i] + sums[i];
    }
    const std::int64_t c = tile * kTileColumns,
                       count = std::min<std::int64_t>(kTileColumns, s.in_channels - c);
    for (std::int64_t k = 0; k < s.out_channels; ++k)
      for (std::int64_t i = 0; i < count; ++i)
        dw[(k * s.in_channels + c + i) * s.taps() + tap] = totals[k * kTileColumns + i];
  }
};

}  // namespace

ConvWork conv_bf16_grad_weight_in_parts_work(const ConvShape& shape) {
  return PartsPass(shape).work();
}
void conv_bf16_grad_weight_in_parts(Bf16Order order, const ConvShape& shape, const float* dy,
                                    const float* x, float* dw, float* shared, float* scratch,
                                    int phase, int part) {
  const PartsPass pass(shape);
  if (phase == 0) return pass.pack_left(dy, shared, part);
  if (phase == 1) return pass.pack_right(x, shared, part);
  pass.multiply(order, dw, shared, scratch, part);
}

}  // namespace podium::cpu
