#include "plan/local_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace podium {
namespace {

// The part of the roof that each kind of operation reaches beside kCall, from `podium bench recipe`
// of the recipes of this tree (docs/results/planner.md). Above 1: operands come from a nearer cache
// than the roof supposes.
constexpr std::pair<std::string_view, double> kReached[] = {
    {"activate", 0.34},
    {"activate_grad", 0.78},
    {"adam_update", 1.45},
    {"add", 1.3},
    {"avg_pool", 0.29},
    {"avg_pool_grad", 0.2},
    {"batch_norm", 1.09},
    {"batch_norm_grad", 1.59},
    {"conv2d", 0.47},
    {"conv2d_grad_input", 0.57},
    {"conv2d_grad_weight", 0.45},
    {"conv2d_winograd", 0.33},
    {"conv2d_winograd_grad_input", 0.31},
    {"conv2d_winograd_grad_weight", 0.26},
    {"matmul", 0.61},
    {"pad_channels", 0.16},
    {"sgd_update", 1.15},
};
// Of an operation that is not among them.
constexpr double kOther = 0.8;
// Seconds of each call, whatever its work.
constexpr double kCall = 10e-6;
// Of a step, outside kernels: input, exchange, hash, dispatch.
constexpr double kOutside = 0.05;

}  // namespace

double CoreRoof::seconds(double flop, double bytes) const {
  constexpr double kNear = 4 << 20;
  return std::max(flop / flops, bytes / (bytes > kNear ? far_bytes : near_bytes));
}

double kernel_efficiency(std::string_view operation) {
  for (const auto& [name, reached] : kReached)
    if (name == operation) return reached;
  return kOther;
}

double program_seconds(std::span<const KernelCost> kernels, const CoreRoof& roof) {
  double seconds = 0;
  for (const KernelCost& kernel : kernels) {
    const std::string_view name = kernel.name;
    // Of an operation's kernels one carries its work.
    if (!(kernel.flops > 0 || kernel.bytes > 0)) continue;
    seconds += kCall + roof.seconds(kernel.flops, kernel.bytes) /
                           kernel_efficiency(name.substr(0, name.find(' ')));
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
