// How a process joins the run that it is a rank of.
//
//   const auto transport = join_ranks({.timeout = 60});
//
// Started by mpirun or srun, the process is a rank of an MPI world; otherwise it is a run of one
// rank, and MPI is not touched. Call it early, before threads are started. The transport then lives
// until the process ends.
#pragma once

#include <memory>
#include <string>

#include "parallel/transport.h"

namespace podium {

struct RankOptions {
  // Seconds for which a rank may be silent, or awaited.
  double timeout = 60;
  // Transport::check_messages(): "on", "off", or "auto", where the ranks are on several hosts. Of
  // messages between devices by a network of their own (NCCL), only the words beside them.
  std::string check_messages = "auto";
};

// Throws UserError where the launcher started another number of ranks than MPI finds, and where it
// started several and this program was built without MPI.
std::unique_ptr<Transport> join_ranks(const RankOptions& options);

// The MPI that this program uses, "Open MPI v4.1.4"; empty where it was built without.
std::string mpi_library();

}  // namespace podium
