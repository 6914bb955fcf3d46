// Says what became of a rank, with its name and step: the rank itself that a signal ends it or that
// it exits early, and a small process beside it, its child, that it was killed. That process also
// ends a rank whose communication no longer moves, as when it is stopped and nobody else can reach
// it. It ends when the rank has.
//
// Where one rank fails, the launcher ends the others, and nobody is to blame these. Most launchers
// send SIGCONT or SIGTERM to their process groups first, which the guards hear, too. MPICH's kills
// the groups at once: there the guards have groups of their own, and the first on a host speaks.
// Where a whole host is lost, its guards with it, the launcher ends the run for a reason that only
// the ranks of other hosts can give: they leave it with prepare(), and a guard says it.
//
// The guard also writes why the run ended into the run's folder (failure_record.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace podium {

class RankGuard {
 public:
  // Forks, so call it before the process has threads. Without a guard, where there can be none,
  // everything else works. `timeout` in seconds: see beat().
  // `kills_at_once`: the launcher does. `remedy`: what to do where the process ends before watch(),
  // while MPI starts.
  explicit RankGuard(double timeout, bool kills_at_once = false, const std::string& remedy = "");
  ~RankGuard();
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;

  // From now on signals that end the process, and its exit, are noted. After MPI has installed
  // handlers of its own, which are called in turn.
  void watch(const std::string& name, int ranks = 1);
  // Where the guard may write why the run ended: the folder whose .lock holds this text, so that a
  // rank of another host writes into no folder that only has the same name.
  void record_in(const std::string& folder, const std::string& lock);
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

  // Whether a signal of the launcher has reached the guard in the last seconds.
  bool is_told() const;
  // What the guard says if it is the launcher that ends this rank now, and writes into the folder;
  // `heard`: see failure_record.h. Only the first of each counts.
  void prepare(const std::string& why, int heard);
  // The same where another rank says it: for the folder.
  void overhear(const std::string& why, int heard);
  // What the guard writes into the folder once this process has ended, and does not say.
  void note(const std::string& why, int heard);

  static constexpr double kGrace = 3;

 private:
  struct Page;
  [[noreturn]] static void guard(Page& page, int parent_pipe);

  Page* page_ = nullptr;  // shared with the guard
  int pipe_ = -1;         // its other end is the guard's; it closes when this process ends
  pid_t process_ = -1;
};

}  // namespace podium
