// Tensors that are written past the caches (layout.h) against the same written through them: an
// output whose lines are not whole is not streamed.
#include <cstring>
#include <memory>
#include <new>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/planes/batch_norm.h"
#include "backend/cpu/kernels/planes/pool.h"

namespace podium::cpu {
namespace {

// 150 images, the last block of which is not full: just more than kStreamedFloats.
constexpr ActivationShape kShape{150, 15, 31, 31};
static_assert(kShape.floats() >= kStreamedFloats && kShape.floats() < 2 * kStreamedFloats);

class Output {
 public:
  explicit Output(std::int64_t floats) : size_(floats * sizeof(float)) {
    memory_.reset(static_cast<float*>(::operator new (size_ + 64, std::align_val_t{64})));
    std::memset(memory_.get(), 0x55, size_ + 64);
  }
  float* streamed() { return memory_.get(); }
  float* plain() { return memory_.get() + 1; }
  bool has_bits_of(const Output& plain) const {
    return std::memcmp(memory_.get(), plain.memory_.get() + 1, size_) == 0;
  }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::size_t size_;
  std::unique_ptr<float[], Free> memory_;
};

// kernel(to, part) is run with both outputs on every target.
void expect_equal_bits(const char* what, int parts, const std::function<void(float*, int)>& kernel,
                       std::int64_t floats = kShape.floats()) {
  for_each_target([&](const std::string& target) {
    Output streamed(floats), plain(floats);
    ASSERT_TRUE(streams(streamed.streamed(), floats));
    ASSERT_FALSE(streams(plain.plain(), floats));
    run_parts(parts, [&](int part) { kernel(streamed.streamed(), part); });
    run_parts(parts, [&](int part) { kernel(plain.plain(), part); });
    EXPECT_TRUE(streamed.has_bits_of(plain)) << what << " " << target;
  });
}

Floats numbers(std::int64_t count, unsigned seed) { return Random(seed).numbers(count); }

TEST(Streams, element_wise_kernels) {
  const Floats a = numbers(kShape.floats(), 1), b = numbers(kShape.floats(), 2);
  const int parts = flat_parts(kShape.floats());
  expect_equal_bits("add", parts, [&](float* to, int part) {
    add(kShape.floats(), a.data(), b.data(), to, part);
  });
  for (const Activation& activation :
       {Activation{.kind = ActivationKind::kRelu}, Activation{.kind = ActivationKind::kGelu}}) {
    expect_equal_bits("activate", parts, [&](float* to, int part) {
      activate(kShape.floats(), activation, a.data(), to, part);
    });
    expect_equal_bits("activate_grad", parts, [&](float* to, int part) {
      activate_grad(kShape.floats(), activation, a.data(), b.data(), to, part);
    });
  }
}

TEST(Streams, pooling) {
  const PoolShape shape{kShape, 2, 2};
  const Floats x = numbers(kShape.floats(), 3), dy = numbers(kShape.floats() / 4, 4);
  expect_equal_bits("max_pool_grad", pool_parts(shape), [&](float* to, int part) {
    max_pool_grad(shape, dy.data(), x.data(), to, part);
  });
  expect_equal_bits("avg_pool_grad", pool_parts(shape),
                    [&](float* to, int part) { avg_pool_grad(shape, 0.25f, dy.data(), to, part); });
}

TEST(Streams, batch_norm) {
  const Floats x = numbers(kShape.floats(), 5), dy = numbers(kShape.floats(), 6);
  const Floats gamma = numbers(kShape.channels, 7), beta = numbers(kShape.channels, 8);
  for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kGelu}) {
    const BatchNormShape shape{kShape, 1e-3f, {.kind = kind}};
    Floats mean(kShape.channels), var(mean), inv_std(mean), dgamma(mean), dbeta(mean);
    for (const float* addend : {static_cast<const float*>(nullptr), dy.data()}) {
      expect_equal_bits("batch_norm", batch_norm_parts(shape), [&](float* to, int part) {
        batch_norm(shape, x.data(), gamma.data(), beta.data(), addend, to, mean.data(), var.data(),
                   inv_std.data(), part);
      });
      expect_equal_bits("batch_norm_grad", batch_norm_grad_parts(shape), [&](float* to, int part) {
        batch_norm_grad(shape, dy.data(), x.data(), gamma.data(), beta.data(), mean.data(),
                        inv_std.data(), addend, to, dgamma.data(), dbeta.data(), part);
      });
    }
  }
}

TEST(Streams, batch_norm_that_pools) {
  // Of the first, the result is streamed; of the second, the gradient, four times as large.
  for (const std::int64_t channels : {56, 15}) {
    const ActivationShape x{150, channels, 32, 30};
    const BatchNormShape shape{x, 1e-3f, {.kind = ActivationKind::kRelu}, true};
    const Floats values = numbers(x.floats(), 11), dy = numbers(x.floats() / 4, 12);
    const Floats gamma = numbers(channels, 13), beta = numbers(channels, 14);
    Floats mean(channels), var(mean), inv_std(mean), dgamma(mean), dbeta(mean);
    const auto forward = [&](float* to, int part) {
      batch_norm(shape, values.data(), gamma.data(), beta.data(), nullptr, to, mean.data(),
                 var.data(), inv_std.data(), part);
    };
    if (x.floats() / 4 >= kStreamedFloats) {
      expect_equal_bits("batch_norm", batch_norm_parts(shape), forward, x.floats() / 4);
      continue;
    }
    Floats y(x.floats() / 4);
    run_parts(batch_norm_parts(shape), [&](int part) { forward(y.data(), part); });
    expect_equal_bits(
        "batch_norm_grad", batch_norm_grad_parts(shape),
        [&](float* to, int part) {
          batch_norm_grad(shape, dy.data(), values.data(), gamma.data(), beta.data(), mean.data(),
                          inv_std.data(), nullptr, to, dgamma.data(), dbeta.data(), part);
        },
        x.floats());
  }
}

// Of a convolution with as many input as output channels and pixels. A phase is a kernel of its
// own.
template <typename Kernel>
void expect_equal_phases(const ConvShape& shape, const char* what, const ConvWork& work,
                         const Kernel& kernel) {
  const Floats x = numbers(in_floats(shape), 9), w = numbers(shape.weight_floats(), 10);
  Floats shared(work.shared), scratch(work.scratch);
  for (int phase = 0; phase < work.phases; ++phase)
    expect_equal_bits(
        what, work.parts[phase],
        [&](float* to, int part) {
          kernel(shape, x.data(), w.data(), to, shared.data(), scratch.data(), phase, part);
        },
        out_floats(shape));
}

TEST(Streams, winograd) {
  ConvShape shape;
  shape.images = kShape.images, shape.in_channels = kShape.channels;
  shape.in_height = shape.in_width = 31, shape.out_channels = kShape.channels;
  shape.kernel_height = shape.kernel_width = 3, shape.stride_height = shape.stride_width = 1;
  shape.pad_top = shape.pad_left = 1, shape.out_height = shape.out_width = 31;
  expect_equal_phases(shape, "forward", conv_winograd_forward_work(shape), conv_winograd_forward);
  expect_equal_phases(shape, "gradient to the input", conv_winograd_grad_input_work(shape),
                      conv_winograd_grad_input);
}

TEST(Streams, convolutions_of_one_pixel) {
  ConvShape shape;
  shape.images = kShape.images, shape.in_channels = shape.out_channels = 16;
  shape.in_height = shape.in_width = shape.out_height = shape.out_width = 31;
  shape.kernel_height = shape.kernel_width = 1;
  expect_equal_phases(shape, "forward", conv_forward_work(shape), conv_forward);
  expect_equal_phases(shape, "gradient to the input", conv_grad_input_work(shape), conv_grad_input);
}

}  // namespace
}  // namespace podium::cpu
