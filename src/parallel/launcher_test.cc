#include "parallel/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace podium {
namespace {

Launcher launcher_in(const std::map<std::string, std::string>& environment) {
  return find_launcher([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Launcher& launcher, int ranks, const std::string& library) {
  try {
    check_world(launcher, ranks, library);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Launcher, says_how_many_ranks_it_started) {
  EXPECT_EQ(launcher_in({}).ranks, 0);
  EXPECT_EQ(launcher_in({{"OMPI_COMM_WORLD_SIZE", "4"}}).ranks, 4);
  EXPECT_EQ(launcher_in({{"PMI_SIZE", "3"}}).variable, "PMI_SIZE");
  EXPECT_EQ(launcher_in({{"SLURM_STEP_NUM_TASKS", "8"}}).ranks, 8);
}

TEST(Launcher, within_a_job_of_slurm_is_mpirun_and_the_job_s_own_size_says_nothing) {
  EXPECT_EQ(launcher_in({{"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).ranks, 4);
  EXPECT_EQ(launcher_in({{"SLURM_NTASKS", "8"}}).ranks, 0);
}

TEST(Launcher, that_says_no_number_is_none) {
  for (const char* text : {"", "0", "-2", "4x", "x"})
    EXPECT_EQ(launcher_in({{"PMI_SIZE", text}}).ranks, 0) << text;
}

TEST(Launcher, and_mpi_must_find_the_same_world) {
  const Launcher four{4, "PMI_SIZE"};
  EXPECT_EQ(refusal(four, 4, "Open MPI v4.1.4"), "");
  EXPECT_EQ(refusal({}, 1, ""), "");
  EXPECT_EQ(refusal(four, 1, "Open MPI v4.1.4"),
            "the launcher started 4 ranks (PMI_SIZE), but MPI finds 1: Open MPI v4.1.4, which this "
            "program uses, does not support that launcher; start it by the mpirun of this MPI, "
            "or under Slurm by srun --mpi=pmix (srun --mpi=list names what there is)");
  EXPECT_EQ(refusal(four, 1, ""),
            "the launcher started 4 ranks (PMI_SIZE), but this program was built without MPI, so "
            "each would train alone; build it with -DPODIUM_MPI=ON, or start one program");
}

}  // namespace
}  // namespace podium
