#include "parallel/rank_watch.h"

#include <algorithm>
#include <set>

namespace podium {

RankWatch::RankWatch(int rank, int ranks, double timeout)
    : rank_(rank), timeout_(timeout), others_(static_cast<std::size_t>(ranks)) {
  for (int distance = 1; distance <= std::min(kWatchers, ranks - 1); ++distance) {
    watchers_.push_back((rank + distance) % ranks);
    watched_.push_back((rank - distance + ranks) % ranks);
    others_[static_cast<std::size_t>(watched_.back())].is_watched = true;
  }
}

void RankWatch::pass(double seconds) {
  for (const int rank : watched_)
    others_[static_cast<std::size_t>(rank)].silence += std::min(seconds, kMostStep);
}

void RankWatch::hear(int rank, const SignOfLife& sign) {
  others_[static_cast<std::size_t>(rank)].sign = sign;
  hear(rank);
}

void RankWatch::hear(int rank) { others_[static_cast<std::size_t>(rank)].silence = 0; }

int RankWatch::silent() const {
  for (const int rank : watched_) {
    const Other& other = others_[static_cast<std::size_t>(rank)];
    if (other.silence > timeout_ && other.sign.is_last == 0) return rank;
  }
  return -1;
}

const SignOfLife& RankWatch::last_sign(int rank) const {
  return others_[static_cast<std::size_t>(rank)].sign;
}

bool RankWatch::all_are_done() const {
  return std::ranges::all_of(watched_, [&](int rank) { return last_sign(rank).is_last != 0; });
}

std::vector<int> RankWatch::lost_with_hosts(double seconds,
                                            const std::vector<std::string>& hosts) const {
  const auto host = [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; };
  std::set<std::string> heard = {host(rank_)};
  for (const int rank : watched_) {
    if (silence(rank) < seconds || last_sign(rank).is_last != 0) heard.insert(host(rank));
  }
  std::vector<int> lost;
  for (const int rank : watched_) {
    if (!heard.contains(host(rank))) lost.push_back(rank);
  }
  std::ranges::sort(lost);
  return lost;
}

bool RankWatch::speaks_of(const std::vector<int>& lost) const {
  const int ranks = static_cast<int>(others_.size());
  const auto may_speak = [&](int rank) {
    return !std::ranges::binary_search(lost, rank) &&
           std::ranges::binary_search(lost, (rank - 1 + ranks) % ranks);
  };
  return may_speak(rank_) &&
         std::ranges::none_of(watched_, [&](int rank) { return rank < rank_ && may_speak(rank); });
}

}  // namespace podium
