#include "backend/cpu/kernels/products/dense.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/products/matmul.h"
#include "backend/cpu/kernels/products/pack.h"

namespace podium::cpu {
namespace {

// Contract `matmul`: a(i, k) b(k, j) over k < depth.
using Element = std::function<float(std::int64_t, std::int64_t)>;
Floats product_of(std::int64_t rows, std::int64_t columns, std::int64_t depth, const Element& a,
                  const Element& b) {
  Floats out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float total = 0;
      for (std::int64_t begin = 0; begin < depth; begin += 256) {
        float run = 0;
        for (std::int64_t k = begin; k < std::min(begin + 256, depth); ++k) {
          run = std::fma(a(i, k), b(k, j), run);
        }
        total = begin == 0 ? run : total + run;
      }
      out.push_back(total);
    }
  }
  return out;
}

void check_dense(const DenseShape& s, unsigned seed, const std::string& target) {
  const std::string what = cat(target, " N ", s.images, " I ", s.inputs, " O ", s.outputs);
  Random random(seed);
  const Floats x = random.numbers(s.images * s.inputs), w = random.numbers(s.outputs * s.inputs),
               dy = random.numbers(s.images * s.outputs);
  const Floats x_lanes = to_lanes(x, s.images), dy_lanes = to_lanes(dy, s.images);

  Guarded y(padded(s.images) * s.outputs);
  run_parts(dense_forward_parts(s),
            [&](int part) { dense_forward(s, x_lanes.data(), w.data(), y.data(), part); });
  expect_same(
      from_lanes(y.take(what), s.images),
      product_of(
          s.images, s.outputs, s.inputs, [&](auto n, auto i) { return x[n * s.inputs + i]; },
          [&](auto i, auto o) { return w[o * s.inputs + i]; }),
      what + " forward");

  Guarded dx(padded(s.images) * s.inputs);
  run_parts(dense_grad_input_parts(s),
            [&](int part) { dense_grad_input(s, dy_lanes.data(), w.data(), dx.data(), part); });
  expect_same(
      from_lanes(dx.take(what), s.images),
      product_of(
          s.images, s.inputs, s.outputs, [&](auto n, auto o) { return dy[n * s.outputs + o]; },
          [&](auto o, auto i) { return w[o * s.inputs + i]; }),
      what + " grad_input");

  Floats rows(static_cast<std::size_t>(rows_floats(s.images, s.inputs)), kNan);
  run_parts(lanes_to_rows_parts(s.images, s.inputs), [&](int part) {
    lanes_to_rows(s.images, s.inputs, x_lanes.data(), rows.data(), part);
  });
  Guarded dw(s.outputs * s.inputs);
  run_parts(dense_grad_weight_parts(s),
            [&](int part) { dense_grad_weight(s, dy_lanes.data(), rows.data(), dw.data(), part); });
  expect_same(
      dw.take(what),
      product_of(
          s.outputs, s.inputs, s.images, [&](auto o, auto n) { return dy[n * s.outputs + o]; },
          [&](auto n, auto i) { return x[n * s.inputs + i]; }),
      what + " grad_weight");
}

TEST(Dense, equals_the_contract_for_every_count_of_images) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t images : kImageCounts) check_dense({images, 37, 13}, 1, target);
    check_dense({600, 20, 9}, 2, target);
  });
}

TEST(Dense, equals_the_contract_for_random_shapes) {
  for_each_target([](const std::string& target) {
    Random random(3);
    for (unsigned trial = 0; trial < 40; ++trial) {
      check_dense({random.image_count(), random.pick(1, 70), random.pick(1, 50)}, trial, target);
    }
  });
}

TEST(Dense, equals_the_contract_for_the_layers_of_mnist_and_long_runs) {
  for_each_target([](const std::string& target) {
    check_dense({32, 1176, 200}, 1, target);
    check_dense({32, 200, 10}, 2, target);
    check_dense({17, 300, 530}, 3, target);
    check_dense({3, 513, 1}, 4, target);
    check_dense({1, 1, 1}, 5, target);
  });
}

TEST(Matmul, equals_the_contract_in_every_transposition) {
  for_each_target([](const std::string& target) {
    Random random(5);
    for (int trial = 0; trial < 60; ++trial) {
      const bool big = trial % 10 == 0;
      const MatmulShape s{random.pick(1, 40), random.pick(1, 40), random.pick(1, big ? 700 : 60),
                          random.pick(0, 1) == 1, random.pick(0, 1) == 1};
      const Floats a = random.numbers(s.rows * s.depth), b = random.numbers(s.depth * s.columns);
      Guarded c(s.rows * s.columns);
      run_parts(matmul_parts(s), [&](int part) { matmul(s, a.data(), b.data(), c.data(), part); });
      const Floats want = product_of(
          s.rows, s.columns, s.depth,
          [&](auto i, auto k) { return s.transpose_a ? a[k * s.rows + i] : a[i * s.depth + k]; },
          [&](auto k, auto j) {
            return s.transpose_b ? b[j * s.depth + k] : b[k * s.columns + j];
          });
      expect_same(c.take(target), want, target);
    }
  });
}

}  // namespace
}  // namespace podium::cpu
