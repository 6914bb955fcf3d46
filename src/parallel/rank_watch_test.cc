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

// Three hosts, of which one falls silent.
std::vector<int> lost_for(int rank, const std::vector<std::string>& hosts, const std::string& gone,
                          bool* speaks, int spared = -1) {
  const int ranks = static_cast<int>(hosts.size());
  RankWatch watch(rank, ranks, 60);
  for (int i = 0; i < 4; ++i) {
    watch.pass(0.2);
    for (int other = 0; other < ranks; ++other)
      if (hosts[static_cast<std::size_t>(other)] != gone || other == spared) watch.hear(other);
  }
  const std::vector<int> lost = watch.lost_with_hosts(0.5, hosts);
  *speaks = watch.speaks_of(lost);
  return lost;
}

TEST(RankWatch, a_lost_host_is_seen_by_all_others_and_one_speaks) {
  for (const auto& hosts : std::vector<std::vector<std::string>>{
           {"a", "a", "b", "b", "c", "c"}, {"a", "b", "c", "a", "b", "c"}, {"a", "b", "c"}}) {
    for (const std::string gone : {"a", "b", "c"}) {
      std::vector<int> expected, speakers;
      for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
        if (hosts[static_cast<std::size_t>(rank)] == gone) expected.push_back(rank);
      for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
        if (hosts[static_cast<std::size_t>(rank)] == gone) continue;
        bool speaks = false;
        EXPECT_EQ(lost_for(rank, hosts, gone, &speaks), expected) << rank;
        if (speaks) speakers.push_back(rank);
      }
      EXPECT_EQ(speakers.size(), 1u) << gone;
    }
  }
}

TEST(RankWatch, a_host_of_which_one_rank_is_heard_is_not_lost) {
  bool speaks = true;
  EXPECT_TRUE(lost_for(0, {"a", "a", "b", "b"}, "b", &speaks, 3).empty());
  EXPECT_FALSE(speaks);
}

}  // namespace
}  // namespace podium
