// conv2d_winograd and conv2d_winograd_grad_input, in three kernels: the points of the tiles, at
// each point a product of the filters by the tiles in runs of 64 channels, and back. The tiles of
// all replicas are columns of one product where the replicas share weights; as many at a time as
// their scratch memory has room for.
#include "backend/cuda/kernels/conv/winograd.h"
#include "backend/cuda/kernels/conv/winograd_points.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kRun = 64;     // channels of one chain
constexpr int kPiece = 128;  // pieces are multiples of it: a tile of a product lies in one
constexpr int kFilterThreads = 64;

// Some columns of all, in the order (replica, tile, image). Their points lie in pieces, one in the
// memory of each replica.
struct PieceColumns {
  winograd::Tiles down, across;
  int images, tiles, first, count;
  int piece;  // columns
  Floats points;

  __device__ bool at(int local, Column& to) const {
    const int column = first + local, n = column % images, tile = column / images % tiles;
    const int wide = static_cast<int>(across.count);
    to = {static_cast<unsigned>(column / images / tiles),
          tile / wide,
          tile % wide,
          n,
          true,
          points.of(static_cast<unsigned>(local / piece)) + local % piece,
          piece};
    return true;
  }
  // Whether some of these columns have the point.
  __device__ bool have(int local, int end, bool last_down, bool last_across) const {
    if (!last_down && !last_across) return true;
    const int begin_tile = (first + local) / images, end_tile = (first + end - 1) / images + 1;
    const int wide = static_cast<int>(across.count);
    for (int t = begin_tile; t < end_tile; ++t) {
      const int tile = t % tiles;
      if ((!last_down || down.is_whole(tile / wide)) &&
          (!last_across || across.is_whole(tile % wide)))
        return true;
    }
    return false;
  }
};

// filters[point][from][to]: of the chains' channels and those of the result, `row` floats apart.
template <int kM, bool kBackward>
__global__ void __launch_bounds__(kFilterThreads)
    filter_points_kernel(WinogradLayer s, int row, ConstFloats w, Floats filters) {
  const int to = static_cast<int>(blockIdx.x * kFilterThreads + threadIdx.x);
  const int from = static_cast<int>(blockIdx.y), channels = static_cast<int>(gridDim.y);
  const int k = kBackward ? from : to, e = kBackward ? to : from;
  if (to >= (kBackward ? s.phased() : s.filters)) return;
  constexpr int kPoints = kM + 2;
  float d[kPoints][kPoints];
  const float* const weights = w.of(blockIdx.z);
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll
    for (int t = 0; t < 3; ++t)
      d[r][t] = weights[s.weight(k, e, kBackward ? 2 - r : r, kBackward ? 2 - t : t)];
  Transforms2d<kM>::g(d);
  float* const points = filters.of(blockIdx.z) + static_cast<std::int64_t>(from) * row + to;
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j)
      points[static_cast<std::int64_t>(i * kPoints + j) * channels * row] = d[i][j];
}

struct ProductShape {
  int axis;  // points of an axis
  int depth, rows, row;
};

// A thread's own floats of the slices.
template <typename T>
struct PointSlices {
  const float *filters, *patches;  // of the slice before the first at the start
  int row, piece;                  // floats between two terms
  int depth, at;

  __device__ PointSlices(const ProductShape& s, const float* first_filters, int first_row,
                         const float* first_patches, int columns)
      : filters(first_filters + (T::template own_term<T::kM>() - kSlice) * s.row +
                within(first_row + T::template own_row<T::kM>(), s.row)),
        patches(first_patches + (T::template own_term<T::kN>() - kSlice) * columns +
                T::template own_row<T::kN>()),
        row(s.row),
        piece(columns),
        depth(s.depth),
        at(-kSlice) {}
  // Sums of rows beyond the last are of the last ones, and nobody writes them.
  __device__ static int within(int own_row, int rows) {
    return own_row < rows ? own_row : rows - 4;
  }
  __device__ bool next() {
    at += kSlice, filters += kSlice * row, patches += kSlice * piece;
    return at < depth;
  }
  __device__ int run() const { return at / kRun; }
  __device__ int terms() const { return depth - at < kSlice ? depth - at : kSlice; }
  __device__ void fetch(typename T::Ahead& ahead) const {
    const int left = depth - at;
    T::fetch_own_rows(ahead.a, [&](int term) {
      return T::template own_term<T::kM>() + term < left ? load4(filters + term * row) : zero4();
    });
    T::fetch_own_rows(ahead.b, [&](int term) {
      return T::template own_term<T::kN>() + term < left ? load4(patches + term * piece) : zero4();
    });
  }
  __device__ void put(const typename T::Ahead& ahead, typename T::Shared& shared,
                      int buffer) const {
    T::put_rows(ahead.a, shared.a[buffer]);
    T::put_rows(ahead.b, shared.b[buffer]);
  }
};

// products[point][row][column] from filters[point][depth][row] and patches[point][depth][column].
template <typename T, bool kOneRun>
__global__ void __launch_bounds__(T::kThreads, product_blocks<T>())
    products_kernel(ProductShape s, PieceColumns columns, const float* filters, Floats products) {
  auto& shared = simt::shared<RunsMemory<T, kOneRun>>();
  const int point = static_cast<int>(blockIdx.z), first_row = static_cast<int>(blockIdx.y) * T::kM;
  const int local = static_cast<int>(blockIdx.x) * T::kN;
  const int end = local + T::kN < columns.count ? local + T::kN : columns.count;
  if (!columns.have(local, end, point / s.axis == s.axis - 1, point % s.axis == s.axis - 1)) return;
  const auto replica = static_cast<unsigned>(local / columns.piece);
  const int column = local % columns.piece;
  const std::int64_t piece = columns.piece;
  PointSlices<T> slices(s, filters + static_cast<std::int64_t>(point) * s.depth * s.row, first_row,
                        columns.points.of(replica) + point * s.depth * piece + column,
                        columns.piece);
  float* const to = products.of(replica) + point * s.rows * piece + column;
  const auto put = [&](int i, int j, const float4& four) {
    if (first_row + i < s.rows) store4(to + (first_row + i) * piece + j, four);
  };
  if constexpr (kOneRun) {
    const auto end_run = [&](int, const typename T::Sums& sums) { T::for_each_four(sums, put); };
    sum_runs<T>(shared.tiles, slices, 0, 1, end_run);
  } else {
    const auto end_run = [&](int run, const typename T::Sums& sums) {
      SharedTotal<T>::add(shared.total, run == 0, sums);
    };
    sum_runs<T>(shared.tiles, slices, 0, (s.depth + kRun - 1) / kRun, end_run);
    SharedTotal<T>::for_each_four(shared.total, put);
  }
}

// --- what becomes of the outputs of a tile

template <bool kPools>
struct OutputSink {
  WinogradLayer s;
  Floats y, places;

  template <int kM, int kPoints>
  __device__ void put(const float (&d)[kPoints][kPoints], const Column& column, int k, int top,
                      int left, int rows, int across) const {
    const int height = kPools ? s.out_height / 2 : s.out_height,
              width = kPools ? s.out_width / 2 : s.out_width;
    const std::int64_t at = static_cast<std::int64_t>(k) * height * width * s.images + column.n;
    float* const to = y.of(column.replica) + at;
    if constexpr (kPools) {
      float* const places_to = places.first == nullptr ? nullptr : places.of(column.replica) + at;
#pragma unroll
      for (int i = 0; i < kM; i += 2)
#pragma unroll
        for (int j = 0; j < kM; j += 2) {
          float most = d[i][j];
          int place = 0;
#pragma unroll
          for (int other = 1; other < 4; ++other) {
            const float next = d[i + other / 2][j + other % 2];
            if (next > most || next != next) most = next, place = other;
          }
          const std::int64_t pixel =
              (static_cast<std::int64_t>((top + i) / 2) * width + (left + j) / 2) * s.images;
          to[pixel] = most;
          if (places_to != nullptr) places_to[pixel] = static_cast<float>(place);
        }
    } else {
#pragma unroll
      for (int i = 0; i < kM; ++i)
#pragma unroll
        for (int j = 0; j < kM; ++j)
          if (i < rows && j < across && top + i < height && left + j < width)
            to[(static_cast<std::int64_t>(top + i) * width + left + j) * s.images] = d[i][j];
    }
  }
};

struct InputSink {
  WinogradLayer s;
  Floats dx;
  int top, left;  // the index of output 0

  template <int kM, int kPoints>
  __device__ void put(const float (&d)[kPoints][kPoints], const Column& column, int e, int first_i,
                      int first_j, int rows, int across) const {
    const int c = e % s.channels;
    const int h0 = s.stride_down * (top + first_i) + s.down_of(e) - s.pad_top,
              v0 = s.stride_across * (left + first_j) + s.across_of(e) - s.pad_left;
    float* const to = dx.of(column.replica) +
                      static_cast<std::int64_t>(c) * s.in_height * s.in_width * s.images + column.n;
#pragma unroll
    for (int i = 0; i < kM; ++i)
#pragma unroll
      for (int j = 0; j < kM; ++j) {
        const int h = h0 + s.stride_down * i, v = v0 + s.stride_across * j;
        if (i < rows && j < across && h >= 0 && h < s.in_height && v >= 0 && v < s.in_width)
          to[(static_cast<std::int64_t>(h) * s.in_width + v) * s.images] = d[i][j];
      }
  }
};

template <int kM, typename Sink>
__global__ void __launch_bounds__(kTransformThreads, transform_blocks(kM))
    outputs_kernel(Sink sink, PieceColumns columns) {
  const int local = static_cast<int>(blockIdx.x * kTransformThreads + threadIdx.x);
  if (local >= columns.count) return;
  const int channel = static_cast<int>(blockIdx.y), channels = static_cast<int>(gridDim.y);
  Column column;
  if (!columns.at(local, column)) return;
  const bool whole_down = columns.down.is_whole(column.i),
             whole_across = columns.across.is_whole(column.j);
  constexpr int kPoints = kM + 2;
  float d[kPoints][kPoints];
  // In place of a point that the tile lacks, which is not used, point 0 is read.
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j) {
      const bool there = (i <= kM || whole_down) && (j <= kM || whole_across);
      d[i][j] = column.at(there ? i * kPoints + j : 0, channel, channels);
    }
  Transforms2d<kM>::at(d, whole_down, whole_across);
  sink.template put<kM>(d, column, channel, static_cast<int>(columns.down.begin(column.i)),
                        static_cast<int>(columns.across.begin(column.j)), whole_down ? kM : kM - 1,
                        whole_across ? kM : kM - 1);
}

// --- the launches

// A pass of such tiles, from `depth` channels to `rows`.
struct Pass {
  winograd::Tiles down, across;
  int images, depth, rows;

  int axis() const { return static_cast<int>(down.m) + 2; }
  std::int64_t points() const { return std::int64_t{axis()} * axis(); }
  int row() const { return (rows + 3) / 4 * 4; }
  int tiles() const { return static_cast<int>(down.count * across.count); }
  std::int64_t columns() const { return std::int64_t{tiles()} * images; }
  // Columns of a replica that are at work at a time, nearly the same each time.
  std::int64_t piece() const {
    const std::int64_t most = std::max<std::int64_t>(
                           kMostPointFloats / (points() * (depth + rows)) / kPiece, 1),
                       all = (columns() + kPiece - 1) / kPiece, times = (all + most - 1) / most;
    return (all + times - 1) / times * kPiece;
  }
  std::int64_t filters() const { return points() * depth * row(); }
  std::int64_t scratch() const { return filters() + points() * (depth + rows) * piece(); }
};

Pass forward_pass(const WinogradLayer& s) {
  const int m = s.tile_outputs(s.out_height, s.out_width);
  return {winograd::Tiles(s.out_height, m), winograd::Tiles(s.out_width, m), s.images, s.phased(),
          s.filters};
}
// The indices of an axis at which some phase has a pixel.
struct Indices {
  int first, count;
  Indices(int length, int stride, int pad)
      : first(pad / stride), count((length - 1 + pad) / stride - pad / stride + 1) {}
};
Pass backward_pass(const WinogradLayer& s) {
  const int rows = Indices(s.in_height, s.stride_down, s.pad_top).count,
            columns = Indices(s.in_width, s.stride_across, s.pad_left).count;
  const int m = s.tile_outputs(rows, columns);
  return {winograd::Tiles(rows, m), winograd::Tiles(columns, m), s.images, s.filters, s.phased()};
}

template <typename T>
void launch_products(const Launch& launch, const Pass& pass, const PieceColumns& columns,
                     const float* filters, Floats products) {
  const ProductShape shape{pass.axis(), pass.depth, pass.rows, pass.row()};
  // Tiles of 8x8 sums have no registers for another kind.
  constexpr bool kSmall = T::kSumsM * T::kSumsN < 64;
  with_constant(pass.depth <= kRun && kSmall, [&](auto one_run) {
    constexpr bool kOneRun = decltype(one_run)::value && kSmall;
    simt::launch(products_kernel<T, kOneRun>,
                 {.blocks = {blocks_of(columns.count, T::kN), blocks_of(pass.rows, T::kM),
                             static_cast<unsigned>(pass.points())},
                  .threads = {T::kThreads, 1, 1},
                  .shared_bytes = sizeof(RunsMemory<T, kOneRun>)},
                 launch.stream, shape, columns, filters, products);
  });
}

// Blocks run in waves. The largest tile has the fewest loads; but if a smaller one's blocks fill
// the waves of a large GPU better, these end earlier.
bool has_largest_tile(const Pass& pass, std::int64_t columns) {
  using Large = Tile<128, 128, 8, 8>;
  using Small = Tile<128, 64, 8, 8>;
  constexpr int kMultiprocessors = 132;
  // In sums that a multiprocessor makes.
  const auto time = [&](auto tile) {
    using T = decltype(tile);
    const std::int64_t blocks =
        pass.points() * blocks_of(columns, T::kN) * blocks_of(pass.rows, T::kM);
    return blocks_of(blocks, kMultiprocessors * product_blocks<T>()) * product_blocks<T>() * T::kM *
           T::kN;
  };
  return sizeof(RunsMemory<Large, false>) <= simt::most_shared_bytes() &&
         time(Large()) * 9 <= time(Small()) * 10;
}

template <int kM, bool kBackward, typename Source, typename Sink>
void launch_pass(const Launch& launch, const WinogradLayer& s, const Pass& pass,
                 const Source& source, ConstFloats w, const Sink& sink, Floats scratch) {
  launch.begin("filters");
  simt::launch(filter_points_kernel<kM, kBackward>,
               {.blocks = {blocks_of(pass.rows, kFilterThreads), static_cast<unsigned>(pass.depth)},
                .threads = {kFilterThreads, 1, 1}},
               launch.stream, s, pass.row(), w, scratch);
  const std::int64_t all = pass.columns() * launch.replicas, piece = pass.piece();
  const std::int64_t step = launch.replicas * piece;
  const Floats points = scratch.from(pass.filters()),
               products = points.from(pass.points() * pass.depth * piece);
  for (std::int64_t first = 0; first < all; first += step) {
    PieceColumns columns{pass.down,
                         pass.across,
                         pass.images,
                         pass.tiles(),
                         static_cast<int>(first),
                         static_cast<int>(std::min(step, all - first)),
                         static_cast<int>(piece),
                         points};
    const unsigned across = blocks_of(columns.count, kTransformThreads);
    launch.begin("to points");
    simt::launch(points_kernel<kM, PointsOf::kPatches, Source, PieceColumns>,
                 {.blocks = {across, static_cast<unsigned>(pass.depth)},
                  .threads = {kTransformThreads, 1, 1}},
                 launch.stream, source, columns);
    launch.begin(kProductsPhase);
    if (pass.rows > 64 && has_largest_tile(pass, columns.count))
      launch_products<Tile<128, 128, 8, 8>>(launch, pass, columns, scratch.first, products);
    else if (pass.rows > 64)
      launch_products<Tile<128, 64, 8, 8>>(launch, pass, columns, scratch.first, products);
    else if (pass.rows > 32)
      launch_products<Tile<64, 128, 8, 8>>(launch, pass, columns, scratch.first, products);
    else if (pass.rows > 16)
      launch_products<Tile<32, 128, 4, 8>>(launch, pass, columns, scratch.first, products);
    else
      launch_products<Tile<16, 128, 4, 8>>(launch, pass, columns, scratch.first, products);
    columns.points = products;
    launch.begin("to outputs");
    simt::launch(outputs_kernel<kM, Sink>,
                 {.blocks = {across, static_cast<unsigned>(pass.rows)},
                  .threads = {kTransformThreads, 1, 1}},
                 launch.stream, sink, columns);
  }
}

// Calls f(launch, replica) once for replicas that share weights, otherwise for each.
template <typename F>
void for_shared_weights(const Launch& launch, ConstFloats w, const F& f) {
  if (w.stride == 0 || launch.replicas == 1) return f(launch, 0);
  Launch one = launch;
  one.replicas = 1;
  for (int replica = 0; replica < launch.replicas; ++replica) f(one, replica);
}
template <typename T>
Each<T> of_replica(const Each<T>& x, int replica) {
  return x.first == nullptr ? x : x.from(replica * x.stride);
}

}  // namespace

std::int64_t conv2d_winograd_scratch(const ConvShape& shape) {
  return forward_pass(winograd_layer(shape)).scratch();
}
std::int64_t conv2d_winograd_grad_input_scratch(const ConvShape& shape) {
  return backward_pass(winograd_layer(shape)).scratch();
}

void conv2d_winograd(const Launch& launch, const ConvShape& shape, ConstFloats x, ConstFloats w,
                     const WinogradResult& result, Floats scratch, const WinogradNorm& norm) {
  const WinogradLayer s = winograd_layer(shape);
  const Pass pass = forward_pass(s);
  for_shared_weights(launch, w, [&](const Launch& some, int r) {
    winograd::for_tile(pass.down.m, [&](auto m) {
      with_constant(norm.affine.first != nullptr, [&](auto normalises) {
        with_constant(result.pools, [&](auto pools) {
          const ImageSource<decltype(normalises)::value> source{
              s, of_replica(x, r), of_replica(norm.affine, r), norm.activation};
          const OutputSink<decltype(pools)::value> sink{s, of_replica(result.y, r),
                                                        of_replica(result.places, r)};
          launch_pass<decltype(m)::value, false>(some, s, pass, source, of_replica(w, r), sink,
                                                 of_replica(scratch, r));
        });
      });
    });
  });
}

void conv2d_winograd_grad_input(const Launch& launch, const ConvShape& shape,
                                const WinogradGradient& gradient, ConstFloats w, Floats dx,
                                Floats scratch) {
  const WinogradLayer s = winograd_layer(shape);
  const Pass pass = backward_pass(s);
  const int top = Indices(s.in_height, s.stride_down, s.pad_top).first,
            left = Indices(s.in_width, s.stride_across, s.pad_left).first;
  for_shared_weights(launch, w, [&](const Launch& some, int r) {
    winograd::for_tile(pass.down.m, [&](auto m) {
      with_constant(gradient.places.first != nullptr, [&](auto pools) {
        const GradientSource<decltype(pools)::value> source{
            s, of_replica(gradient.dy, r), of_replica(gradient.places, r), top - 2, left - 2};
        const InputSink sink{s, of_replica(dx, r), top, left};
        launch_pass<decltype(m)::value, true>(some, s, pass, source, of_replica(w, r), sink,
                                              of_replica(scratch, r));
      });
    });
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
