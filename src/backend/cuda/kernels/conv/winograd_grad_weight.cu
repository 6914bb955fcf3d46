// conv2d_winograd_grad_weight, in three kernels: the points of images and of gradients, at each
// point the sums over columns (n / 16, tile, n mod 16), and from the sums to the filters' gradient.
// A group of blocks of 16 images has a sum of its own, and the tree joins them.
#include "backend/cuda/kernels/conv/winograd.h"
#include "backend/cuda/kernels/conv/winograd_points.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/kernels/tree_total.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

static_assert(kSlice == kLanes, "a slice is a tile of a block of images");

// The images of a replica lie in blocks of 16, and its positions in the order (block, tile); the
// columns of a position are the block's images. Consecutive blocks form a group.
struct Groups {
  int images, tiles, positions;  // positions of a replica
  int group_positions, groups;

  // Positions of a group.
  __device__ int count(int group) const {
    const int left = positions - group * group_positions;
    return left < group_positions ? left : group_positions;
  }
};

// What is at work at the same time: in each of some slots the positions from `begin`, `width` of
// them, of a group of a replica. The points of a slot lie together, those of images before those of
// gradients; every replica's memory has several slots.
struct Slots {
  Groups groups;
  winograd::Tiles down, across;
  int first, count;  // of all groups of all replicas
  int begin, width;
  int per_replica;
  std::int64_t floats;  // of a slot
  Floats memory;

  __device__ float* of(int slot) const {
    return memory.of(static_cast<unsigned>(slot / per_replica)) + slot % per_replica * floats;
  }
  __device__ unsigned replica(int slot) const {
    return static_cast<unsigned>((first + slot) / groups.groups);
  }
  __device__ int group(int slot) const { return (first + slot) % groups.groups; }
  // Where the positions at work end in the slot's group.
  __device__ int end(int slot) const {
    const int all = groups.count(group(slot));
    return begin + width < all ? begin + width : all;
  }
  __device__ bool has(int tile, bool last_down, bool last_across) const {
    const int wide = static_cast<int>(across.count);
    return (!last_down || down.is_whole(tile / wide)) &&
           (!last_across || across.is_whole(tile % wide));
  }
};

// The columns of all slots, of which the points lie `offset` behind the slot's first.
struct SlotColumns {
  Slots slots;
  winograd::Tiles down, across;
  int count;
  std::int64_t offset;

  __device__ bool at(int local, Column& column) const {
    const int of_slot = slots.width * kLanes, slot = local / of_slot, within = local % of_slot;
    const int t = slots.begin + within / kLanes, group = slots.group(slot);
    if (t >= slots.end(slot)) return false;
    const int position = group * slots.groups.group_positions + t, tile = t % slots.groups.tiles;
    const int n = position / slots.groups.tiles * kLanes + within % kLanes;
    const int wide = static_cast<int>(across.count);
    column = {slots.replica(slot),
              tile / wide,
              tile % wide,
              n,
              n < slots.groups.images,
              slots.of(slot) + offset + within,
              of_slot};
    return true;
  }
};

// The sums at the points: sums[group][run][point][filter][channel].
struct Sums {
  int axis, filters, channels;
  int groups;
  int run_tiles;  // 4 or 8, and 0 where the lanes have chains of their own
  int runs;       // of a group where each has a block of its own, otherwise 1
  PODIUM_DEVICE_FUNCTION int points() const { return axis * axis; }
  PODIUM_DEVICE_FUNCTION std::int64_t at(int group, int point, int run = 0) const {
    return ((static_cast<std::int64_t>(group) * runs + run) * axis * axis + point) * filters *
           channels;
  }
  std::int64_t floats() const { return at(groups, 0); }
};

// --- wide layers

// A thread's own floats of the slices, one a position.
template <typename T>
struct ColumnSlices {
  const Slots& slots;
  const float *gradients, *patches;  // of the position
  int step;                          // floats between two filters, and two channels
  // The last filter and channel, from the thread's first; sums beyond are of them, and nobody
  // writes those.
  int filters, channels;
  bool last_down, last_across;
  int run_shift, at, end;
  int tile, block;  // of the position

  __device__ bool next() {
    while (++at < end) {
      gradients += kLanes, patches += kLanes;
      if (++tile == slots.groups.tiles) tile = 0, ++block;
      if (slots.has(tile, last_down, last_across)) return true;
    }
    return false;
  }
  __device__ int run() const { return at >> run_shift; }
  __device__ int terms() const {
    const int left = slots.groups.images - block * kLanes;
    return left < kLanes ? left : kLanes;
  }
  __device__ void fetch(typename T::Ahead& ahead) const {
    T::fetch_own_terms(ahead.a, [&](int k) {
      return load4(gradients + static_cast<std::int64_t>(k < filters ? k : filters) * step);
    });
    T::fetch_own_terms(ahead.b, [&](int e) {
      return load4(patches + static_cast<std::int64_t>(e < channels ? e : channels) * step);
    });
  }
  __device__ void put(const typename T::Ahead& ahead, typename T::Shared& shared,
                      int buffer) const {
    T::put_terms(ahead.a, shared.a[buffer]);
    T::put_terms(ahead.b, shared.b[buffer]);
  }
};

// A block has all runs that are at work, and goes on where an earlier launch ended within the
// group; or it has one of them.
template <typename T, bool kOneRun>
__global__ void __launch_bounds__(T::kThreads, product_blocks<T>())
    wide_sums_kernel(Sums s, Slots slots, Floats sums) {
  auto& shared = simt::shared<RunsMemory<T, kOneRun>>();
  const int blocks = kOneRun ? (slots.width + s.run_tiles - 1) / s.run_tiles : 1;
  const int slot = static_cast<int>(blockIdx.z) / blocks, group = slots.group(slot);
  const int point = static_cast<int>(blockIdx.y), across = (s.channels + T::kN - 1) / T::kN;
  const int row = static_cast<int>(blockIdx.x) / across * T::kM,
            channel = static_cast<int>(blockIdx.x) % across * T::kN;
  const int begin = slots.begin + static_cast<int>(blockIdx.z) % blocks * s.run_tiles,
            last = slots.end(slot),
            end = kOneRun && begin + s.run_tiles < last ? begin + s.run_tiles : last;
  if (begin >= end) return;  // a short group
  const int step = slots.width * kLanes, k = row + T::own_terms_row(),
            e = channel + T::own_terms_row();
  // Of the position before the first.
  const float* const patches = slots.of(slot) + T::own_terms() + (begin - slots.begin - 1) * kLanes;
  const float* const gradients =
      patches + static_cast<std::int64_t>(s.points()) * s.channels * step;
  ColumnSlices<T> slices{slots,
                         gradients + (static_cast<std::int64_t>(point) * s.filters + k) * step,
                         patches + (static_cast<std::int64_t>(point) * s.channels + e) * step,
                         step,
                         s.filters - 1 - k,
                         s.channels - 1 - e,
                         point / s.axis == s.axis - 1,
                         point % s.axis == s.axis - 1,
                         s.run_tiles == 8 ? 3 : 2,
                         begin - 1,
                         end,
                         (begin - 1 + slots.groups.tiles) % slots.groups.tiles,
                         group * (slots.groups.group_positions / slots.groups.tiles) +
                             (begin - 1 + slots.groups.tiles) / slots.groups.tiles - 1};
  const int first_run = begin >> slices.run_shift;
  float* const to = sums.of(slots.replica(slot)) + s.at(group, point, kOneRun ? first_run : 0);
  const auto place = [&](int i, int j) { return to + (row + i) * s.channels + channel + j; };
  const auto left = [&](int i, int j) {
    return row + i < s.filters ? s.channels - channel - j : 0;
  };
  const auto put = [&](int i, int j, const float4& four) {
    float* const p = place(i, j);
    const int count = left(i, j);
    if (count > 0) p[0] = four.x;
    if (count > 1) p[1] = four.y;
    if (count > 2) p[2] = four.z;
    if (count > 3) p[3] = four.w;
  };
  if constexpr (kOneRun) {
    const auto end_run = [&](int, const typename T::Sums& of_run) {
      T::for_each_four(of_run, put);
    };
    sum_runs<T>(shared.tiles, slices, first_run, first_run + 1, end_run);
  } else {
    if (begin > 0)
      SharedTotal<T>::set(shared.total, [&](int i, int j) {
        const float* const p = place(i, j);
        const int count = left(i, j);
        return float4{count > 0 ? p[0] : 0, count > 1 ? p[1] : 0, count > 2 ? p[2] : 0,
                      count > 3 ? p[3] : 0};
      });
    const auto end_run = [&](int run, const typename T::Sums& of_run) {
      SharedTotal<T>::add(shared.total, run == 0, of_run);
    };
    sum_runs<T>(shared.tiles, slices, first_run, (end + s.run_tiles - 1) >> slices.run_shift,
                end_run);
    SharedTotal<T>::for_each_four(shared.total, put);
  }
}

// --- other layers: half a warp has the 16 lanes of a few sums

constexpr int kEach = 4;  // filters, and channels, of a thread
constexpr int kHalves = 8;

// Of whole groups.
__global__ void __launch_bounds__(kLanes* kHalves)
    lane_sums_kernel(Sums s, Slots slots, Floats sums) {
  const int slot = static_cast<int>(blockIdx.z), group = slots.group(slot);
  const int point = static_cast<int>(blockIdx.y), across = (s.channels + kEach - 1) / kEach;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int part = static_cast<int>(blockIdx.x) * kHalves + static_cast<int>(threadIdx.x) / kLanes;
  const int k0 = part / across * kEach, e0 = part % across * kEach;
  const bool last_down = point / s.axis == s.axis - 1, last_across = point % s.axis == s.axis - 1;
  const std::int64_t step = slots.width * kLanes;
  const float* const v = slots.of(slot) + (point * s.channels + e0) * step + lane;
  const float* const g =
      slots.of(slot) + s.axis * s.axis * s.channels * step + (point * s.filters + k0) * step + lane;
  float chains[kEach][kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) chains[i][j] = 0;
  for (int t = 0; t < slots.end(slot); ++t) {
    if (!slots.has(t % slots.groups.tiles, last_down, last_across)) continue;
    float a[kEach], b[kEach];
    const std::int64_t column = static_cast<std::int64_t>(t) * kLanes;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      a[i] = k0 + i < s.filters ? g[i * step + column] : 0.0f;
      b[i] = k0 < s.filters && e0 + i < s.channels ? v[i * step + column] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) chains[i][j] = std::fma(a[i], b[j], chains[i][j]);
  }
  float* const to = sums.of(slots.replica(slot)) + s.at(group, point);
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const float sum = lane_tree(chains[i][j]);
      if (lane == 0 && k0 + i < s.filters && e0 + j < s.channels)
        to[(k0 + i) * s.channels + e0 + j] = sum;
    }
}

// --- from the points to the filters

template <int kM>
__global__ void __launch_bounds__(kTransformThreads, 1)
    filter_gradients_kernel(WinogradLayer layer, Sums s, ConstFloats sums, Floats dw) {
  const int e = static_cast<int>(blockIdx.x * kTransformThreads + threadIdx.x),
            k = static_cast<int>(blockIdx.y);
  if (e >= s.channels) return;
  constexpr int kPoints = kM + 2;
  float d[kPoints][kPoints];
  const float* const from = sums.of(blockIdx.z) + static_cast<std::int64_t>(k) * s.channels + e;
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j) d[i][j] = from[s.at(0, i * kPoints + j)];
  Transforms2d<kM>::gt(d);
  float* const to = dw.of(blockIdx.z);
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll
    for (int t = 0; t < 3; ++t) to[layer.weight(k, e, r, t)] = d[r][t];
}

// The runs of a group in order, where each has a place of its own; then the tree over the groups,
// left where the first group's sums were.
__global__ void __launch_bounds__(kTransformThreads, 1)
    add_groups_kernel(Sums s, Groups groups, Floats sums) {
  const std::int64_t count = s.at(0, s.points());
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kTransformThreads + threadIdx.x;
  if (i >= count) return;
  float* const from = sums.of(blockIdx.z) + i;
  TreeTotal total;
#pragma unroll 1
  for (int group = 0; group < s.groups; ++group) {
    float of_group = from[s.at(group, 0)];
    const int runs = s.runs == 1 ? 1 : (groups.count(group) + s.run_tiles - 1) / s.run_tiles;
#pragma unroll 1
    for (int run = 1; run < runs; ++run) of_group = of_group + from[s.at(group, 0, run)];
    total.add(of_group);
  }
  from[0] = total.total();
}

// --- the launches

struct Plan {
  WinogradLayer layer;
  winograd::Tiles down, across;
  Sums sums;
  Groups groups;

  std::int64_t position_floats() const {
    return std::int64_t{kLanes} * sums.points() * (sums.filters + sums.channels);
  }
  // Positions for which a replica has memory.
  std::int64_t memory() const {
    return std::min<std::int64_t>(
        std::max<std::int64_t>(kMostPointFloats / position_floats(), least()),
        std::int64_t{groups.groups} * groups.group_positions);
  }
  // What can be summed apart: a run, or a group.
  int least() const {
    return sums.run_tiles == 0 ? groups.group_positions
                               : std::min(sums.run_tiles, groups.group_positions);
  }
  std::int64_t sum_floats() const { return (sums.floats() + 3) / 4 * 4; }
  std::int64_t scratch() const { return sum_floats() + memory() * position_floats(); }

  // As many slots as there is memory for: of whole groups, or of parts of nearly the same width.
  Slots slots(int replicas) const {
    const std::int64_t most =
        std::min<std::int64_t>(memory() / least() * least(), groups.group_positions);
    const std::int64_t times = (groups.group_positions + most - 1) / most,
                       each = (groups.group_positions + times - 1) / times,
                       width = std::min<std::int64_t>((each + least() - 1) / least() * least(),
                                                      groups.group_positions);
    const std::int64_t count = std::min<std::int64_t>(groups.groups, memory() / width) * replicas;
    return {groups,
            down,
            across,
            0,
            static_cast<int>(count),
            0,
            static_cast<int>(width),
            static_cast<int>(memory() / width),
            width * position_floats(),
            {}};
  }
};

// Layers of so few filters and channels have one small tile at each point.
constexpr int kNarrow = 32;

// Calls f with the tile of a wide layer's products.
template <typename F>
void with_wide_tile(const Sums& s, const F& f) {
  if (s.filters > 64 && s.channels > 32)
    f(Tile<128, 64, 8, 8>());
  else if (s.filters > 32 && s.channels > 32)
    f(Tile<64, 64, 8, 4>());
  else if (s.filters > 32)
    f(Tile<64, 32, 8, 4>());
  else if (s.channels > 32)
    f(Tile<32, 64, 4, 8>());
  else if (s.filters > 16)
    f(Tile<32, 32, 4, 4>());
  else
    f(Tile<16, 32, 4, 4>());
}

// The blocks of a slot's sums at one point.
std::int64_t sum_blocks(const Sums& s) {
  if (s.run_tiles == 0)
    return blocks_of(std::int64_t{blocks_of(s.filters, kEach)} * blocks_of(s.channels, kEach),
                     kHalves);
  std::int64_t blocks = 0;
  with_wide_tile(s, [&](auto tile) {
    using T = decltype(tile);
    blocks = std::int64_t{blocks_of(s.filters, T::kM)} * blocks_of(s.channels, T::kN);
  });
  return blocks;
}

Plan plan_of(const ConvShape& shape) {
  const WinogradLayer s = winograd_layer(shape);
  const int m = s.tile_outputs(s.out_height, s.out_width);
  Plan plan{s, winograd::Tiles(s.out_height, m), winograd::Tiles(s.out_width, m), {}, {}};
  Groups& groups = plan.groups;
  Sums& sums = plan.sums;
  groups.images = s.images;
  groups.tiles = static_cast<int>(plan.down.count * plan.across.count);
  sums.axis = m + 2, sums.filters = s.filters, sums.channels = s.phased(), sums.runs = 1;
  const std::int64_t blocks = (s.images + kLanes - 1) / kLanes;
  std::int64_t group_blocks = 2;
  if (winograd::is_wide(s.phased(), s.filters)) {
    constexpr std::int64_t kGroupTiles = 32, kMostSums = 5 << 20;  // of the contract
    const std::int64_t most = std::max<std::int64_t>(
        1, std::min(blocks * groups.tiles / kGroupTiles, kMostSums / sums.at(1, 0)));
    group_blocks = (blocks + most - 1) / most;
    sums.run_tiles = s.phased() <= 64 ? 8 : 4;
  }
  group_blocks = std::min(group_blocks, blocks);
  groups.groups = sums.groups = static_cast<int>((blocks + group_blocks - 1) / group_blocks);
  groups.group_positions = static_cast<int>(group_blocks) * groups.tiles;
  groups.positions = static_cast<int>(blocks) * groups.tiles;
  // Where a replica has few blocks of sums, their runs are made side by side.
  constexpr std::int64_t kFewBlocks = 128;
  if (sums.run_tiles > 0 && sums.filters <= kNarrow && sums.channels <= kNarrow &&
      sum_blocks(sums) * sums.points() * groups.groups <= kFewBlocks)
    sums.runs = (groups.group_positions + sums.run_tiles - 1) / sums.run_tiles;
  return plan;
}

void launch_sums(const Launch& launch, const Sums& s, const Slots& slots, Floats sums) {
  const dim3 blocks{
      static_cast<unsigned>(sum_blocks(s)), static_cast<unsigned>(s.points()),
      static_cast<unsigned>(slots.count) * (s.runs > 1 ? blocks_of(slots.width, s.run_tiles) : 1)};
  if (s.run_tiles == 0) {
    simt::launch(lane_sums_kernel, {.blocks = blocks, .threads = {kLanes * kHalves, 1, 1}},
                 launch.stream, s, slots, sums);
    return;
  }
  with_wide_tile(s, [&](auto tile) {
    using T = decltype(tile);
    with_constant(s.runs > 1, [&](auto one_run) {
      constexpr bool kOneRun = decltype(one_run)::value && T::kM * T::kN <= kNarrow * kNarrow;
      simt::launch(wide_sums_kernel<T, kOneRun>,
                   {.blocks = blocks,
                    .threads = {T::kThreads, 1, 1},
                    .shared_bytes = sizeof(RunsMemory<T, kOneRun>)},
                   launch.stream, s, slots, sums);
    });
  });
}

template <int kM, typename Images, typename Gradients>
void launch_plan(const Launch& launch, const Plan& plan, const Images& images,
                 const Gradients& gradients, Floats dw, Floats scratch) {
  const auto replicas = static_cast<unsigned>(launch.replicas);
  const Sums& s = plan.sums;
  Slots slots = plan.slots(launch.replicas);
  slots.memory = scratch.from(plan.sum_floats());
  const int all = launch.replicas * plan.groups.groups, most = slots.count;
  for (slots.first = 0; slots.first < all; slots.first += most) {
    slots.count = std::min(most, all - slots.first);
    for (slots.begin = 0; slots.begin < plan.groups.group_positions; slots.begin += slots.width) {
      SlotColumns columns{slots, plan.down, plan.across, slots.count * slots.width * kLanes, 0};
      const unsigned across = blocks_of(columns.count, kTransformThreads);
      launch.begin("to points");
      simt::launch(points_kernel<kM, PointsOf::kPatches, Images, SlotColumns>,
                   {.blocks = {across, static_cast<unsigned>(s.channels)},
                    .threads = {kTransformThreads, 1, 1}},
                   launch.stream, images, columns);
      columns.offset = std::int64_t{s.points()} * s.channels * slots.width * kLanes;
      simt::launch(points_kernel<kM, PointsOf::kGradients, Gradients, SlotColumns>,
                   {.blocks = {across, static_cast<unsigned>(s.filters)},
                    .threads = {kTransformThreads, 1, 1}},
                   launch.stream, gradients, columns);
      launch.begin(kProductsPhase);
      launch_sums(launch, s, slots, scratch);
    }
  }
  launch.begin("filters");
  if (s.groups > 1 || s.runs > 1)
    simt::launch(add_groups_kernel,
                 {.blocks = {blocks_of(s.at(0, s.points()), kTransformThreads), 1, replicas},
                  .threads = {kTransformThreads, 1, 1}},
                 launch.stream, s, plan.groups, scratch);
  simt::launch(filter_gradients_kernel<kM>,
               {.blocks = {blocks_of(s.channels, kTransformThreads),
                           static_cast<unsigned>(s.filters), replicas},
                .threads = {kTransformThreads, 1, 1}},
               launch.stream, plan.layer, s, scratch, dw);
}

}  // namespace

std::int64_t conv2d_winograd_grad_weight_scratch(const ConvShape& shape) {
  return plan_of(shape).scratch();
}

void conv2d_winograd_grad_weight(const Launch& launch, const ConvShape& shape, ConstFloats x,
                                 const WinogradGradient& gradient, Floats dw, Floats scratch,
                                 const WinogradNorm& norm) {
  const Plan plan = plan_of(shape);
  winograd::for_tile(plan.down.m, [&](auto m) {
    with_constant(norm.affine.first != nullptr, [&](auto normalises) {
      with_constant(gradient.places.first != nullptr, [&](auto pools) {
        const ImageSource<decltype(normalises)::value> images{plan.layer, x, norm.affine,
                                                              norm.activation};
        const GradientSource<decltype(pools)::value> gradients{plan.layer, gradient.dy,
                                                               gradient.places, 0, 0};
        launch_plan<decltype(m)::value>(launch, plan, images, gradients, dw, scratch);
      });
    });
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
