#include "parallel/ranks.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "parallel/launcher.h"
#include "parallel/local_transport.h"
#ifdef PODIUM_HAS_MPI
#include "parallel/mpi_transport.h"
#include "parallel/network_transport.h"
#endif

namespace podium {
namespace {

// Several ranks find out that their launcher was killed. The only rank has nobody to hear it from:
// it stops as on request, and the same command resumes the run.
void stop_with_launcher() {
  const pid_t launcher = getppid();
  try {
    std::thread([launcher] {
      while (getppid() == launcher) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      kill(getpid(), SIGTERM);
    }).detach();
  } catch (const std::system_error&) {
    // The system starts no further thread: the rank goes on to its end.
  }
}

}  // namespace

std::unique_ptr<Transport> join_ranks(const RankOptions& options) {
  const Launcher launcher = find_launcher();
  if (launcher.ranks == 1) stop_with_launcher();
  if (launcher.ranks <= 1) return lone_transport();
#ifdef PODIUM_HAS_MPI
  std::unique_ptr<Transport> hosts = mpi_transport(launcher, options.timeout);
  bool checks = options.check_messages == "on";
  for (int r = 1; r < hosts->ranks() && options.check_messages == "auto"; ++r)
    checks = checks || hosts->host(r) != hosts->host(0);
  hosts->check_messages(checks);
  return network_transport(std::move(hosts), options.timeout);
#else
  static_cast<void>(options);
  check_world(launcher, 1, "");
  return nullptr;
#endif
}

std::string mpi_library() {
#ifdef PODIUM_HAS_MPI
  return mpi_library_version();
#else
  return "";
#endif
}

}  // namespace podium
