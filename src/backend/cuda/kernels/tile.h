// What the kernels that multiply matrices share: a block computes a tile of kM x kN sums of
// products, a thread kRegM x kRegN of them in its registers. The terms come in slices of 16,
// through shared memory in two buffers: while a slice is multiplied, the next is on its way into
// registers. For *.cu files only.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

inline constexpr int kSlice = 16;

__device__ inline float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline void store4(float* p, const float4& v) { *reinterpret_cast<float4*>(p) = v; }
__device__ inline float4 zero4() { return {0, 0, 0, 0}; }

// Whether all replicas' tensors may be read four floats at a time.
inline bool is_aligned(ConstFloats x) {
  return reinterpret_cast<std::uintptr_t>(x.first) % 16 == 0 && x.stride % 4 == 0;
}

template <int kTileM, int kTileN, int kRegM, int kRegN>
struct Tile {
  static constexpr int kM = kTileM, kN = kTileN, kSumsM = kRegM, kSumsN = kRegN;
  static constexpr int kColumns = kN / kRegN, kThreads = kM / kRegM * kColumns;
  // A thread has groups of four neighbouring rows, kM / kGroupsM apart, and of four columns.
  static constexpr int kGroupsM = kRegM / 4, kGroupsN = kRegN / 4;
  static_assert(kRegM % 4 == 0 && kRegN % 4 == 0);
  // A warp computes 4 x 8 groups: few banks of shared memory are read twice.
  static_assert(kColumns % 8 == 0 && kM / kRegM % 4 == 0);

  // Four floats between rows: columns written term by term lie in different banks.
  struct Shared {
    alignas(16) float a[2][kSlice][kM + 4];
    alignas(16) float b[2][kSlice][kN + 4];
  };
  // What a thread has fetched of the next slice.
  template <int kRows>
  struct Fetched {
    static constexpr int kLoads = kRows * kSlice / 4 / kThreads;
    static_assert(kLoads * kThreads * 4 == kRows * kSlice);
    float4 values[kLoads];
  };
  struct Ahead {
    Fetched<kM> a;
    Fetched<kN> b;
  };
  using Sums = float[kRegM][kRegN];

  __device__ static int thread() { return static_cast<int>(threadIdx.x % kThreads); }
  __device__ static int thread_row() {
    return thread() / 32 / (kColumns / 8) * 4 + thread() % 32 / 8;
  }
  __device__ static int thread_column() {
    return thread() / 32 % (kColumns / 8) * 8 + thread() % 8;
  }
  // The first of four rows of the tile, or columns.
  __device__ static int row(int group) { return group * (kM / kGroupsM) + thread_row() * 4; }
  __device__ static int column(int group) { return group * (kN / kGroupsN) + thread_column() * 4; }

  // load(term, row) gives rows `row` to `row` + 3 of a term.
  template <int kRows, typename Load>
  __device__ static void fetch_rows(Fetched<kRows>& to, const Load& load) {
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i) {
      const int at = i * kThreads + thread();
      to.values[i] = load(at / (kRows / 4), at % (kRows / 4) * 4);
    }
  }
  // The same by load(term), the rows and the term being the thread's own, and `term` others later.
  template <int kRows, typename Load>
  __device__ static void fetch_own_rows(Fetched<kRows>& to, const Load& load) {
    static_assert(kThreads % (kRows / 4) == 0);
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i)
      to.values[i] = load(i * (kThreads / (kRows / 4)));
  }
  template <int kRows>
  __device__ static int own_row() {
    return thread() % (kRows / 4) * 4;
  }
  template <int kRows>
  __device__ static int own_term() {
    return thread() / (kRows / 4);
  }
  template <int kRows>
  __device__ static void put_rows(const Fetched<kRows>& from, float (*to)[kRows + 4]) {
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i) {
      const int at = i * kThreads + thread();
      store4(&to[at / (kRows / 4)][at % (kRows / 4) * 4], from.values[i]);
    }
  }
  // load(term, row) gives terms `term` to `term` + 3 of a row.
  template <int kRows, typename Load>
  __device__ static void fetch_terms(Fetched<kRows>& to, const Load& load) {
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i) {
      const int at = i * kThreads + thread();
      to.values[i] = load(at % (kSlice / 4) * 4, at / (kSlice / 4));
    }
  }
  // The same by load(row), the terms and the row being the thread's own, and `row` others later.
  template <int kRows, typename Load>
  __device__ static void fetch_own_terms(Fetched<kRows>& to, const Load& load) {
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i)
      to.values[i] = load(i * (kThreads / (kSlice / 4)));
  }
  __device__ static int own_terms() { return thread() % (kSlice / 4) * 4; }
  __device__ static int own_terms_row() { return thread() / (kSlice / 4); }
  template <int kRows>
  __device__ static void put_terms(const Fetched<kRows>& from, float (*to)[kRows + 4]) {
#pragma unroll
    for (int i = 0; i < Fetched<kRows>::kLoads; ++i) {
      const int at = i * kThreads + thread(), term = at % (kSlice / 4) * 4, row = at / (kSlice / 4);
      to[term][row] = from.values[i].x;
      to[term + 1][row] = from.values[i].y;
      to[term + 2][row] = from.values[i].z;
      to[term + 3][row] = from.values[i].w;
    }
  }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRegM; ++i)
#pragma unroll
      for (int j = 0; j < kRegN; ++j) sums[i][j] = 0;
  }
  template <int kGroups>
  __device__ static void read(const float* from, int first, int step, float (&to)[4 * kGroups]) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const float4 v = load4(from + g * step + first);
      to[4 * g] = v.x, to[4 * g + 1] = v.y, to[4 * g + 2] = v.z, to[4 * g + 3] = v.w;
    }
  }
  // Adds one term to the thread's sums.
  __device__ static void multiply(const Shared& shared, int buffer, int term, Sums& sums) {
    float a[kRegM], b[kRegN];
    read<kGroupsM>(shared.a[buffer][term], row(0), kM / kGroupsM, a);
    read<kGroupsN>(shared.b[buffer][term], column(0), kN / kGroupsN, b);
#pragma unroll
    for (int i = 0; i < kRegM; ++i)
#pragma unroll
      for (int j = 0; j < kRegN; ++j) sums[i][j] = std::fma(a[i], b[j], sums[i][j]);
  }
  // Adds it to those of a group of columns.
  __device__ static void multiply(const Shared& shared, int buffer, int term, int group,
                                  Sums& sums) {
    float a[kRegM], b[4];
    read<kGroupsM>(shared.a[buffer][term], row(0), kM / kGroupsM, a);
    read<1>(shared.b[buffer][term], column(group), 0, b);
#pragma unroll
    for (int i = 0; i < kRegM; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[i][4 * group + j] = std::fma(a[i], b[j], sums[i][4 * group + j]);
  }
  __device__ static void multiply_slice(const Shared& shared, int buffer, int terms, Sums& sums) {
    if (terms == kSlice) {
#pragma unroll
      for (int term = 0; term < kSlice; ++term)
        multiply(shared, buffer, seeded(SeededFault::kTermsReversed) ? kSlice - 1 - term : term,
                 sums);
    } else {
#pragma unroll 1
      for (int term = 0; term < terms; ++term) multiply(shared, buffer, term, sums);
    }
  }
  // Calls put(row, column, four) for each four columns of the thread's sums.
  template <typename Put>
  __device__ static void for_each_four(const Sums& sums, const Put& put) {
#pragma unroll
    for (int i = 0; i < kRegM; ++i)
#pragma unroll
      for (int g = 0; g < kGroupsN; ++g)
        put(row(i / 4) + i % 4, column(g),
            float4{sums[i][4 * g], sums[i][4 * g + 1], sums[i][4 * g + 2], sums[i][4 * g + 3]});
  }
};

// The chains of `runs` runs, one after the other. `source` has the slices:
//   bool next()             goes to the next slice; false if there is none
//   int run(), terms()      the slice's run, in ascending order, and its terms, 1 to 16
//   void fetch(Ahead&)      reads it
//   void put(Ahead&, Shared&, int buffer)
// end_run(run, sums) takes the sums of each run from `first_run` to before `last_run`, +0 where a
// run has no slice.
template <typename T, typename Source, typename EndRun>
__device__ void sum_runs(typename T::Shared& shared, Source& source, int first_run, int last_run,
                         EndRun& end_run) {
  typename T::Ahead ahead;
  typename T::Sums sums;
  T::clear(sums);
  int run = first_run, buffer = 0;
  bool more = source.next();
  if (more) source.fetch(ahead);
  while (more) {
    source.put(ahead, shared, buffer);
    if (!seeded(SeededFault::kTileReadTooEarly)) __syncthreads();
    const int terms = source.terms();
#pragma unroll 1
    for (const int at = source.run(); run < at && !seeded(SeededFault::kRunsJoined); ++run) {
      end_run(run, sums);
      T::clear(sums);
    }
    more = source.next();
    if (more) source.fetch(ahead);
    T::multiply_slice(shared, buffer, terms, sums);
    if (!seeded(SeededFault::kTileWrittenTooEarly)) buffer ^= 1;
  }
#pragma unroll 1
  for (; run < last_run; ++run) {
    end_run(run, sums);
    T::clear(sums);
  }
}

// Adds runs in order. The total starts as -0, to which the first run can be added: its bits stay.
template <typename T>
struct RunTotal {
  typename T::Sums total;
  __device__ RunTotal() {
#pragma unroll
    for (int i = 0; i < T::kSumsM; ++i)
#pragma unroll
      for (int j = 0; j < T::kSumsN; ++j) total[i][j] = -0.0f;
  }
  __device__ void operator()(int, const typename T::Sums& sums) {
#pragma unroll
    for (int i = 0; i < T::kSumsM; ++i)
#pragma unroll
      for (int j = 0; j < T::kSumsN; ++j) total[i][j] = total[i][j] + sums[i][j];
  }
};

// The same in shared memory, which leaves registers to more blocks of a multiprocessor. A thread
// has places of its own.
template <typename T>
struct SharedTotal {
  using Memory = float4[T::kSumsM * T::kGroupsN][T::kThreads];

  // The total so far is total(row, column), four columns.
  template <typename Total>
  __device__ static void set(Memory& memory, const Total& total) {
#pragma unroll
    for (int i = 0; i < T::kSumsM; ++i)
#pragma unroll
      for (int g = 0; g < T::kGroupsN; ++g)
        memory[i * T::kGroupsN + g][T::thread()] = total(T::row(i / 4) + i % 4, T::column(g));
  }
  // The first run is added to -0, which leaves all its bits.
  __device__ static void add(Memory& memory, bool first, const typename T::Sums& sums) {
    int i = 0;
    T::for_each_four(sums, [&](int, int, const float4& four) {
      float4& kept = memory[i++][T::thread()];
      const float4 total = first ? float4{-0.0f, -0.0f, -0.0f, -0.0f} : kept;
      kept = {total.x + four.x, total.y + four.y, total.z + four.z, total.w + four.w};
    });
  }
  // Calls put(row, column, four) as Tile::for_each_four does.
  template <typename Put>
  __device__ static void for_each_four(const Memory& memory, const Put& put) {
#pragma unroll
    for (int i = 0; i < T::kSumsM; ++i)
#pragma unroll
      for (int g = 0; g < T::kGroupsN; ++g)
        put(T::row(i / 4) + i % 4, T::column(g), memory[i * T::kGroupsN + g][T::thread()]);
  }
};

// What a block needs to add runs: of one run, no total.
template <typename T, bool kOneRun>
struct RunsMemory {
  typename T::Shared tiles;
  typename SharedTotal<T>::Memory total;
};
template <typename T>
struct RunsMemory<T, true> {
  typename T::Shared tiles;
};

inline unsigned blocks_of(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace podium::PODIUM_CUDA_SPACE
