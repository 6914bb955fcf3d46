#include <algorithm>
#include <type_traits>
#include <utility>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/kernels/tile.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kRun = 256;  // terms of one chain
// Blocks that keep a GPU busy, if they have kBusyThreads; where tiles are fewer, blocks share the
// runs of one.
constexpr std::int64_t kBusyBlocks = 256, kBusyThreads = 128;
// Fewer large tiles than these leave multiprocessors idle: then they are small ones.
constexpr std::int64_t kFewTiles = 80;

// How an operand is read: along what lies side by side, four floats at once where they are aligned.
enum class Reading : std::uint8_t { kRows4, kTerms4, kRows, kTerms };

// An operand as rows of terms; those of b are the columns of the product.
struct Operand {
  std::int64_t row, term;
  int rows, terms;
  Reading reading;
};

__device__ inline bool reads_rows(Reading r) { return r == Reading::kRows4 || r == Reading::kRows; }

// Four neighbours from (row, term) on, +0 beyond the end.
__device__ inline float4 read_four(const Operand& o, const float* from, int row, int term) {
  float4 v = zero4();
  if (row >= o.rows || term >= o.terms) return v;
  const float* const p = from + row * o.row + term * o.term;
  if (o.reading == Reading::kRows4 || o.reading == Reading::kTerms4 ||
      (o.reading == Reading::kTerms && seeded(SeededFault::kReadsBeyondEnd)))
    return load4(p);
  const bool rows = o.reading == Reading::kRows;
  const std::int64_t step = rows ? o.row : o.term;
  const int left =
      (rows ? o.rows - row : o.terms - term) - (seeded(SeededFault::kEdgeOffByOne) ? 1 : 0);
  v.x = p[0];
  if (left > 1) v.y = p[step];
  if (left > 2) v.z = p[2 * step];
  if (left > 3) v.w = p[3 * step];
  return v;
}

// The slices of a block's runs.
template <typename T>
struct MatmulSlices {
  const Operand &a, &b;
  const float *from_a, *from_b;
  int row, column, at, end;

  __device__ bool next() {
    at += kSlice;
    return at < end;
  }
  __device__ int run() const { return at / kRun; }
  __device__ int terms() const { return end - at < kSlice ? end - at : kSlice; }
  template <typename Fetched>
  __device__ void fetch(const Operand& o, const float* from, int first, Fetched& to) const {
    if (reads_rows(o.reading))
      T::fetch_rows(to, [&](int term, int r) { return read_four(o, from, first + r, at + term); });
    else
      T::fetch_terms(to, [&](int term, int r) { return read_four(o, from, first + r, at + term); });
  }
  __device__ void fetch(typename T::Ahead& ahead) const {
    fetch(a, from_a, row, ahead.a);
    fetch(b, from_b, column, ahead.b);
  }
  __device__ void put(const typename T::Ahead& ahead, typename T::Shared& shared,
                      int buffer) const {
    if (reads_rows(a.reading))
      T::put_rows(ahead.a, shared.a[buffer]);
    else
      T::put_terms(ahead.a, shared.a[buffer]);
    if (reads_rows(b.reading))
      T::put_rows(ahead.b, shared.b[buffer]);
    else
      T::put_terms(ahead.b, shared.b[buffer]);
  }
};

// Writes a tile to y with such distances, or adds it.
template <bool kAdds>
struct Result {
  MatrixLayout layout;
  int rows, columns;
  bool vector;  // four columns at once

  __device__ static void put(float* to, float value) {
    if constexpr (kAdds)
      *to = *to + value;
    else
      *to = value;
  }
  template <typename T>
  __device__ void write(const typename T::Sums& sums, float* y, int row, int column) const {
    T::for_each_four(sums, [&](int i, int j, const float4& v) {
      if (row + i >= rows || column + j >= columns) return;
      float* const to = y + (row + i) * layout.row + (column + j) * layout.column;
      if (vector) {
        float4 sum = v;
        if constexpr (kAdds) {
          const float4 before = load4(to);
          sum = {before.x + v.x, before.y + v.y, before.z + v.z, before.w + v.w};
        }
        return store4(to, sum);
      }
      const int left = columns - column - j;
      put(to, v.x);
      if (left > 1) put(to + layout.column, v.y);
      if (left > 2) put(to + 2 * layout.column, v.z);
      if (left > 3) put(to + 3 * layout.column, v.w);
    });
  }
};

template <typename T, bool kAdds>
__global__ void __launch_bounds__(T::kThreads, 1)
    matmul_kernel(Operand a, Operand b, Result<kAdds> result, ConstFloats from_a,
                  ConstFloats from_b, Floats y) {
  auto& shared = simt::shared<typename T::Shared>();
  const int row = static_cast<int>(blockIdx.y) * T::kM,
            column = static_cast<int>(blockIdx.x) * T::kN;
  MatmulSlices<T> slices{a,       b,      from_a.of(blockIdx.z), from_b.of(blockIdx.z), row, column,
                         -kSlice, a.terms};
  RunTotal<T> runs;
  sum_runs<T>(shared, slices, 0, (a.terms + kRun - 1) / kRun, runs);
  result.template write<T>(runs.total, y.of(blockIdx.z), row, column);
}

// The runs of a tile are shared among blocks; sums[run][row][column].
template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1)
    matmul_runs_kernel(Operand a, Operand b, Result<false> result, int tiles_across, int runs_each,
                       ConstFloats from_a, ConstFloats from_b, Floats sums) {
  auto& shared = simt::shared<typename T::Shared>();
  const int tile = static_cast<int>(blockIdx.x);
  const int row = tile / tiles_across * T::kM, column = tile % tiles_across * T::kN;
  const int runs = (a.terms + kRun - 1) / kRun, first = static_cast<int>(blockIdx.y) * runs_each,
            last = first + runs_each < runs ? first + runs_each : runs;
  MatmulSlices<T> slices{
      a,   b,      from_a.of(blockIdx.z), from_b.of(blockIdx.z),
      row, column, first * kRun - kSlice, last * kRun < a.terms ? last * kRun : a.terms};
  float* const to = sums.of(blockIdx.z);
  const auto end_run = [&](int run, const typename T::Sums& of_run) {
    result.template write<T>(of_run, to + run * result.layout.row * result.rows, row, column);
  };
  sum_runs<T>(shared, slices, first, last, end_run);
}

Reading reading_of(const Operand& o, bool aligned) {
  if (o.row == 1 && o.term != 1)
    return aligned && o.term % 4 == 0 && o.rows % 4 == 0 ? Reading::kRows4 : Reading::kRows;
  if (o.term == 1)
    return aligned && o.row % 4 == 0 && o.terms % 4 == 0 ? Reading::kTerms4 : Reading::kTerms;
  return Reading::kTerms;
}

std::int64_t large_tiles(const MatmulShape& s) {
  return ((s.rows + 63) / 64) * ((s.columns + 63) / 64);
}
std::int64_t runs_of(const MatmulShape& s) { return (s.depth + kRun - 1) / kRun; }
// Whether blocks share a tile's runs.
bool shares_runs(const MatmulShape& s) { return runs_of(s) >= 4 && large_tiles(s) < kBusyBlocks; }

template <typename T>
void launch_tiles(const Launch& launch, const MatmulShape& s, const Operand& a, const Operand& b,
                  ConstFloats from_a, ConstFloats from_b, Floats y, Floats scratch) {
  const auto replicas = static_cast<unsigned>(launch.replicas);
  const unsigned down = blocks_of(s.rows, T::kM), across = blocks_of(s.columns, T::kN);
  const int rows = static_cast<int>(s.rows), columns = static_cast<int>(s.columns);
  if (!shares_runs(s)) {
    const bool vector = s.y.column == 1 && s.y.row % 4 == 0 && columns % 4 == 0 && is_aligned(y);
    const auto start = [&](auto adds) {
      constexpr bool kAdds = decltype(adds)::value;
      simt::launch(matmul_kernel<T, kAdds>,
                   {.blocks = {across, down, replicas},
                    .threads = {T::kThreads, 1, 1},
                    .shared_bytes = sizeof(typename T::Shared)},
                   launch.stream, a, b, Result<kAdds>{s.y, rows, columns, vector}, from_a, from_b,
                   y);
    };
    return s.adds ? start(std::true_type()) : start(std::false_type());
  }
  const std::int64_t runs = runs_of(s), tiles = std::int64_t{down} * across;
  const std::int64_t busy = kBusyBlocks * kBusyThreads / T::kThreads;
  const std::int64_t parts = std::min(runs, (busy + tiles - 1) / tiles);
  const std::int64_t each = (runs + parts - 1) / parts;
  const Result<false> result{
      {s.columns, 1}, rows, columns, columns % 4 == 0 && is_aligned(scratch)};
  simt::launch(matmul_runs_kernel<T>,
               {.blocks = {static_cast<unsigned>(tiles), blocks_of(runs, each), replicas},
                .threads = {T::kThreads, 1, 1},
                .shared_bytes = sizeof(typename T::Shared)},
               launch.stream, a, b, result, static_cast<int>(across), static_cast<int>(each),
               from_a, from_b, scratch);
  launch_flat(launch, s.rows * s.columns, [=] __device__(std::int64_t i, unsigned replica) {
    const float* const sums = scratch.of(replica) + i;
    float total = sums[0];
    for (std::int64_t run = 1; run < runs; ++run) total = total + sums[run * s.rows * s.columns];
    y.of(replica)[i / s.columns * s.y.row + i % s.columns * s.y.column] = total;
  });
}

}  // namespace

std::int64_t matmul_scratch(const MatmulShape& s) {
  return shares_runs(s) ? runs_of(s) * s.rows * s.columns : 0;
}

void matmul(const Launch& launch, const MatmulShape& s, ConstFloats a, ConstFloats b, Floats y,
            Floats scratch) {
  PODIUM_CHECK(!s.adds || s.depth <= kRun);
  // The transposed product, if that has its columns side by side.
  if (s.y.row == 1 && s.y.column != 1) return matmul(launch, transposed(s), b, a, y, scratch);
  const int depth = static_cast<int>(s.depth);
  Operand left{s.a.row, s.a.column, static_cast<int>(s.rows), depth, {}},
      right{s.b.column, s.b.row, static_cast<int>(s.columns), depth, {}};
  left.reading = reading_of(left, is_aligned(a));
  right.reading = reading_of(right, is_aligned(b));
  if (s.rows >= 1024 && s.columns >= 1024)
    launch_tiles<Tile<128, 128, 8, 8>>(launch, s, left, right, a, b, y, scratch);
  else if (s.rows > 32 && s.columns > 32 && large_tiles(s) >= kFewTiles)
    launch_tiles<Tile<64, 64, 8, 4>>(launch, s, left, right, a, b, y, scratch);
  else if (s.rows <= 16)
    launch_tiles<Tile<16, 64, 4, 4>>(launch, s, left, right, a, b, y, scratch);
  else
    launch_tiles<Tile<32, 32, 4, 4>>(launch, s, left, right, a, b, y, scratch);
}

}  // namespace podium::PODIUM_CUDA_SPACE
