#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/host_name.h"
#include "parallel/mpi_transport.h"

namespace podium {

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data());
  // "Open MPI v4.1.4, package: ..."; "MPICH Version:      5.0.2\nMPICH Release ..."
  std::string line = all.substr(0, all.find_first_of(",\n"));
  if (const auto colon = line.find("Version:"); colon != std::string::npos) {
    const auto number = line.find_first_not_of(" \t", colon + 8);
    line = line.substr(0, colon) + line.substr(std::min(number, line.size()));
  }
  return line;
}

std::vector<std::string> mpi_hosts(int ranks) {
  constexpr std::size_t kHost = 64;
  std::array<char, kHost> host = {};
  host_name().copy(host.data(), kHost - 1);
  std::vector<char> all(kHost * static_cast<std::size_t>(ranks));
  MPI_Allgather(host.data(), kHost, MPI_CHAR, all.data(), kHost, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks; ++r)
    hosts.emplace_back(all.data() + kHost * static_cast<std::size_t>(r));
  return hosts;
}

}  // namespace podium
