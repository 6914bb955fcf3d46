// Memory that several GPUs have copies of has the values that one memory would have.
#include "backend/cuda/cards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/device.h"

namespace podium {
namespace {

constexpr std::int64_t kWordBytes = 4;

class CardsTest : public testing::Test {
 protected:
  CardsTest() { register_cuda_emulated_backend(); }
  ~CardsTest() override {
    set_cuda_late(false);
    set_cuda_devices(1);
    set_cuda_capability(9, 0);
    fail_cuda_from(std::nullopt);
  }
  static std::unique_ptr<Device> device_of(int gpus, int workers, std::vector<int> chosen = {}) {
    set_cuda_devices(gpus);
    return make_device("cuda-emulated", {.workers = workers, .gpus = std::move(chosen)});
  }
  static std::string refusal(const DeviceOptions& options) {
    try {
      make_device("cuda-emulated", options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

// A device, and the same memories on the host.
class Mirrored {
 public:
  Mirrored(Device& device, std::int64_t words, std::uint32_t seed)
      : device_(device), words_(words), random_(seed) {
    for (int i = 0; i < 3; ++i) {
      buffers_.push_back(device.allocate(words * kWordBytes));
      values_.emplace_back(static_cast<std::size_t>(words));
    }
  }

  // A call with any ranges, by any worker; then what one of the memories is, beside what it should
  // be.
  void make_call() {
    const std::size_t to = below(3), from = (to + 1 + below(2)) % 3;
    const std::int64_t begin = static_cast<std::int64_t>(below(static_cast<std::size_t>(words_))),
                       count = 1 + static_cast<std::int64_t>(
                                       below(static_cast<std::size_t>(words_ - begin)));
    const View target(*buffers_[to], begin * kWordBytes, count * kWordBytes),
        source(*buffers_[from], begin * kWordBytes, count * kWordBytes);
    const std::span<float> old = part(to, begin, count), given = part(from, begin, count);
    switch (below(4)) {
      case 0:
        for (float& value : old) value = static_cast<float>(below(1000));
        device_.upload(target, old.data());
        break;
      case 1:
        device_.copy(target, source);
        std::ranges::copy(given, old.begin());
        break;
      default:
        device_.accumulate(target, source, static_cast<int>(below(8)));
        for (std::size_t i = 0; i < old.size(); ++i) old[i] += given[i];
    }
  }
  void expect_equal(std::size_t i) {
    std::vector<float> actual(static_cast<std::size_t>(words_));
    device_.download(actual.data(), *buffers_[i]);
    EXPECT_EQ(actual, values_[i]);
  }
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

 private:
  std::span<float> part(std::size_t i, std::int64_t begin, std::int64_t count) {
    return std::span(values_[i])
        .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }

  Device& device_;
  const std::int64_t words_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::vector<float>> values_;
};

TEST_F(CardsTest, any_calls_by_any_workers_leave_the_values_of_one_memory) {
  for (const auto& [gpus, late] : {std::pair{1, false},
                                   {2, false},
                                   {3, false},
                                   {8, false},
                                   {1, true},
                                   {2, true},
                                   {3, true},
                                   {8, true}}) {
    set_cuda_late(late);
    for (const int workers : {1, gpus, gpus + 1}) {
      const std::unique_ptr<Device> device = device_of(gpus, workers);
      for (const std::int64_t words : {1, 77, 1000}) {
        Mirrored mirrored(*device, words, static_cast<std::uint32_t>(words + gpus));
        for (int i = 0; i < 100; ++i) {
          mirrored.make_call();
          if (i % 10 == 9) mirrored.expect_equal(mirrored.below(3));
        }
      }
    }
  }
}

TEST_F(CardsTest, a_card_has_room_for_what_it_uses_alone) {
  constexpr std::int64_t kBytes = 1 << 20;
  const std::unique_ptr<Device> device = device_of(4, 4);
  set_cuda_memory(kBytes / 2);  // of each
  const auto sum = device->allocate(kBytes), addend = device->allocate(kBytes);
  // A part of each half, with those of other cards between them.
  for (int part = 0; part < 8; ++part)
    device->accumulate({*sum, part * kBytes / 8, kBytes / 8},
                       {*addend, part * kBytes / 8, kBytes / 8}, part % 4);
  EXPECT_THROW(device->accumulate(*sum, *addend, 0), std::bad_alloc);
  set_cuda_memory(std::int64_t{8} << 30);
}

TEST_F(CardsTest, the_gpus_of_a_process_are_those_that_it_is_told) {
  EXPECT_EQ(device_of(8, 1)->traits().devices, 8);
  EXPECT_EQ(device_of(8, 8)->description().substr(0, 4), "8 x ");
  EXPECT_EQ(device_of(8, 2, {5, 2})->traits().devices, 2);
  // Of several processes on the host, each has one.
  EXPECT_EQ(make_device("cuda-emulated", {.local_rank = 3, .local_ranks = 4})->traits().devices, 1);
  set_cuda_devices(2);
  EXPECT_EQ(refusal({.gpus = {0, 2}}),
            "--gpus: there is no GPU 2; this machine has 2 GPUs, numbered from 0 (podium devices)");
  EXPECT_EQ(refusal({.gpus = {1, 0, 1}}), "--gpus names GPU 1 twice; name each once");
}

TEST_F(CardsTest, a_gpu_that_fails_is_named) {
  const std::unique_ptr<Device> device = device_of(3, 3);
  const auto sum = device->allocate(400), addend = device->allocate(400);
  fail_cuda_from(0, 2);
  for (int worker = 0; worker < 2; ++worker) device->accumulate(*sum, *addend, worker);
  try {
    device->accumulate(*sum, *addend, 2);
    FAIL() << "nothing failed";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 2 (emulation on the host) failed in cuda"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace podium
