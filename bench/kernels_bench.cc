// The CPU kernels on one core, at the shapes of the MNIST network (a replica of 32 images unless
// told otherwise): time, and what is reached of the measured peak of fused multiply-adds and of the
// bandwidth of a copy of the same size.
//
//   kernels_bench [--cold] [images] [filter]
//   PODIUM_VECTOR_TARGET=avx2 kernels_bench 256 dense
//
// --cold: before each call other memory passes through the caches, so that a kernel finds its
// operands in the last level, as in a training step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/kernels/dropout.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/planes/batch_norm.h"
#include "backend/cpu/kernels/planes/channel.h"
#include "backend/cpu/kernels/products/dense.h"
#include "backend/cpu/kernels/products/matmul.h"
#include "backend/cpu/kernels/products/pack.h"
#include "backend/cpu/kernels/roof.h"
#include "backend/cpu/kernels/targets.h"
#include "backend/cpu/kernels/update.h"
#include "base/numerics/hash.h"
#include "tensor/tensor.h"

namespace podium::cpu {
namespace {

// Memory as the executables' arenas have it.
class Buffer {
 public:
  explicit Buffer(std::int64_t floats) : bytes_(static_cast<std::size_t>(floats) * sizeof(float)) {
    for (std::int64_t i = 0; i < floats; ++i) {
      get()[i] = 0.01f * static_cast<float>((i * 7919) % 199 - 99);
    }
  }
  float* get() const { return reinterpret_cast<float*>(bytes_.data()); }

 private:
  AlignedBytes bytes_;
};

// The best time of a call.
double seconds_of(bool cold, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  static const Buffer other(cold ? 1 << 20 : 0);
  volatile float sink = 0;
  call();
  double best = 1e9;
  const auto end = Clock::now() + std::chrono::milliseconds(100);
  do {
    if (cold) {
      for (int i = 0; i < 1 << 20; i += 16) sink = sink + other.get()[i];
    }
    const auto begin = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (Clock::now() < end);
  return best;
}

class Report {
 public:
  Report(std::int64_t images, std::string filter, bool cold)
      : images_(images), filter_(std::move(filter)), cold_(cold) {
    std::printf("target %s, %lld images, %s\n", vector_target().c_str(),
                static_cast<long long>(images), cold ? "cold" : "warm");
    std::printf("peak %.1f GFLOP/s; copy: %.0f GB/s of 16 KiB, %.0f of 512 KiB, %.0f of 8 MiB\n",
                fma_peak() / 1e9, copy_bandwidth(16 << 10) / 1e9, copy_bandwidth(512 << 10) / 1e9,
                copy_bandwidth(8 << 20) / 1e9);
    std::printf("%-34s %6s %10s %10s %9s %6s %7s %6s\n", "kernel", "parts", "us", "ns/image",
                "GFLOP/s", "peak", "GB/s", "copy");
  }
  // `flops` and `bytes` of the whole call; `bytes` are those that must be read and written once.
  void add(const std::string& name, int parts, double flops, double bytes,
           const std::function<void(int)>& part) const {
    if (name.find(filter_) == std::string::npos) return;
    const double peak = fma_peak();
    const double copy = copy_bandwidth(static_cast<std::int64_t>(bytes));
    const double t = seconds_of(cold_, [&] {
      for (int p = 0; p < parts; ++p) part(p);
    });
    std::printf("%-34s %6d %10.2f %10.1f %9.1f %5.1f%% %7.1f %5.1f%%\n", name.c_str(), parts,
                t * 1e6, t * 1e9 / static_cast<double>(images_), flops / t / 1e9,
                100 * flops / t / peak, bytes / t / 1e9, 100 * bytes / t / copy);
  }

 private:
  std::int64_t images_;
  std::string filter_;
  bool cold_;
};

void bench_dense(const Report& report, std::int64_t images, std::int64_t in, std::int64_t out) {
  const DenseShape s{images, in, out};
  const Buffer x(padded(images) * in), y(padded(images) * out), w(in * out), dw(in * out),
      rows(rows_floats(images, in));
  const std::string size = std::to_string(in) + "->" + std::to_string(out);
  const auto value = [](std::int64_t v) { return static_cast<double>(v); };
  const double flops = 2 * value(images * in * out);
  const double bytes = 4 * value(images * (in + out) + in * out);
  report.add("dense_forward " + size, dense_forward_parts(s), flops, bytes,
             [&](int p) { dense_forward(s, x.get(), w.get(), y.get(), p); });
  report.add("dense_grad_input " + size, dense_grad_input_parts(s), flops, bytes,
             [&](int p) { dense_grad_input(s, y.get(), w.get(), x.get(), p); });
  report.add("dense_grad_weight " + size, dense_grad_weight_parts(s), flops, bytes,
             [&](int p) { dense_grad_weight(s, y.get(), rows.get(), dw.get(), p); });
  report.add("lanes_to_rows " + std::to_string(in), lanes_to_rows_parts(images, in), 0,
             8 * value(images * in),
             [&](int p) { lanes_to_rows(images, in, x.get(), rows.get(), p); });
}

void bench_batch_norm(const Report& report, const ActivationShape& shape) {
  const BatchNormShape s{shape, 1e-3f, {ActivationKind::kRelu}};
  const Buffer x(shape.floats()), y(shape.floats()), dy(shape.floats()), dx(shape.floats()),
      c(8 * shape.channels);
  float* v[8];
  for (int i = 0; i < 8; ++i) v[i] = c.get() + i * shape.channels;
  std::string size = std::to_string(shape.channels);
  if (shape.pixels() > 1) {
    size += "x" + std::to_string(shape.height) + "x" + std::to_string(shape.width);
  }
  const double floats = static_cast<double>(shape.floats());
  report.add("batch_norm relu " + size, batch_norm_parts(s), 7 * floats, 8 * floats, [&](int p) {
    batch_norm(s, x.get(), v[0], v[1], nullptr, y.get(), v[2], v[3], v[4], p);
  });
  report.add("batch_norm_grad relu " + size, batch_norm_grad_parts(s), 14 * floats, 12 * floats,
             [&](int p) {
               batch_norm_grad(s, dy.get(), x.get(), v[0], v[1], v[2], v[4], nullptr, dx.get(),
                               v[5], v[6], p);
             });
  report.add("batch_norm_grad in place " + size, batch_norm_grad_parts(s), 14 * floats, 12 * floats,
             [&](int p) {
               batch_norm_grad(s, dy.get(), x.get(), v[0], v[1], v[2], v[4], nullptr, dy.get(),
                               v[5], v[6], p);
             });
  report.add("batch_norm_inference relu " + size, batch_norm_inference_parts(s), 3 * floats,
             8 * floats, [&](int p) {
               batch_norm_inference(s, x.get(), v[0], v[1], v[2], v[3], nullptr, y.get(), p);
             });
}

void bench_flat(const Report& report, std::int64_t count, const std::string& what) {
  const Buffer a(count), b(count), y(count), m(count), v(count);
  for (std::int64_t i = 0; i < count; ++i) v.get()[i] = 0.01f;
  const double n = static_cast<double>(count);
  const int parts = flat_parts(count);
  report.add("mul " + what, parts, n, 12 * n,
             [&](int p) { mul(count, a.get(), b.get(), y.get(), p); });
  report.add("add_into " + what, parts, n, 12 * n,
             [&](int p) { add_into(count, b.get(), y.get(), p); });
  for (const auto& [name, kind] :
       {std::pair{"relu ", ActivationKind::kRelu}, std::pair{"gelu ", ActivationKind::kGelu},
        std::pair{"silu ", ActivationKind::kSilu}}) {
    const Activation activation{kind};
    report.add(name + what, parts, n, 8 * n,
               [&](int p) { activate(count, activation, a.get(), y.get(), p); });
    report.add(std::string(name) + "grad " + what, parts, n, 12 * n,
               [&](int p) { activate_grad(count, activation, b.get(), a.get(), y.get(), p); });
  }
  const AdamStep adam_step{0.9f, 0.1f, 0.999f, 0.001f, 1e-3f, 1.0f, 1e-8f, 0};
  for (const bool shared : {false, true}) {
    const std::string past = shared ? "past the caches " : "";
    report.add("adam " + past + what, parts, 14 * n, 28 * n, [&, shared](int p) {
      adam(count, adam_step, b.get(), a.get(), m.get(), v.get(), shared, p);
    });
    report.add("sgd " + past + what, parts, 6 * n, 20 * n, [&, shared](int p) {
      sgd(count, {1e-3f, 0.9f, 5e-4f, true}, b.get(), a.get(), m.get(), shared, p);
    });
  }
  std::uint64_t sum = 0;
  const std::span<const float> values(a.get(), static_cast<std::size_t>(count));
  report.add("hash_sum " + what, 1, n, 4 * n, [&](int) { sum += hash_sum(values); });
  if (sum == 1) std::puts("");  // keeps the sum
}

void bench_loss(const Report& report, std::int64_t images, std::int64_t classes) {
  const SoftmaxShape s{images, classes, 0};
  const std::int64_t floats = padded(images) * classes;
  const Buffer z(floats), dz(floats), loss(padded(images));
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(padded(images)), 3);
  const double n = static_cast<double>(floats);
  const std::string size = std::to_string(classes);
  report.add("softmax_cross_entropy_grad " + size, softmax_cross_entropy_parts(s), 25 * n, 8 * n,
             [&](int p) {
               softmax_cross_entropy_grad(s, z.get(), labels.data(), 1.0f, loss.get(), dz.get(), p);
             });
  std::int32_t right = 0;
  report.add("correct " + size, 1, 0, 4 * n,
             [&](int) { correct(images, classes, z.get(), labels.data(), &right); });
}

void bench_rest(const Report& report, std::int64_t images) {
  const Buffer plain(padded(images) * 784), lanes(padded(images) * 784), bias(784);
  const double n = static_cast<double>(images * 784);
  report.add("pack_lanes 784", pack_lanes_parts(images, 784), 0, 8 * n,
             [&](int p) { pack_lanes(images, 784, plain.get(), lanes.get(), p); });
  report.add("unpack_lanes 784", unpack_lanes_parts(images, 784), 0, 8 * n,
             [&](int p) { unpack_lanes(images, 784, lanes.get(), plain.get(), p); });
  const DropoutShape d{images, 200, 0.5f};
  report.add("dropout_mask 200", dropout_mask_parts(d), 0, 4.0 * static_cast<double>(images * 200),
             [&](int p) { dropout_mask(d, 1, 2, 3, 4, lanes.get(), p); });
  const ActivationShape s{images, 12, 8, 8};
  const double values = static_cast<double>(s.floats());
  report.add("bias_add 12x8x8", bias_add_parts(s), values, 8 * values,
             [&](int p) { bias_add(s, lanes.get(), bias.get(), plain.get(), p); });
  report.add("channel_sum 12x8x8", channel_sum_parts(s), values, 4 * values,
             [&](int p) { channel_sum(s, lanes.get(), bias.get(), p); });
  for (const bool transpose : {false, true}) {
    const MatmulShape m{256, 256, 512, false, transpose};
    const Buffer a(256 * 512), b(256 * 512), c(256 * 256);
    report.add(std::string("matmul 256x512x256") + (transpose ? " b^T" : ""), matmul_parts(m),
               2.0 * 256 * 256 * 512, 4.0 * (2 * 256 * 512 + 256 * 256),
               [&](int p) { matmul(m, a.get(), b.get(), c.get(), p); });
  }
}

}  // namespace
}  // namespace podium::cpu

int main(int argc, char** argv) {
  using namespace podium::cpu;
  const bool cold = argc > 1 && std::strcmp(argv[1], "--cold") == 0;
  if (cold) --argc, ++argv;
  const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 32;
  const Report report(images, argc > 2 ? argv[2] : "", cold);
  bench_dense(report, images, 1176, 200);
  bench_dense(report, images, 200, 10);
  bench_batch_norm(report, {images, 6, 28, 28});
  bench_batch_norm(report, {images, 12, 14, 14});
  bench_batch_norm(report, {images, 24, 7, 7});
  bench_batch_norm(report, {images, 200, 1, 1});
  bench_loss(report, images, 10);
  bench_flat(report, 32 * 200, "6400");
  bench_flat(report, 245000, "245000");
  bench_flat(report, 262144, "262144");
  bench_rest(report, images);
  return 0;
}
