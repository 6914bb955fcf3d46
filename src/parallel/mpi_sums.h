// MPI's own sums over all ranks, for benchmarks to compare with: their order of additions, and so
// their bits, depend on the library, the number of ranks and the size. No run uses them.
#pragma once

#include <cstdint>
#include <span>

#include "parallel/transport.h"

namespace podium {

enum class MpiSum { kAllreduce, kReduceAndBroadcast };

// values[i] becomes the sum over all ranks, `times` times in a row. Every rank calls it. False, and
// nothing is done, where the ranks are not those of an MPI.
bool mpi_sum(Transport& transport, MpiSum how, std::span<float> values, std::uint64_t times = 1);

}  // namespace podium
