// Ranks that are processes of an MPI world. Of MPI it uses point-to-point messages alone, from one
// thread, which also sends signs of life and looks for those of others: MPI itself waits for ever
// for a process that is stopped or cut off. What is in mpi_transport.cc is all that Podium knows of
// MPI; it is compiled where CMake found one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/launcher.h"
#include "parallel/transport.h"

namespace podium {

// Starts MPI: once in a process. Throws UserError where MPI finds another world than the launcher.
std::unique_ptr<Transport> mpi_transport(const Launcher& launcher, double timeout);

// "Open MPI v4.1.4"
std::string mpi_library_version();

// Once MPI is initialised, by all ranks: their hosts' names.
std::vector<std::string> mpi_hosts(int ranks);

}  // namespace podium
