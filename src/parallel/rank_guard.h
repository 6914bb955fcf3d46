// Says what became of a rank, with its name and step: the rank itself that a signal ends it or that
// it exits early, and a small process beside it, its child, that it was killed. That process also
// ends a rank whose communication no longer moves, as when it is stopped and nobody else can reach
// it. It ends when the rank has.
//
// Where one rank fails, the launcher ends the others, and nobody is to blame these. Most launchers
// send SIGCONT or SIGTERM to their process groups first, which the guards hear, too. MPICH's kills
// the groups at once: there the guards have groups of their own, and the first on a host speaks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace podium {

class RankGuard {
 public:
  // Forks, so call it before the process has threads. Without a guard, where there can be none,
  // everything else works. `timeout` in seconds: see beat().
  // `kills_at_once`: the launcher does.
  explicit RankGuard(double timeout, bool kills_at_once = false);
  ~RankGuard();
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;

  // From now on signals that end the process, and its exit, are noted. After MPI has installed
  // handlers of its own, which are called in turn.
  void watch(const std::string& name);
  void at(std::int64_t step, const char* doing);
  // What a message of this rank begins with: "rank 2 on host b, step 12 (gradients)".
  std::string place() const;
  std::int64_t step() const;
  const char* doing() const;
  // Communication moves. Once called, it must be called again and again: after the timeout and
  // kGrace seconds without, the guard ends the rank.
  void beat();
  // Whatever ends this process from now on needs no explanation.
  void expect_end();

  static constexpr double kGrace = 3;

 private:
  struct Page;
  [[noreturn]] static void guard(Page& page, int parent_pipe);

  Page* page_ = nullptr;  // shared with the guard
  int pipe_ = -1;         // its other end is the guard's; it closes when this process ends
  pid_t process_ = -1;
};

}  // namespace podium
