// Who of the other ranks has been silent, or awaited, for too long. Time counts in the small steps
// in which the caller comes to look: while this process itself is stopped, or waits for a core,
// nobody else grows older by more than kMostStep.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace podium {

// A sign of life, as it travels.
struct SignOfLife {
  std::int64_t step = 0;
  std::array<char, 48> doing = {};
  std::int32_t is_last = 0;  // the rank is done, and will be silent
  std::int32_t is_told = 0;  // a launcher's signal has reached its guard
};

class RankWatch {
 public:
  static constexpr double kMostStep = 0.5;
  // A rank gives signs of life to the next kWatchers ranks, round the circle: somebody who lives is
  // among those who watch whoever does not, unless as many in a row fall silent at once; then the
  // first of the row is missed by those before it.
  static constexpr int kWatchers = 8;

  RankWatch(int rank, int ranks, double timeout);

  // Those whom this rank watches, and those to whom it gives signs of life.
  const std::vector<int>& watched() const { return watched_; }
  const std::vector<int>& watchers() const { return watchers_; }

  void pass(double seconds);
  void hear(int rank, const SignOfLife& sign);
  void hear(int rank);  // anything else from this rank

  // The rank that has been silent for longer than the timeout; -1: none.
  int silent() const;
  // Seconds since a watched rank was heard; 0 of others.
  double silence(int rank) const { return others_[static_cast<std::size_t>(rank)].silence; }
  // What is known of a rank: step 0 where nothing is.
  const SignOfLife& last_sign(int rank) const;
  bool all_are_done() const;

  // Where the launcher ends the run because it has lost a host, nobody on that host may be left to
  // say so. The watched ranks of hosts of which no watched rank was heard for `seconds`; hosts by
  // rank, that of this rank not counted: its guards speak for themselves.
  std::vector<int> lost_with_hosts(double seconds, const std::vector<std::string>& hosts) const;
  // Whether this rank is the one to speak of these: among those who may see the same, the lowest
  // whose predecessor round the circle is lost.
  bool speaks_of(const std::vector<int>& lost) const;

 private:
  struct Other {
    bool is_watched = false;
    double silence = 0;
    SignOfLife sign;
  };
  int rank_;
  double timeout_;
  std::vector<int> watched_, watchers_;
  std::vector<Other> others_;  // by rank
};

}  // namespace podium
