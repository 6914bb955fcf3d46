#include "plan/local_model.h"

#include <algorithm>
#include <iterator>

namespace podium {
namespace {

// The part of the roof that each kind of operation reaches beside kCall, from `podium bench recipe`
// of the recipes of this tree (docs/results/planner.md).
struct Reached {
  std::string_view operation;
  double arithmetic;
  // Products move their operands (transforms, packing) before and after they compute: both times
  // add up. 0: of other operations, the longer of the two times counts, over `arithmetic`. Above 1:
  // operands come from a nearer cache than the roof supposes.
  double bandwidth = 0;
};
constexpr Reached kReached[] = {
    {"activate", 0.37},
    {"activate_grad", 0.86},
    {"adam_update", 1.76},
    {"add", 1.87},
    {"avg_pool", 1.82},
    {"avg_pool_grad", 1.08},
    {"batch_norm", 2.29},
    {"batch_norm_grad", 2.99},
    {"bias_add", 1.06},
    {"channel_sum", 1.07},
    {"conv2d", 0.54, 1.98},
    {"conv2d_grad_input", 0.71, 1.92},
    {"conv2d_grad_weight", 0.9, 0.74},
    {"conv2d_winograd", 0.40, 0.77},
    {"conv2d_winograd_grad_input", 0.35, 0.91},
    {"conv2d_winograd_grad_weight", 0.38, 0.41},
    {"matmul", 0.72},
    {"max_pool", 1.06},
    {"max_pool_grad", 1.37},
    {"pad_channels", 0.85},
    {"sgd_update", 2.03},
};
// Of an operation that is not among them.
constexpr Reached kOther = {"", 0.8};
// Seconds of each call, whatever its work.
constexpr double kCall = 10e-6;
// Of a step, outside kernels: input, exchange, hash, dispatch.
constexpr double kOutside = 0.05;

}  // namespace

double CoreRoof::bandwidth(double bytes) const {
  // With what a kernel keeps beside its operands, half of a usual L2 cache.
  constexpr double kNear = 1 << 20;
  return bytes > kNear ? far_bytes : near_bytes;
}

double kernel_seconds(std::string_view operation, double flop, double bytes, const CoreRoof& roof) {
  const auto* const found = std::ranges::find(kReached, operation, &Reached::operation);
  const Reached& reached = found == std::end(kReached) ? kOther : *found;
  const double computing = flop / roof.flops, moving = bytes / roof.bandwidth(bytes);
  return kCall + (reached.bandwidth > 0
                      ? computing / reached.arithmetic + moving / reached.bandwidth
                      : std::max(computing, moving) / reached.arithmetic);
}

double program_seconds(std::span<const KernelCost> kernels, const CoreRoof& roof) {
  double seconds = 0;
  for (const KernelCost& kernel : kernels) {
    const std::string_view name = kernel.name;
    // Of an operation's kernels one carries its work.
    if (!(kernel.flops > 0 || kernel.bytes > 0)) continue;
    seconds += kernel_seconds(name.substr(0, name.find(' ')), kernel.flops, kernel.bytes, roof);
  }
  return seconds;
}

double local_step_seconds(double replica_seconds, double update_seconds, std::int64_t replicas,
                          std::int64_t workers) {
  // Idle workers run parts of the others' kernels, so that turns need not divide evenly.
  const double turns = static_cast<double>(replicas) / static_cast<double>(workers);
  return (turns * replica_seconds + update_seconds / static_cast<double>(workers)) / (1 - kOutside);
}

}  // namespace podium
