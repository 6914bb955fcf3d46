// The transforms of the Winograd contract (docs/numerics.md; base/numerics/winograd_points.h has
// their constants) of one axis, in registers. A tile that is not `whole` lacks its last output and
// point. For *.cu files only.
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/simt.h"
#include "base/numerics/winograd_points.h"

namespace podium::PODIUM_CUDA_SPACE {

// Calls f with the constants 0 to kCount - 1: arrays of constants are not memory of the GPU, but
// single values are known to its compiler.
template <int kCount, typename F>
__device__ inline void for_constants(const F& f) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) { (f(std::integral_constant<int, kI>()), ...); }
  (std::make_integer_sequence<int, kCount>());
}

// b: inputs to points; at: points to outputs; a: outputs' gradients to points; g: a filter to
// points; gt: points to a filter's gradient.
template <int kM>
struct Transforms;

template <>
struct Transforms<4> {
  using C = winograd::Constants<4>;

  __device__ static void b(const float (&d)[6], bool whole, float (&o)[6]) {
    o[0] = std::fma(C::kP, d[0], std::fma(-C::kS, d[2], d[4]));
    const float even_a = std::fma(-C::kB2, d[2], d[4]),
                odd_a = C::kA * std::fma(-C::kB2, d[1], d[3]);
    const float even_b = std::fma(-C::kA2, d[2], d[4]),
                odd_b = C::kB * std::fma(-C::kA2, d[1], d[3]);
    o[1] = even_a + odd_a, o[2] = even_a - odd_a;
    if (seeded(SeededFault::kContracted))
      o[1] = std::fma(C::kA, std::fma(-C::kB2, d[1], d[3]), even_a);
    o[3] = even_b + odd_b, o[4] = even_b - odd_b;
    o[5] = whole ? std::fma(C::kP, d[1], std::fma(-C::kS, d[3], d[5])) : 0.0f;
  }
  __device__ static void at(const float (&m)[6], bool whole, float (&y)[4]) {
    const float sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
    y[0] = (m[0] + sa) + sb;
    y[1] = std::fma(C::kB, db, C::kA * da);
    y[2] = std::fma(C::kB2, sb, C::kA2 * sa);
    y[3] = whole ? std::fma(C::kA3, da, std::fma(C::kB3, db, m[5])) : 0.0f;
  }
  __device__ static void a(const float (&y)[4], bool whole, float (&o)[6]) {
    const float even_a = std::fma(C::kA2, y[2], y[0]), even_b = std::fma(C::kB2, y[2], y[0]);
    const float odd_a = C::kA * (whole ? std::fma(C::kA2, y[3], y[1]) : y[1]);
    const float odd_b = C::kB * (whole ? std::fma(C::kB2, y[3], y[1]) : y[1]);
    o[0] = y[0];
    o[1] = even_a + odd_a, o[2] = even_a - odd_a;
    o[3] = even_b + odd_b, o[4] = even_b - odd_b;
    o[5] = whole ? y[3] : 0.0f;
  }
  __device__ static void g(const float (&w)[3], float (&o)[6]) {
    const float even_a = std::fma(C::kGa2, w[2], C::kGa0 * w[0]),
                even_b = std::fma(C::kGb2, w[2], C::kGb0 * w[0]);
    o[0] = C::kG0 * w[0];
    o[1] = std::fma(C::kGa1, w[1], even_a), o[2] = std::fma(-C::kGa1, w[1], even_a);
    o[3] = std::fma(C::kGb1, w[1], even_b), o[4] = std::fma(-C::kGb1, w[1], even_b);
    o[5] = w[2];
  }
  __device__ static void gt(const float (&u)[6], float (&w)[3]) {
    const float sa = u[1] + u[2], da = u[1] - u[2], sb = u[3] + u[4], db = u[3] - u[4];
    w[0] = std::fma(C::kG0, u[0], std::fma(C::kGa0, sa, C::kGb0 * sb));
    w[1] = std::fma(C::kGa1, da, C::kGb1 * db);
    w[2] = std::fma(C::kGa2, sa, std::fma(C::kGb2, sb, u[5]));
  }
};

// What tiles of six and of eight have in common.
template <int kM>
struct TransformsOfPairs {
  static constexpr int kPairs = kM / 2;
  using C = winograd::Constants<kM>;

  __device__ static void g(const float (&w)[3], float (&o)[kM + 2]) {
    o[0] = C::kG0 * w[0];
    for_constants<kPairs>([&](auto pair) {
      constexpr int i = decltype(pair)::value;
      constexpr float n0 = C::kN0[i], n1 = C::kN1[i], n2 = C::kN2[i];
      const float even = std::fma(n2, w[2], n0 * w[0]);
      o[2 * i + 1] = std::fma(n1, w[1], even);
      o[2 * i + 2] = std::fma(-n1, w[1], even);
    });
    o[kM + 1] = w[2];
  }

 protected:
  __device__ static void pairs(const float (&m)[kM + 2], float (&sums)[kPairs],
                               float (&differences)[kPairs]) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      sums[i] = m[2 * i + 1] + m[2 * i + 2], differences[i] = m[2 * i + 1] - m[2 * i + 2];
  }
  // o at the points of pair i.
  template <int kI>
  __device__ static void put(float even, float odd, float (&o)[kM + 2]) {
    constexpr float point = C::kPoint[kI];
    o[2 * kI + 1] = std::fma(point, odd, even);
    o[2 * kI + 2] = std::fma(-point, odd, even);
  }
};

template <>
struct Transforms<6> : TransformsOfPairs<6> {
  __device__ static void b(const float (&d)[8], bool whole, float (&o)[8]) {
    const auto end = [&](int i) {
      return std::fma(-1.0f, d[i], std::fma(C::kE, d[i + 2], std::fma(-C::kE, d[i + 4], d[i + 6])));
    };
    o[0] = end(0);
    for_constants<3>([&](auto pair) {
      constexpr int i = decltype(pair)::value;
      constexpr float product = C::kProduct[i], sum = C::kSum[i];
      put<i>(std::fma(product, d[2], std::fma(-sum, d[4], d[6])),
             std::fma(product, d[1], std::fma(-sum, d[3], d[5])), o);
    });
    o[7] = whole ? end(1) : 0.0f;
  }
  __device__ static void at(const float (&m)[8], bool whole, float (&y)[6]) {
    float s[3], d[3];
    pairs(m, s, d);
    y[0] = ((m[0] + s[0]) + s[1]) + s[2];
    y[1] = std::fma(2.0f, d[2], std::fma(0.5f, d[0], d[1]));
    y[2] = std::fma(4.0f, s[2], std::fma(0.25f, s[0], s[1]));
    y[3] = std::fma(8.0f, d[2], std::fma(0.125f, d[0], d[1]));
    y[4] = std::fma(16.0f, s[2], std::fma(0.0625f, s[0], s[1]));
    y[5] = whole ? std::fma(32.0f, d[2], std::fma(0.03125f, d[0], d[1] + m[7])) : 0.0f;
  }
  __device__ static void a(const float (&y)[6], bool whole, float (&o)[8]) {
    o[0] = y[0];
    for_constants<3>([&](auto pair) {
      constexpr int i = decltype(pair)::value;
      constexpr float square = C::kSquare[i];
      put<i>(std::fma(square, std::fma(square, y[4], y[2]), y[0]),
             std::fma(square, whole ? std::fma(square, y[5], y[3]) : y[3], y[1]), o);
    });
    o[7] = whole ? y[5] : 0.0f;
  }
  __device__ static void gt(const float (&u)[8], float (&w)[3]) {
    float s[3], d[3];
    pairs(u, s, d);
    constexpr float n00 = C::kN0[0], n01 = C::kN0[1], n02 = C::kN0[2];
    constexpr float n10 = C::kN1[0], n11 = C::kN1[1], n12 = C::kN1[2];
    constexpr float n20 = C::kN2[0], n21 = C::kN2[1], n22 = C::kN2[2];
    w[0] = std::fma(-1.0f, u[0], std::fma(n00, s[0], std::fma(n01, s[1], n02 * s[2])));
    w[1] = std::fma(n10, d[0], std::fma(n11, d[1], n12 * d[2]));
    w[2] = std::fma(n20, s[0], std::fma(n21, s[1], std::fma(n22, s[2], u[7])));
  }
};

template <>
struct Transforms<8> : TransformsOfPairs<8> {
  __device__ static void b(const float (&d)[10], bool whole, float (&o)[10]) {
    const auto end = [&](int i) {
      return std::fma(C::kE0, d[i],
                      std::fma(-C::kE2, d[i + 2],
                               std::fma(C::kE4, d[i + 4], std::fma(-C::kE6, d[i + 6], d[i + 8]))));
    };
    o[0] = end(0);
    for_constants<4>([&](auto pair) {
      constexpr int i = decltype(pair)::value;
      constexpr float c0 = C::kC0[i], c2 = C::kC2[i], c4 = C::kC4[i];
      const auto half = [&](int k) {
        return std::fma(-c0, d[k], std::fma(c2, d[k + 2], std::fma(-c4, d[k + 4], d[k + 6])));
      };
      put<i>(half(2), half(1), o);
    });
    o[9] = whole ? end(1) : 0.0f;
  }
  __device__ static void at(const float (&m)[10], bool whole, float (&y)[8]) {
    float s[4], d[4];
    pairs(m, s, d);
    y[0] = (((m[0] + s[0]) + s[1]) + s[2]) + s[3];
    for_constants<6>([&](auto k) {
      constexpr int i = decltype(k)::value + 1;
      constexpr float p0 = C::kPower[i][0];
      const float first = p0 * (i % 2 == 0 ? s : d)[0];
      y[i] = rest<i>(i % 2 == 0 ? s : d, first);
    });
    constexpr float p70 = C::kPower[7][0];
    y[7] = whole ? rest<7>(d, std::fma(p70, d[0], m[9])) : 0.0f;
  }
  __device__ static void a(const float (&y)[8], bool whole, float (&o)[10]) {
    o[0] = y[0];
    for_constants<4>([&](auto pair) {
      constexpr int i = decltype(pair)::value;
      constexpr float square = C::kSquare[i];
      const float last = whole ? std::fma(square, y[7], y[5]) : y[5];
      put<i>(std::fma(square, std::fma(square, std::fma(square, y[6], y[4]), y[2]), y[0]),
             std::fma(square, std::fma(square, last, y[3]), y[1]), o);
    });
    o[9] = whole ? y[7] : 0.0f;
  }
  __device__ static void gt(const float (&u)[10], float (&w)[3]) {
    float s[4], d[4];
    pairs(u, s, d);
    constexpr float n00 = C::kN0[0], n01 = C::kN0[1], n02 = C::kN0[2], n03 = C::kN0[3];
    constexpr float n10 = C::kN1[0], n11 = C::kN1[1], n12 = C::kN1[2], n13 = C::kN1[3];
    constexpr float n20 = C::kN2[0], n21 = C::kN2[1], n22 = C::kN2[2], n23 = C::kN2[3];
    w[0] = std::fma(C::kG0, u[0],
                    std::fma(n03, s[3], std::fma(n02, s[2], std::fma(n01, s[1], n00 * s[0]))));
    w[1] = std::fma(n13, d[3], std::fma(n12, d[2], std::fma(n11, d[1], n10 * d[0])));
    w[2] = std::fma(n23, s[3], std::fma(n22, s[2], std::fma(n21, s[1], std::fma(n20, s[0], u[9]))));
  }

 private:
  // The chain of an output of power kI after its first link.
  template <int kI>
  __device__ static float rest(const float (&z)[4], float first) {
    constexpr float p1 = C::kPower[kI][1], p2 = C::kPower[kI][2], p3 = C::kPower[kI][3];
    return std::fma(p3, z[3], std::fma(p2, z[2], std::fma(p1, z[1], first)));
  }
};

// Both axes: every column first, then every row of the result. What is in `d` afterwards lies in
// its upper left corner.
template <int kM>
struct Transforms2d {
  using Axis = Transforms<kM>;
  static constexpr int kPoints = kM + 2;
  using Square = float[kPoints][kPoints];

  __device__ static void b(Square& d, bool whole_down, bool whole_across) {
    both<kPoints, kPoints, kPoints>(
        d, [&](const float(&in)[kPoints], bool down, float(&out)[kPoints]) {
          Axis::b(in, down ? whole_down : whole_across, out);
        });
  }
  __device__ static void at(Square& d, bool whole_down, bool whole_across) {
    both<kPoints, kM, kPoints>(d, [&](const float(&in)[kPoints], bool down, float(&out)[kM]) {
      Axis::at(in, down ? whole_down : whole_across, out);
    });
  }
  __device__ static void a(Square& d, bool whole_down, bool whole_across) {
    both<kM, kPoints, kM>(d, [&](const float(&in)[kM], bool down, float(&out)[kPoints]) {
      Axis::a(in, down ? whole_down : whole_across, out);
    });
  }
  __device__ static void g(Square& d) {
    both<3, kPoints, 3>(d,
                        [](const float(&in)[3], bool, float(&out)[kPoints]) { Axis::g(in, out); });
  }
  __device__ static void gt(Square& d) {
    both<kPoints, 3, kPoints>(
        d, [](const float(&in)[kPoints], bool, float(&out)[3]) { Axis::gt(in, out); });
  }

 private:
  template <int kIn, int kOut, int kColumns, typename F>
  __device__ static void both(Square& d, const F& transform) {
    float in[kIn], out[kOut];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < kIn; ++i) in[i] = d[i][j];
      transform(in, true, out);
#pragma unroll
      for (int i = 0; i < kOut; ++i) d[i][j] = out[i];
    }
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
#pragma unroll
      for (int j = 0; j < kIn; ++j) in[j] = d[i][j];
      transform(in, false, out);
#pragma unroll
      for (int j = 0; j < kOut; ++j) d[i][j] = out[j];
    }
  }
};

}  // namespace podium::PODIUM_CUDA_SPACE
