#include "parallel/mpi_sums.h"

#ifdef PODIUM_HAS_MPI
#include <mpi.h>
#endif

namespace podium {

#ifdef PODIUM_HAS_MPI
namespace {

void sum_once(MpiSum how, bool is_root, std::span<float> values) {
  const auto count = static_cast<int>(values.size());
  float* const memory = values.data();
  if (how == MpiSum::kAllreduce) {
    MPI_Allreduce(MPI_IN_PLACE, memory, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
  if (is_root) {
    MPI_Reduce(MPI_IN_PLACE, memory, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else {
    MPI_Reduce(memory, nullptr, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  }
  MPI_Bcast(memory, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

}  // namespace

bool mpi_sum(Transport& transport, MpiSum how, std::span<float> values, std::uint64_t times) {
  return transport.call_library([&] {
    for (std::uint64_t i = 0; i < times; ++i) sum_once(how, transport.rank() == 0, values);
  });
}
#else
bool mpi_sum(Transport& /*transport*/, MpiSum /*how*/, std::span<float> /*values*/,
             std::uint64_t /*times*/) {
  return false;
}
#endif

}  // namespace podium
