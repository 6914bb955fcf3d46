#include "parallel/rank_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace podium {
namespace {

TEST(RankWatch, watchers_and_watched_are_two_sides_of_the_same) {
  for (int ranks = 1; ranks <= 30; ++ranks) {
    std::set<std::pair<int, int>> gives, watches;
    for (int rank = 0; rank < ranks; ++rank) {
      const RankWatch watch(rank, ranks, 60);
      for (const int other : watch.watchers()) gives.insert({rank, other});
      for (const int other : watch.watched()) watches.insert({other, rank});
      EXPECT_EQ(std::ssize(watch.watched()), std::min(ranks - 1, RankWatch::kWatchers));
    }
    EXPECT_EQ(gives, watches);
  }
}

TEST(RankWatch, whoever_falls_silent_is_missed_by_somebody_who_does_not) {
  const int ranks = 13;
  for (unsigned silent = 1; silent + 1 < 1u << ranks; silent += 7) {
    bool is_missed = false;
    for (int rank = 0; rank < ranks && !is_missed; ++rank) {
      if ((silent >> rank & 1) != 0) continue;
      RankWatch watch(rank, ranks, 5);
      for (int second = 0; second < 20; ++second) {
        watch.pass(0.5);
        for (int other = 0; other < ranks; ++other) {
          if ((silent >> other & 1) == 0) watch.hear(other);
        }
      }
      const int missed = watch.silent();
      if (missed >= 0) {
        EXPECT_TRUE((silent >> missed & 1) != 0);
        is_missed = true;
      }
    }
    EXPECT_TRUE(is_missed) << silent;
  }
}

TEST(RankWatch, silence_is_measured_from_the_last_sign) {
  RankWatch watch(0, 2, 2);
  for (int i = 0; i < 4; ++i) watch.pass(0.5);
  EXPECT_EQ(watch.silent(), -1);
  watch.hear(1, {.step = 7});
  EXPECT_EQ(watch.last_sign(1).step, 7);
  for (int i = 0; i < 4; ++i) watch.pass(0.5);
  EXPECT_EQ(watch.silent(), -1);
  watch.pass(0.1);
  EXPECT_EQ(watch.silent(), 1);
}

TEST(RankWatch, time_in_which_this_rank_itself_was_stopped_makes_nobody_silent) {
  RankWatch watch(0, 2, 2);
  watch.pass(3600);
  EXPECT_EQ(watch.silent(), -1);
}

TEST(RankWatch, whoever_is_done_may_be_silent) {
  RankWatch watch(0, 3, 1);
  EXPECT_FALSE(watch.all_are_done());
  watch.hear(1, {.is_last = 1});
  for (int i = 0; i < 10; ++i) {
    watch.pass(0.5);
    watch.hear(2);
  }
  EXPECT_EQ(watch.silent(), -1);
  watch.hear(2, {.is_last = 1});
  EXPECT_TRUE(watch.all_are_done());
}

}  // namespace
}  // namespace podium
