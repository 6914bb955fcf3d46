// The convolutions of several networks on one core: time per image and FLOP/s against the measured
// peak of fused multiply-adds, for every pass, layer and algorithm. FLOPs are those of the terms
// inside the image (padding adds none), whatever the algorithm; so Winograd may pass the peak.
//   conv_bench [images=32] [target] [what]
// measures only the lines that contain `what`, such as "mnist", "512->512" or
// "forward      winograd".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/conv/conv.h"
#include "tensor/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "conv_bench.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BENCH_CONV_BENCH_CC_
#define PODIUM_BENCH_CONV_BENCH_CC_
constexpr int kPeakSteps = 20000;
#endif

#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Twelve independent chains of fused multiply-adds in registers.
float peak_loop(float a, float b) {
  const NativeTag d;
  constexpr int kChains = 12;
  Native acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, a + static_cast<float>(i));
  const Native va = hn::Set(d, a), vb = hn::Set(d, b);
  for (int step = 0; step < kPeakSteps; ++step)
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], va, vb);
  Native sum = hn::Zero(d);
  for (int i = 0; i < kChains; ++i) sum = hn::Add(sum, acc[i]);
  return hn::GetLane(sum) + 0 * static_cast<float>(kChains);
}
double peak_flops() { return 2.0 * 12 * kNative * kPeakSteps; }

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {
namespace {

HWY_EXPORT(peak_loop);
HWY_EXPORT(peak_flops);

// The least of many timings, in seconds: other programs share the core.
double least_time(const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 5 || Clock::now() - begin < std::chrono::milliseconds(300); ++i) {
    const Clock::time_point start = Clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

// Memory as a run's arena has it, filled with normal numbers.
struct Floats {
  explicit Floats(std::int64_t count)
      : bytes(static_cast<std::size_t>(count) * sizeof(float)),
        data(reinterpret_cast<float*>(bytes.data())) {
    static std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::generate_n(data, count, [&] { return normal(random); });
  }
  AlignedBytes bytes;
  float* data;
};

using WorkFunction = ConvWork (*)(const ConvShape&);
using Kernel = void (*)(const ConvShape&, const float*, const float*, float*, float*, float*, int,
                        int);
struct Algorithm {
  const char* name;
  bool (*applies)(const ConvShape&);
  WorkFunction work[3];
  Kernel kernel[3];
};
const Algorithm kAlgorithms[] = {
    {"direct",
     [](const ConvShape&) { return true; },
     {conv_forward_work, conv_grad_input_work, conv_grad_weight_work},
     {conv_forward, conv_grad_input, conv_grad_weight}},
    {"winograd",
     conv_winograd_applies,
     {conv_winograd_forward_work, conv_winograd_grad_input_work, conv_winograd_grad_weight_work},
     {conv_winograd_forward, conv_winograd_grad_input, conv_winograd_grad_weight}},
};
constexpr const char* kPasses[] = {"forward", "grad_input", "grad_weight"};

std::int64_t inside_terms(const ConvShape& s) {
  const auto along = [](std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                        std::int64_t pad) {
    std::int64_t count = 0;
    for (std::int64_t p = 0; p < out; ++p)
      for (std::int64_t r = 0; r < kernel; ++r)
        count += p * stride + r - pad >= 0 && p * stride + r - pad < in;
    return count;
  };
  return s.images * s.in_channels * s.out_channels *
         along(s.in_height, s.out_height, s.kernel_height, s.stride_height, s.pad_top) *
         along(s.in_width, s.out_width, s.kernel_width, s.stride_width, s.pad_left);
}

std::string wanted;

void measure(const char* layer, const ConvShape& s, double peak, double* totals) {
  const auto title_of = [&](int pass, const Algorithm& algorithm) {
    char title[96];
    std::snprintf(title, sizeof title, "%-32s %-12s %-9s", layer, kPasses[pass], algorithm.name);
    return std::string(title);
  };
  bool any = false;
  for (int pass = 0; pass < 3; ++pass)
    for (const Algorithm& algorithm : kAlgorithms)
      any = any || title_of(pass, algorithm).find(wanted) != std::string::npos;
  if (!any) return;
  const bool compared = std::ranges::all_of(
      kAlgorithms, [&](const Algorithm& algorithm) { return algorithm.applies(s); });
  const Floats x(in_floats(s)), w(s.weight_floats()), y(out_floats(s)), dx(in_floats(s)),
      dw(s.weight_floats());
  const float* first[] = {x.data, y.data, y.data};
  const float* second[] = {w.data, w.data, x.data};
  float* out[] = {y.data, dx.data, dw.data};
  for (int pass = 0; pass < 3; ++pass) {
    if (pass == 1 && s.in_channels <= 3) continue;  // the image needs no gradient
    for (std::size_t index = 0; index < std::size(kAlgorithms); ++index) {
      const Algorithm& algorithm = kAlgorithms[index];
      if (!algorithm.applies(s)) continue;
      const std::string title = title_of(pass, algorithm);
      if (title.find(wanted) == std::string::npos) continue;
      const ConvWork work = algorithm.work[pass](s);
      const Floats shared(work.shared), scratch(work.scratch);
      const double seconds = least_time([&] {
        run_serially(work, [&](int phase, int part) {
          algorithm.kernel[pass](s, first[pass], second[pass], out[pass], shared.data, scratch.data,
                                 phase, part);
        });
      });
      const double flops = 2.0 * static_cast<double>(inside_terms(s)) / seconds;
      const double per_image = seconds * 1e9 / static_cast<double>(s.images);
      if (compared) totals[index] += per_image;
      std::printf("%s %8.0f ns/image %7.1f GFLOP/s %5.0f%% of peak  %6.0f KB memory\n",
                  title.c_str(), per_image, flops / 1e9, 100 * flops / peak,
                  static_cast<double>(work.shared + work.scratch) * 4 / 1024);
    }
  }
}

// A square layer, padded so that its output has 1 / stride of its input's height and width.
struct Layer {
  const char* name;
  std::int64_t channels, size, out_channels, kernel, stride;

  ConvShape shape(std::int64_t images) const {
    ConvShape s;
    s.images = images;
    s.in_channels = channels, s.in_height = s.in_width = size;
    s.out_channels = out_channels;
    s.out_height = s.out_width = (size + stride - 1) / stride;
    s.kernel_height = s.kernel_width = kernel;
    s.stride_height = s.stride_width = stride;
    s.pad_top = s.pad_left =
        std::max<std::int64_t>(0, (s.out_height - 1) * stride + kernel - size) / 2;
    return s;
  }
};

const Layer kLayers[] = {
    {"mnist 1->6 3x3 28x28", 1, 28, 6, 3, 1},
    {"mnist 6->12 6x6/2 28x28", 6, 28, 12, 6, 2},
    {"mnist 12->24 6x6/2 14x14", 12, 14, 24, 6, 2},
    {"resnet 3->16 32x32", 3, 32, 16, 3, 1},
    {"resnet 16->16 32x32", 16, 32, 16, 3, 1},
    {"resnet 16->32 3x3/2 32x32", 16, 32, 32, 3, 2},
    {"resnet 32->32 16x16", 32, 16, 32, 3, 1},
    {"resnet 32->64 3x3/2 16x16", 32, 16, 64, 3, 2},
    {"resnet 64->64 8x8", 64, 8, 64, 3, 1},
    {"sprint 24->64 31x31", 24, 31, 64, 3, 1},
    {"sprint 64->64 15x15", 64, 15, 64, 3, 1},
    {"sprint 64->256 15x15", 64, 15, 256, 3, 1},
    {"sprint 256->256 7x7", 256, 7, 256, 3, 1},
    {"sprint 256->256 3x3", 256, 3, 256, 3, 1},
    {"davidnet 3->64 32x32", 3, 32, 64, 3, 1},
    {"davidnet 64->128 32x32", 64, 32, 128, 3, 1},
    {"davidnet 128->128 16x16", 128, 16, 128, 3, 1},
    {"davidnet 128->256 16x16", 128, 16, 256, 3, 1},
    {"davidnet 256->512 8x8", 256, 8, 512, 3, 1},
    {"davidnet 512->512 4x4", 512, 4, 512, 3, 1},
    {"resnet50 3->64 7x7/2 224x224", 3, 224, 64, 7, 2},
    {"resnet50 64->64 1x1 56x56", 64, 56, 64, 1, 1},
    {"resnet50 64->64 3x3 56x56", 64, 56, 64, 3, 1},
    {"resnet50 64->256 1x1 56x56", 64, 56, 256, 1, 1},
    {"resnet50 256->64 1x1 56x56", 256, 56, 64, 1, 1},
    {"resnet50 256->128 1x1 56x56", 256, 56, 128, 1, 1},
    {"resnet50 128->128 3x3/2 56x56", 128, 56, 128, 3, 2},
    {"resnet50 256->512 1x1/2 56x56", 256, 56, 512, 1, 2},
    {"resnet50 128->512 1x1 28x28", 128, 28, 512, 1, 1},
    {"resnet50 512->128 1x1 28x28", 512, 28, 128, 1, 1},
    {"resnet50 128->128 3x3 28x28", 128, 28, 128, 3, 1},
    {"resnet50 256->256 3x3/2 28x28", 256, 28, 256, 3, 2},
    {"resnet50 512->1024 1x1/2 28x28", 512, 28, 1024, 1, 2},
    {"resnet50 256->1024 1x1 14x14", 256, 14, 1024, 1, 1},
    {"resnet50 1024->256 1x1 14x14", 1024, 14, 256, 1, 1},
    {"resnet50 256->256 3x3 14x14", 256, 14, 256, 3, 1},
    {"resnet50 512->512 3x3/2 14x14", 512, 14, 512, 3, 2},
    {"resnet50 1024->2048 1x1/2 14x14", 1024, 14, 2048, 1, 2},
    {"resnet50 512->2048 1x1 7x7", 512, 7, 2048, 1, 1},
    {"resnet50 2048->512 1x1 7x7", 2048, 7, 512, 1, 1},
    {"resnet50 512->512 3x3 7x7", 512, 7, 512, 3, 1},
};

int run(int argc, char** argv) {
  const std::int64_t images = argc > 1 ? std::atoi(argv[1]) : 32;
  if (argc > 2 && *argv[2] != 0) set_vector_target(argv[2]);
  if (argc > 3) wanted = argv[3];
  volatile float sink = 0;
  const double peak = PODIUM_DISPATCH(peak_flops)() /
                      least_time([&] { sink = PODIUM_DISPATCH(peak_loop)(0.5f, 0.25f); });
  std::printf("%lld images, %s, peak %.1f GFLOP/s\n", static_cast<long long>(images),
              vector_target().c_str(), peak / 1e9);
  double totals[std::size(kAlgorithms)] = {};
  for (const Layer& layer : kLayers) measure(layer.name, layer.shape(images), peak, totals);
  for (std::size_t i = 0; i < std::size(kAlgorithms); ++i)
    std::printf("all that both compute, %-9s %8.0f ns/image\n", kAlgorithms[i].name, totals[i]);
  return 0;
}

}  // namespace
}  // namespace podium::cpu

int main(int argc, char** argv) { return podium::cpu::run(argc, argv); }
#endif  // HWY_ONCE
