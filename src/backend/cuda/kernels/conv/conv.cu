// conv2d and conv2d_grad_input. Both gather: an output is a chain over the channels of what is
// read, in blocks of 16, and in each block over the taps of the kernel that meet the image. A block
// computes a tile of output channels by columns; a column is one image at one pixel, and a unit
// four columns of one pixel, so that a thread knows for four columns at once which taps count.
// Pixels of an input's gradient that lie a stride apart have the same taps: they are a phase, and
// each phase has tiles of its own.
#include <algorithm>

#include "backend/cuda/kernels/conv/conv.h"
#include "backend/cuda/kernels/conv/gather.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/tile.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

static_assert(kSlice == 16, "a slice is a block of channels of the contract");

struct Gather : Reads {
  int terms;  // most terms of a phase
  int row;    // floats between terms of the packed weights

  std::int64_t packed() const { return std::int64_t{phases()} * terms * row; }
};

Gather gather_of(const ConvShape& s, bool backward) {
  Gather g{reads_of(s, backward), 0, 0};
  g.terms = g.depth * g.taps();
  g.row = (g.outputs + 3) / 4 * 4;
  return g;
}

// A term of a chain: tap and channel.
struct Term {
  int down, across, channel;
  // In the order (channel / 16, taps down, taps across, channel mod 16).
  PODIUM_DEVICE_FUNCTION Term(int term, int taps_down, int taps_across, int depth) {
    const int in_block = kSlice * taps_down * taps_across, block = term / in_block * kSlice;
    const int width = depth - block < kSlice ? depth - block : kSlice;
    const int tap = term % in_block / width;
    channel = block + term % in_block % width;
    down = tap / taps_across, across = tap % taps_across;
  }
};

// packed[phase][term][output channel]; offsets[phase][term]: where the pixel that a term reads lies
// from that of the output, in pixels of all channels; shifts: how many rows and columns that is.
void pack(const Launch& launch, const Gather& gather, ConstFloats w, Floats packed,
          Each<int> offsets, Each<int> shifts) {
  launch_flat(launch, gather.packed(), [=] __device__(std::int64_t i, unsigned replica) {
    const Gather& g = gather;
    const int output = static_cast<int>(i % g.row);
    const std::int64_t at = i / g.row;
    const int number = static_cast<int>(at % g.terms), phase = static_cast<int>(at / g.terms);
    const int a = phase / g.across.phases(), b = phase % g.across.phases();
    const int taps_down = g.down.taps(a), taps_across = g.across.taps(b);
    if (number >= g.depth * taps_down * taps_across) return;
    const Term term(number, taps_down, taps_across, g.depth);
    const int r = g.down.first(a) + term.down * g.down.tap_step(),
              s = g.across.first(b) + term.across * g.across.tap_step();
    if (output == 0) {
      const int h = g.down.shift(a, term.down), v = g.across.shift(b, term.across);
      offsets.of(replica)[at] = (term.channel * g.down.reads + h) * g.across.reads + v;
      shifts.of(replica)[at] = h * 65536 + (v + 32768);
    }
    const int in = g.backward ? output : term.channel, out = g.backward ? term.channel : output;
    const int in_channels = g.backward ? g.outputs : g.depth;
    float value = 0;
    if (output < g.outputs)
      value =
          w.of(replica)[((static_cast<std::int64_t>(out) * in_channels + in) * g.down.kernel + r) *
                            g.across.kernel +
                        s];
    packed.of(replica)[i] = value;
  });
}

template <typename T>
struct GatherShared {
  typename T::Shared tiles;
  int shifts[2][kSlice];
};

// With kWide the channels that are read are a multiple of 16, and the terms of a slice share a tap.
template <typename T, bool kWide>
struct GatherKernel {
  const Gather& g;
  const float *x, *packed;
  const int *offsets, *shifts;
  int taps_down, taps_across, first_down, first_across, terms, first_output;
  bool vector;
  Unit loaded;      // the unit that this thread fetches
  int top, bottom;  // rows that tap shift 0 reads, of all units
  int at = -kSlice, channel = 0, down = 0, across = -1;

  // Goes to the next slice that some unit of the block may meet.
  __device__ bool next() {
    while (true) {
      at += kSlice;
      if (at >= terms) return false;
      if constexpr (!kWide) return true;
      if (++across == taps_across) across = 0, ++down;
      if (down == taps_down) down = 0, channel += kSlice;
      const int shift = shift_down();
      if (bottom + shift >= 0 && top + shift < g.down.reads) return true;
    }
  }
  // Of the slice's tap.
  __device__ int shift_down() const { return first_down + down * g.down.shift_step(); }
  __device__ int shift_across() const { return first_across + across * g.across.shift_step(); }
  __device__ int width() const { return kWide || terms - at >= kSlice ? kSlice : terms - at; }

  __device__ void fetch(typename T::Ahead& ahead) const {
    const int count = width();
    T::fetch_rows(ahead.a, [&](int term, int row) {
      return term < count && first_output + row < g.row
                 ? load4(packed + static_cast<std::int64_t>(at + term) * g.row + first_output + row)
                 : zero4();
    });
    const std::int64_t plane = static_cast<std::int64_t>(g.down.reads) * g.across.reads;
    const std::int64_t pixel = static_cast<std::int64_t>(loaded.h) * g.across.reads + loaded.v;
    T::fetch_rows(ahead.b, [&](int term, int) {
      float4 value = zero4();
      if (term >= count) return value;
      std::int64_t offset;
      int h, v;
      if constexpr (kWide) {
        h = shift_down(), v = shift_across();
        offset = (channel + term) * plane + h * g.across.reads + v;
      } else {
        offset = offsets[at + term];
        h = shifts[at + term] >> 16, v = (shifts[at + term] & 0xffff) - 32768;
      }
      if (!loaded.meets(g, h, v)) return value;
      const float* const from = x + (offset + pixel) * g.images + loaded.n;
      if (vector) return load4(from);
      const int left = g.images - loaded.n;
      value.x = from[0];
      if (left > 1) value.y = from[1];
      if (left > 2) value.z = from[2];
      if (left > 3) value.w = from[3];
      return value;
    });
  }
  __device__ void put(const typename T::Ahead& ahead, GatherShared<T>& shared, int buffer) const {
    T::put_rows(ahead.a, shared.tiles.a[buffer]);
    T::put_rows(ahead.b, shared.tiles.b[buffer]);
    if (!kWide && T::thread() < width())
      shared.shifts[buffer][T::thread()] = shifts[at + T::thread()];
  }
};

template <typename T, bool kWide>
__global__ void __launch_bounds__(T::kThreads, 1)
    gather_kernel(Gather g, bool vector, ConstFloats x, ConstFloats packed, Each<const int> offsets,
                  Each<const int> shifts, Floats y) {
  auto& shared = simt::shared<GatherShared<T>>();
  const int output_tiles = (g.outputs + T::kM - 1) / T::kM;
  const int phase = static_cast<int>(blockIdx.y) / output_tiles,
            first_output = static_cast<int>(blockIdx.y) % output_tiles * T::kM;
  const int a = phase / g.across.phases(), b = phase % g.across.phases();
  const int images4 = (g.images + 3) / 4;
  const int units = images4 * g.down.outputs(a) * g.across.outputs(b);
  constexpr int kUnits = T::kN / 4;
  const int first_unit = static_cast<int>(blockIdx.x) * kUnits;
  if (first_unit >= units) return;
  const int last_unit = first_unit + kUnits < units ? first_unit + kUnits - 1 : units - 1;
  const int row_units = images4 * g.across.outputs(b);
  static_assert(T::kThreads % kUnits == 0, "a thread fetches one unit");

  const int taps_down = g.down.taps(a), taps_across = g.across.taps(b);
  const int first_down = g.down.first_shift(a), first_across = g.across.first_shift(b);
  const int last_down = first_down + (taps_down - 1) * g.down.shift_step(),
            last_across = first_across + (taps_across - 1) * g.across.shift_step();
  const std::int64_t from = static_cast<std::int64_t>(phase) * g.terms;
  GatherKernel<T, kWide> source{g,
                                x.of(blockIdx.z),
                                packed.of(blockIdx.z) + from * g.row,
                                offsets.of(blockIdx.z) + from,
                                shifts.of(blockIdx.z) + from,
                                taps_down,
                                taps_across,
                                first_down,
                                first_across,
                                g.depth * taps_down * taps_across,
                                first_output,
                                vector,
                                Unit(g, a, b, first_unit + T::thread() % kUnits),
                                g.down.read(first_unit / row_units),
                                g.down.read(last_unit / row_units)};
  int h[T::kGroupsN], v[T::kGroupsN];
  bool inner = true;  // no tap of the thread's units lies outside
#pragma unroll
  for (int group = 0; group < T::kGroupsN; ++group) {
    const Unit unit(g, a, b, first_unit + T::column(group) / 4);
    h[group] = unit.h, v[group] = unit.v;
    inner = inner && taps_down * taps_across > 0 && unit.meets(g, first_down, first_across) &&
            unit.meets(g, last_down, last_across);
  }
  const auto meets = [&](int group, int down, int across) {
    return static_cast<unsigned>(h[group] + down) < static_cast<unsigned>(g.down.reads) &&
           static_cast<unsigned>(v[group] + across) < static_cast<unsigned>(g.across.reads);
  };

  typename T::Ahead ahead;
  typename T::Sums sums;
  T::clear(sums);
  bool more = source.next();
  if (more) source.fetch(ahead);
  for (int buffer = 0; more; buffer ^= 1) {
    source.put(ahead, shared, buffer);
    __syncthreads();
    const int width = source.width();
    // The terms of the slice that count, for each group.
    unsigned counts[T::kGroupsN];
    bool all = true;
#pragma unroll
    for (int group = 0; group < T::kGroupsN; ++group) counts[group] = ~0u;
    if (!inner && !seeded(SeededFault::kPaddingMultiplied)) {
      if constexpr (kWide) {
        const int down = source.shift_down(), across = source.shift_across();
#pragma unroll
        for (int group = 0; group < T::kGroupsN; ++group)
          counts[group] = meets(group, down, across) ? ~0u : 0;
      } else {
        for (int term = 0; term < width; ++term) {
          const int down = shared.shifts[buffer][term] >> 16,
                    across = (shared.shifts[buffer][term] & 0xffff) - 32768;
#pragma unroll
          for (int group = 0; group < T::kGroupsN; ++group)
            if (!meets(group, down, across)) counts[group] &= ~(1u << term);
        }
      }
#pragma unroll
      for (int group = 0; group < T::kGroupsN; ++group) all = all && counts[group] == ~0u;
    }
    more = source.next();
    if (more) source.fetch(ahead);
    if (all) {
      T::multiply_slice(shared.tiles, buffer, width, sums);
      continue;
    }
#pragma unroll 1
    for (int term = 0; term < width; ++term)
#pragma unroll
      for (int group = 0; group < T::kGroupsN; ++group)
        if ((counts[group] >> term & 1) != 0) T::multiply(shared.tiles, buffer, term, group, sums);
  }

  std::int64_t outs[T::kGroupsN];
  int ns[T::kGroupsN];
#pragma unroll
  for (int group = 0; group < T::kGroupsN; ++group) {
    const Unit unit(g, a, b, first_unit + T::column(group) / 4);
    outs[group] = unit.out, ns[group] = unit.there ? unit.n : g.images;
  }
  const std::int64_t plane = static_cast<std::int64_t>(g.down.outs) * g.across.outs;
  float* const to = y.of(blockIdx.z);
#pragma unroll
  for (int i = 0; i < T::kSumsM; ++i) {
    const int output = first_output + T::row(i / 4) + i % 4;
    if (output >= g.outputs) continue;
#pragma unroll
    for (int group = 0; group < T::kGroupsN; ++group) {
      const int left = g.images - ns[group];
      if (left <= 0) continue;
      float* const p = to + (output * plane + outs[group]) * g.images + ns[group];
      const float* const four = &sums[i][4 * group];
      if (vector) {
        store4(p, {four[0], four[1], four[2], four[3]});
        continue;
      }
      p[0] = four[0];
      if (left > 1) p[1] = four[1];
      if (left > 2) p[2] = four[2];
      if (left > 3) p[3] = four[3];
    }
  }
}

template <typename T, bool kWide>
void launch_gather(const Launch& launch, const Gather& g, ConstFloats x, ConstFloats packed,
                   Each<const int> offsets, Each<const int> shifts, Floats y) {
  const std::int64_t units = std::int64_t{(g.images + 3) / 4} * g.down.outputs(0) *
                             g.across.outputs(0);  // no phase has more
  const bool vector = g.images % 4 == 0 && is_aligned(x) && is_aligned(y);
  simt::launch(gather_kernel<T, kWide>,
               {.blocks = {blocks_of(units * 4, T::kN),
                           blocks_of(g.outputs, T::kM) * static_cast<unsigned>(g.phases()),
                           static_cast<unsigned>(launch.replicas)},
                .threads = {T::kThreads, 1, 1},
                .shared_bytes = sizeof(GatherShared<T>)},
               launch.stream, g, vector, x, packed, offsets, shifts, y);
}

std::int64_t gather_scratch(const Gather& g) {
  return g.packed() + 2 * std::int64_t{g.phases()} * g.terms;
}

void gather(const Launch& launch, const Gather& g, ConstFloats x, ConstFloats w, Floats y,
            Floats scratch) {
  // Replicas that share weights share what is made of them.
  Launch packing = launch;
  Floats packed = scratch;
  if (w.stride == 0) packing.replicas = 1, packed.stride = 0;
  const Each<int> offsets{reinterpret_cast<int*>(packed.first + g.packed()), packed.stride};
  const Each<int> shifts = offsets.from(std::int64_t{g.phases()} * g.terms);
  pack(packing, g, w, packed, offsets, shifts);
  const auto with = [&](auto tile) {
    using T = decltype(tile);
    with_constant(g.depth % kSlice == 0, [&](auto wide) {
      launch_gather<T, decltype(wide)::value>(launch, g, x, packed, offsets, shifts, y);
    });
  };
  if (g.outputs > 64)
    with(Tile<128, 64, 8, 8>());
  else if (g.outputs > 16)
    with(Tile<64, 64, 8, 4>());
  else
    with(Tile<16, 128, 4, 8>());
}

}  // namespace

std::int64_t conv2d_scratch(const ConvShape& s) { return gather_scratch(gather_of(s, false)); }
std::int64_t conv2d_grad_input_scratch(const ConvShape& s) {
  return gather_scratch(gather_of(s, true));
}

void conv2d(const Launch& launch, const ConvShape& s, ConstFloats x, ConstFloats w, Floats y,
            Floats scratch) {
  gather(launch, gather_of(s, false), x, w, y, scratch);
}
void conv2d_grad_input(const Launch& launch, const ConvShape& s, ConstFloats dy, ConstFloats w,
                       Floats dx, Floats scratch) {
  gather(launch, gather_of(s, true), dy, w, dx, scratch);
}

}  // namespace podium::PODIUM_CUDA_SPACE
