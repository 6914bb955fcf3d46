#include "parallel/launcher.h"

#include <cstdlib>

#include "base/error.h"

namespace podium {
namespace {

int positive(const char* text) {
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end == text || *end != '\0' || value < 1 || value > 10'000'000 ? 0
                                                                        : static_cast<int>(value);
}

}  // namespace

Launcher find_launcher(const std::function<const char*(const char*)>& variable) {
  // The innermost launcher comes first: what Slurm says holds of mpirun's own helpers where mpirun
  // was used within a job. SLURM_NTASKS is the job's, and set for programs that srun did not start.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const int ranks = positive(variable(name)); ranks > 0) return {ranks, name};
  }
  return {};
}

Launcher find_launcher() {
  return find_launcher([](const char* name) { return std::getenv(name); });
}

std::string how_to_start() {
  return "start it by the mpirun of this MPI, or under Slurm by srun --mpi=pmix (srun --mpi=list "
         "names what there is)";
}

void check_world(const Launcher& launcher, int ranks, const std::string& library) {
  if (launcher.ranks == 0 || launcher.ranks == ranks) return;
  const std::string started =
      cat("the launcher started ", launcher.ranks, " ranks (", launcher.variable, "), but ");
  PODIUM_REQUIRE(!library.empty(), ExitCode::kUsage, started,
                 "this program was built without MPI, so each would train alone; build it with "
                 "-DPODIUM_MPI=ON, or start one program");
  PODIUM_REQUIRE(false, ExitCode::kUsage, started, "MPI finds ", ranks, ": ", library,
                 ", which this program uses, does not support that launcher; ", how_to_start());
}

}  // namespace podium
