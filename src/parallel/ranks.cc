#include "parallel/ranks.h"

#include "parallel/launcher.h"
#include "parallel/local_transport.h"
#ifdef PODIUM_HAS_MPI
#include "parallel/mpi_transport.h"
#endif

namespace podium {

std::unique_ptr<Transport> join_ranks(const RankOptions& options) {
  const Launcher launcher = find_launcher();
  if (launcher.ranks <= 1) return lone_transport();
#ifdef PODIUM_HAS_MPI
  return mpi_transport(launcher, options.timeout);
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
