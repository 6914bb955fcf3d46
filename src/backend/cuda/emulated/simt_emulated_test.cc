// What the emulation of a GPU must find: faults that a kernel may have and that need not change a
// result on a GPU. Each kernel below has one; beside it stands what is right.
#include "backend/cuda/emulated/simt_emulated.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/numerics/bf16.h"
#include "base/sanitizers.h"

namespace podium::cuda_emulated {
namespace {

constexpr int kThreads = 64;

// A stream and floats of the device, which only kernels and copies may touch.
class Emulation : public testing::Test {
 protected:
  Emulation() : stream_(runtime::make_stream()) {
    memory_ = static_cast<float*>(runtime::allocate(kThreads * sizeof(float)));
  }
  ~Emulation() override {
    set_cuda_thread_order("forward");
    fail_cuda_from(std::nullopt);
    runtime::deallocate(memory_);
    runtime::destroy_stream(stream_);
  }

  template <typename... P, typename... A>
  void launch(void (*kernel)(P...), std::size_t shared_bytes, A... arguments) {
    simt::launch(kernel, {.blocks = {}, .threads = {kThreads}, .shared_bytes = shared_bytes},
                 stream_, arguments...);
  }
  std::vector<float> values() {
    std::vector<float> copy(kThreads);
    runtime::download(stream_, copy.data(), memory_, kThreads * sizeof(float));
    return copy;
  }

  Stream stream_;
  float* memory_;
};

struct Shared {
  float values[kThreads];
};

// Each thread reads what its neighbour on the left wrote.
template <bool kBarrier>
void neighbour(float* y) {
  auto& shared = simt::shared<Shared>();
  shared.values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (kBarrier) __syncthreads();
  y[threadIdx.x] = shared.values[(threadIdx.x + kThreads - 1) % kThreads];
}

// Three values in turn through one place, with a second barrier before it is written again.
template <bool kSecondBarrier>
void handed_round(float* y) {
  auto& shared = simt::shared<Shared>();
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) shared.values[0] = static_cast<float>(round);
    __syncthreads();
    sum += shared.values[0];
    if (kSecondBarrier) __syncthreads();
  }
  y[threadIdx.x] = sum;
}

void shuffled_sum(float* y) {
  float sum = static_cast<float>(threadIdx.x % 32);
  for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  y[threadIdx.x] = sum;
}

void barrier_of_some(float* y) {
  if (threadIdx.x < 7) __syncthreads();
  y[threadIdx.x] = 0;
}

void shuffle_of_some(float* y) { y[threadIdx.x] = __shfl_xor_sync(1u, 1.0f, 1); }

void uninitialised(float* y) { y[threadIdx.x] = simt::shared<Shared>().values[threadIdx.x]; }

void nothing() {}

TEST_F(Emulation, runs_a_kernel_alike_in_every_order_of_the_threads) {
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    set_cuda_thread_order(order);
    launch(neighbour<true>, sizeof(Shared), memory_);
    std::vector<float> expected(kThreads);
    std::iota(expected.begin(), expected.end(), -1.0f);
    expected[0] = kThreads - 1;
    EXPECT_EQ(values(), expected) << order;
    launch(handed_round<true>, sizeof(Shared), memory_);
    EXPECT_EQ(values(), std::vector<float>(kThreads, 3.0f)) << order;
    launch(shuffled_sum, 0, memory_);
    EXPECT_EQ(values(), std::vector<float>(kThreads, 31 * 16)) << order;
  }
}

// ThreadSanitizer reports these, which is what it is for.
#if !defined(PODIUM_ADDRESS_SANITIZER) && !defined(PODIUM_THREAD_SANITIZER)
TEST_F(Emulation, shows_a_missing_barrier_in_some_order) {
  bool differs = false;
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    set_cuda_thread_order(order);
    launch(neighbour<false>, sizeof(Shared), memory_);
    for (const float value : values()) differs = differs || std::isnan(value);
  }
  EXPECT_TRUE(differs);
}

TEST_F(Emulation, shows_a_missing_second_barrier_in_some_order) {
  bool differs = false;
  for (const char* order : {"forward", "reverse", "shuffled"}) {
    set_cuda_thread_order(order);
    launch(handed_round<false>, sizeof(Shared), memory_);
    differs = differs || values() != std::vector<float>(kThreads, 3.0f);
  }
  EXPECT_TRUE(differs);
}
#endif

TEST_F(Emulation, starts_shared_memory_with_nan) {
  launch(uninitialised, sizeof(Shared), memory_);
  for (const float value : values()) EXPECT_TRUE(std::isnan(value));
}

using EmulationDeathTest = Emulation;

TEST_F(EmulationDeathTest, ends_at_a_barrier_that_not_all_threads_reach) {
  EXPECT_DEATH(launch(barrier_of_some, 0, memory_), "a barrier that not all threads reach");
}
TEST_F(EmulationDeathTest, ends_at_a_shuffle_by_a_lane_that_the_mask_lacks) {
  EXPECT_DEATH(launch(shuffle_of_some, 0, memory_), "a lane that its mask lacks");
}
TEST_F(EmulationDeathTest, refuses_grids_that_no_gpu_takes) {
  const auto start = [&](const simt::Grid& grid) { simt::launch(nothing, grid, stream_); };
  EXPECT_DEATH(start({.blocks = {}, .threads = {1025}}), "1 to 1024 threads");
  EXPECT_DEATH(start({.blocks = {1, 65536}, .threads = {1}}), "more blocks");
  EXPECT_DEATH(start({.blocks = {0}, .threads = {1}}), "no blocks");
  EXPECT_DEATH(start({.blocks = {}, .threads = {1}, .shared_bytes = 1 << 20}), "shared memory");
}
#if !defined(PODIUM_ADDRESS_SANITIZER) && !defined(PODIUM_THREAD_SANITIZER)
TEST_F(EmulationDeathTest, lets_the_host_touch_no_memory_of_the_device) {
  EXPECT_DEATH(memory_[0] = 1, "");
}
#endif

// Two products of 16x16 by 16x8 numbers, by registers as NVIDIA's manual of PTX lays them out.
void tensor_core(float* y) {
  const auto lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, in_group = lane % 4;
  const auto pair = [](int line, int term) {  // numbers of 8 bits, different for each place
    const auto number = [&](int i) { return static_cast<float>(1 + (line * 16 + i) % 251); };
    return bf16_bits(number(term)) | static_cast<std::uint32_t>(bf16_bits(number(term + 1))) << 16;
  };
  const int term = 2 * in_group;
  const std::uint32_t a[4] = {pair(group, term), pair(group + 8, term), pair(group, term + 8),
                              pair(group + 8, term + 8)};
  const std::uint32_t b[2] = {pair(100 + group, term), pair(100 + group, term + 8)};
  float d[4] = {0, 0, 0, 0};
  simt::add_bf16_products(d, a, b);
  simt::add_bf16_products(d, a, b);
  if (threadIdx.x >= 32) return;
  for (int i = 0; i < 4; ++i) y[(group + i / 2 * 8) * 8 + term + i % 2] = d[i];
}

TEST_F(Emulation, multiplies_on_tensor_cores) {
  auto* const sums = static_cast<float*>(runtime::allocate(128 * sizeof(float)));
  launch(tensor_core, 0, sums);
  std::vector<float> actual(128), expected;
  runtime::download(stream_, actual.data(), sums, 128 * sizeof(float));
  runtime::deallocate(sums);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int i = 0; i < 16; ++i)
        sum +=
            static_cast<float>((1 + (row * 16 + i) % 251) * (1 + ((100 + column) * 16 + i) % 251));
      expected.push_back(2 * sum);
    }
  EXPECT_EQ(actual, expected);
}

TEST_F(Emulation, records_launches_and_plays_them) {
  float* const y = memory_;
  const auto recording = runtime::record(stream_, [&] {
    launch_flat({.stream = stream_}, kThreads, [=](std::int64_t i, unsigned) { y[i] += 1; });
  });
  EXPECT_EQ(values(), std::vector<float>(kThreads, 0.0f));
  recording->play(stream_);
  recording->play(stream_);
  EXPECT_EQ(values(), std::vector<float>(kThreads, 2.0f));
}

TEST_F(Emulation, fails_from_a_given_call_on) {
  fail_cuda_from(1);
  float value = 3;
  runtime::upload(stream_, memory_, &value, sizeof value);
  for (int i = 0; i < 2; ++i) {
    try {
      runtime::synchronise(stream_);
      FAIL() << "did not fail";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("the GPU failed in cudaStreamSynchronize"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace podium::cuda_emulated
