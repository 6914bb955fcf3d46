#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>

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

}  // namespace podium
