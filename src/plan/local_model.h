// The time of a step on the cores of this machine: the roof of a core, which is measured briefly,
// and the fraction of it that the kernels of each kind of operation reach (docs/planning.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backend/device.h"

namespace podium {

// Of one core: FLOP/s, and bytes/s near (in the L2 cache) and far (beyond it). `podium bench`
// prints them.
struct CoreRoof {
  double flops = 0, near_bytes = 0, far_bytes = 0;
  double bf16_flops = 0;  // in products of BF16 operands
  // Bytes/s for a kernel that moves so many in a call.
  double bandwidth(double bytes) const;
};

// Whether the kernel's operands are BF16, by the name of its operation.
bool has_bf16_operands(std::string_view operation);

// Of one call of a kernel of this operation ("conv2d", "batch_norm").
double kernel_seconds(std::string_view operation, double flop, double bytes, const CoreRoof& roof);

// Of the kernels of a program, one run of it.
double program_seconds(std::span<const KernelCost> kernels, const CoreRoof& roof);

// Of a step: `replicas` on `workers`, each on a core of its own; the update of a worker's shard.
// What lies outside kernels (input, exchange, hash) is a part of it that was measured, too.
double local_step_seconds(double replica_seconds, double update_seconds, std::int64_t replicas,
                          std::int64_t workers);

}  // namespace podium
