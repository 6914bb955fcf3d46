// The time of a step on the cores of this machine: the roof of a core, which is measured briefly,
// and the fraction of it that the kernels of each kind of operation reach (docs/planning.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/device.h"

namespace podium {

// Of one core: FLOP/s, and bytes/s near (in the L2 cache) and far (in memory). `podium bench`
// prints them.
struct CoreRoof {
  double flops = 0, near_bytes = 0, far_bytes = 0;
  // The least time of one call of a kernel.
  double seconds(double flop, double bytes) const;
};

// The fraction of the roof that operations of this name reach ("conv2d", "batch_norm"), over the
// recipes of this tree.
double kernel_efficiency(std::string_view operation);

// Of the kernels of a program, one run of it.
double program_seconds(std::span<const KernelCost> kernels, const CoreRoof& roof);

// Of a step: `replicas` on `workers`, each on a core of its own; the update of a worker's shard.
// What lies outside kernels (input, exchange, hash) is a part of it that was measured, too.
double local_step_seconds(double replica_seconds, double update_seconds, std::int64_t replicas,
                          std::int64_t workers);

}  // namespace podium
