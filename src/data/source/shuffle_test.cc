#include "data/source/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/numerics/philox.h"

namespace podium {
namespace {

TEST(EpochOrder, is_a_permutation_of_any_count) {
  for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 7, 8, 1000, 60000}) {
    std::vector<std::uint32_t> order = epoch_order(3, 5, count);
    std::sort(order.begin(), order.end());
    std::vector<std::uint32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(order, all);
  }
}

TEST(EpochOrder, follows_its_definition_word_by_word) {
  const PhiloxStream stream(42, RandomPurpose::kShuffle);
  std::vector<std::uint32_t> order(101);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = 100; i >= 1; --i) {
    const std::uint64_t word = stream.word(i, 9);
    std::swap(order[i], order[(word * (i + 1)) >> 32]);
  }
  EXPECT_EQ(epoch_order(42, 9, 101), order);
}

TEST(EpochOrder, differs_between_epochs_and_seeds) {
  const auto order = epoch_order(0, 0, 100);
  EXPECT_NE(order, epoch_order(0, 1, 100));
  EXPECT_NE(order, epoch_order(1, 0, 100));
  EXPECT_NE(order, epoch_order(std::uint64_t{1} << 32, 0, 100));
  EXPECT_EQ(order, epoch_order(0, 0, 100));
}

TEST(EpochOrder, puts_every_example_everywhere_equally_often) {
  constexpr int kEpochs = 20000;
  std::array<std::array<int, 5>, 5> counts{};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = epoch_order(1, epoch, 5);
    for (std::size_t i = 0; i < 5; ++i) ++counts[i][order[i]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, kEpochs / 5, 300);  // over five deviations
  }
}

}  // namespace
}  // namespace podium
