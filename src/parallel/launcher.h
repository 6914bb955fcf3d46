// What the launcher of this process (mpirun, srun) says of the run's size. A program whose MPI does
// not understand its launcher finds itself alone, and N of them would each train: the two sizes are
// compared before anything else.
#pragma once

#include <functional>
#include <string>

namespace podium {

struct Launcher {
  int ranks = 0;         // 0: no launcher that is known
  std::string variable;  // that says so: "OMPI_COMM_WORLD_SIZE"
};

// `variable` gives the value of an environment variable, null where it is not set.
Launcher find_launcher(const std::function<const char*(const char*)>& variable);
Launcher find_launcher();

// How the ranks of this program are started: "start it by ...".
std::string how_to_start();

// Throws UserError where MPI found another number of ranks than the launcher started; `library` is
// the MPI that this program uses, empty where it has none.
void check_world(const Launcher& launcher, int ranks, const std::string& library);

}  // namespace podium
