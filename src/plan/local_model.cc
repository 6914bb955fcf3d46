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
    {"activate", 0.15},
    {"activate_grad", 0.39},
    {"adam_update", 1.16},
    {"add", 0.66},
    {"avg_pool", 0.33},
    {"avg_pool_grad", 0.60},
    {"batch_norm", 0.78},
    {"batch_norm_grad", 1.14},
    {"bias_add", 0.41},
    {"channel_sum", 0.42},
    {"conv2d", 0.64, 0.84},
    {"conv2d_bf16", 0.60, 0.30},
    {"conv2d_bf16_grad_input", 0.60, 0.20},
    {"conv2d_bf16_grad_weight", 0.50, 0.25},
    {"conv2d_grad_input", 0.77, 0.25},
    {"conv2d_grad_weight", 0.61},
    {"conv2d_winograd", 0.47, 0.23},
    {"conv2d_winograd_grad_input", 0.42, 0.25},
    {"conv2d_winograd_grad_weight", 0.48, 0.12},
    {"matmul_bf16", 0.02},
    {"matmul", 0.78},
    {"max_pool", 0.43},
    {"max_pool_grad", 0.48},
    {"pad_channels", 0.19},
    {"sgd_update", 0.78},
};
// Of an operation that is not among them.
constexpr Reached kOther = {"", 0.8};
// Seconds of each call, whatever its work.
constexpr double kCall = 10e-6;
// Of a step, outside kernels: input, exchange, hash, dispatch.
constexpr double kOutside = 0.05;

}  // namespace

double CoreRoof::bandwidth(double bytes) const {
  constexpr double kNear = 2 << 20;  // a usual L2 cache
  return bytes > kNear ? far_bytes : near_bytes;
}

bool has_bf16_operands(std::string_view operation) {
  return operation.find("_bf16") != std::string_view::npos;
}

double kernel_seconds(std::string_view operation, double flop, double bytes, const CoreRoof& roof) {
  const auto* const found = std::ranges::find(kReached, operation, &Reached::operation);
  const Reached& reached = found == std::end(kReached) ? kOther : *found;
  const double computing = flop / (has_bf16_operands(operation) ? roof.bf16_flops : roof.flops),
               moving = bytes / roof.bandwidth(bytes);
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
