#include "compile/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/numerics/philox.h"

namespace podium {
namespace {

using Lives = std::vector<Lifetime>;

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Whether the later of two is written in the place of the earlier, by the step that reads it last.
bool takes(const Lives& lives, std::size_t later, std::size_t earlier, const MemoryPlan& plan) {
  const auto& list = lives[later].may_take;
  return plan.offsets[later] == plan.offsets[earlier] && std::ranges::count(list, earlier) > 0 &&
         lives[earlier].bytes == lives[later].bytes && lives[earlier].first < lives[later].first &&
         lives[earlier].last == lives[later].first;
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
      if (takes(lives, i, j, plan) || takes(lives, j, i, plan)) continue;
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

TEST(MemoryPlan, a_value_takes_the_place_of_one_that_ends_where_it_begins) {
  // A chain in one place: each the next one's.
  const Lives chain = {{64, 0, 1}, {64, 1, 2, {0}}, {64, 2, 5, {1}}};
  EXPECT_EQ(plan_memory(chain).offsets, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(plan_memory(chain).bytes, 64);
  // The first of the list that is read last there; of one place, one value is the heir.
  const Lives choice = {{64, 0, 3}, {64, 0, 2}, {64, 2, 4, {0, 1}}, {64, 2, 4, {1}}};
  const MemoryPlan plan = plan_memory(choice);
  expect_sound(choice, plan);
  EXPECT_EQ(plan.offsets[2], plan.offsets[1]);
  EXPECT_NE(plan.offsets[3], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 3 * 64);
}

TEST(MemoryPlan, a_place_is_taken_only_by_what_is_as_large_and_begins_as_it_ends) {
  for (const Lifetime& other : {Lifetime{64, 0, 2},     // read later, too
                                Lifetime{128, 0, 1},    // larger
                                Lifetime{64, 1, 1}}) {  // written by the same step
    const Lives lives = {other, {64, 1, 3, {0}}};
    const MemoryPlan plan = plan_memory(lives);
    expect_sound(lives, plan);
    EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  }
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

TEST(MemoryPlan, random_programs_stay_sound_where_values_take_places) {
  std::int64_t taken = 0;
  for (std::uint32_t stream = 0; stream < 300; ++stream) {
    Lives lives = random_lives(2000 + stream, 60, 30);
    const PhiloxStream words(6, RandomPurpose::kInitialise, stream);
    // Half of them begin where one before them ends, as large, and may take its place or another's.
    for (std::uint32_t i = 1; i < lives.size(); ++i) {
      const PhiloxBlock word = words.block(i);
      const std::size_t other = uniform_below(word[0], i);
      lives[i].may_take = {uniform_below(word[1], i), other};
      if (word[2] % 2 == 0) continue;
      const std::int64_t begin = lives[other].last;
      lives[i] = {lives[other].bytes, begin, begin + lives[i].last - lives[i].first,
                  lives[i].may_take};
    }
    const MemoryPlan plan = plan_memory(lives);
    expect_sound(lives, plan);
    for (std::size_t i = 0; i < lives.size(); ++i)
      for (const std::size_t other : lives[i].may_take)
        taken += lives[i].bytes > 0 && takes(lives, i, other, plan);
    ASSERT_FALSE(testing::Test::HasFailure()) << "stream " << stream;
  }
  EXPECT_GT(taken, 1000);
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
