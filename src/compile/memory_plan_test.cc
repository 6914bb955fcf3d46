#include "compile/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"

namespace podium {
namespace {

using Lives = std::vector<Lifetime>;

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// What every plan must hold.
void expect_sound(const Lives& lives, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lives.size());
  std::int64_t top = 0;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    top = std::max(top, plan.offsets[i] + rounded(lives[i].bytes));
    for (std::size_t j = 0; j < i; ++j) {
      if (!live_together(lives[i], lives[j])) continue;
      EXPECT_TRUE(plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + lives[j].bytes <= plan.offsets[i])
          << "values " << j << " and " << i << " overlap";
    }
  }
  EXPECT_EQ(plan.bytes, top);
}

// The most bytes that live at one step: no plan needs less.
std::int64_t peak(const Lives& lives) {
  std::int64_t most = 0;
  for (const Lifetime& at : lives) {
    std::int64_t sum = 0;
    for (const Lifetime& life : lives) {
      if (life.first <= at.first && at.first <= life.last) sum += rounded(life.bytes);
    }
    most = std::max(most, sum);
  }
  return most;
}

Lives random_lives(std::uint32_t stream, int count, std::uint32_t steps) {
  const PhiloxStream words(5, RandomPurpose::kInitialise, stream);
  Lives lives;
  for (int i = 0; i < count; ++i) {
    const PhiloxBlock word = words.block(static_cast<std::uint32_t>(i));
    const std::int64_t first = uniform_below(word[0], steps);
    // Sizes over several orders of magnitude, zero among them; most lives are short.
    const std::int64_t bytes = uniform_below(word[1], 1u << uniform_below(word[2], 16));
    lives.push_back({bytes, first, first + uniform_below(word[3], i % 5 == 0 ? steps : 3)});
  }
  return lives;
}

TEST(MemoryPlan, of_nothing_is_empty) {
  EXPECT_TRUE(plan_memory({}).offsets.empty());
  EXPECT_EQ(plan_memory({}).bytes, 0);
}

TEST(MemoryPlan, values_that_follow_one_another_share_memory) {
  const Lives lives = {{100, 0, 1}, {100, 2, 3}, {50, 4, 4}};
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.offsets, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(plan.bytes, 128);
}

TEST(MemoryPlan, a_value_read_in_the_step_that_writes_another_does_not_share_with_it) {
  const Lives lives = {{64, 0, 1}, {64, 1, 2}};
  const MemoryPlan plan = plan_memory(lives);
  expect_sound(lives, plan);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(MemoryPlan, a_small_value_fills_a_gap) {
  // The two large ones leave room below the long one, at the steps that they miss.
  const Lives lives = {{256, 0, 1}, {256, 0, 9}, {64, 3, 4}, {192, 3, 4}};
  const MemoryPlan plan = plan_memory(lives);
  expect_sound(lives, plan);
  EXPECT_EQ(plan.bytes, 512);
}

TEST(MemoryPlan, sizes_are_rounded_up_to_the_alignment) {
  const Lives lives = {{1, 0, 0}, {65, 0, 0}, {64, 0, 0}};
  const MemoryPlan plan = plan_memory(lives);
  expect_sound(lives, plan);
  EXPECT_EQ(plan.bytes, 64 + 128 + 64);
}

TEST(MemoryPlan, a_chain_of_layers_needs_two_of_them_at_a_time) {
  Lives lives;
  for (std::int64_t i = 0; i < 20; ++i) lives.push_back({4096, i, i + 1});
  EXPECT_EQ(plan_memory(lives).bytes, 2 * 4096);
}

TEST(MemoryPlan, is_the_same_every_time) {
  const Lives lives = random_lives(77, 60, 40);
  EXPECT_EQ(plan_memory(lives).offsets, plan_memory(lives).offsets);
}

TEST(MemoryPlan, no_two_live_values_overlap_in_random_programs) {
  for (std::uint32_t stream = 0; stream < 300; ++stream) {
    const Lives lives = random_lives(stream, 1 + static_cast<int>(stream % 80), 1 + stream % 50);
    const MemoryPlan plan = plan_memory(lives);
    expect_sound(lives, plan);
    EXPECT_GE(plan.bytes, peak(lives));
    ASSERT_FALSE(testing::Test::HasFailure()) << "stream " << stream;
  }
}

TEST(MemoryPlan, stays_near_the_least_that_is_possible) {
  double worst = 1;
  for (std::uint32_t stream = 0; stream < 100; ++stream) {
    const Lives lives = random_lives(1000 + stream, 60, 40);
    worst = std::max(
        worst, static_cast<double>(plan_memory(lives).bytes) / static_cast<double>(peak(lives)));
  }
  EXPECT_LT(worst, 1.25);
}

}  // namespace
}  // namespace podium
