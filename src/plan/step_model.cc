#include "plan/step_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/ops.h"
#include "train/program/program.h"

namespace podium {
namespace {

// What every compiler joins to the operation before or after it.
bool is_joined(std::string_view op) {
  for (const std::string_view name :
       {"activate", "activate_grad", "add", "bias_add", "scale", "reshape", "view", "fill", "mul",
        "sub", "permute", "pad_channels", "slice_channels", "dropout_mask", "channel_sum",
        "batch_mean", "correct", "batch_norm_running", "round_bf16"})
    if (op == name) return true;
  return false;
}

// Programs come with the algorithms that pay on a CPU; other devices choose their own, and data
// sheets count the products of the plain convolution.
// Operations live for ever.
const OpDef& plain(const OpDef& op) {
  if (&op == &conv2d_winograd_op) return conv2d_op;
  if (&op == &conv2d_winograd_grad_input_op) return conv2d_grad_input_op;
  if (&op == &conv2d_winograd_grad_weight_op) return conv2d_grad_weight_op;
  if (&op == &conv2d_bf16_op) return conv2d_op;
  if (&op == &conv2d_bf16_grad_input_op) return conv2d_grad_input_op;
  if (&op == &conv2d_bf16_grad_weight_op) return conv2d_grad_weight_op;
  if (&op == &matmul_bf16_op) return matmul_op;
  return op;  // NOLINT(bugprone-return-const-ref-from-parameter)
}

bool is_product(std::string_view op) {
  return op.starts_with("conv2d") || op == "matmul" || op.starts_with("attention");
}

ReplicaProgram program_of(const Recipe& recipe, const Model& model,
                          const std::vector<Field>& fields, std::int64_t rows) {
  return build_replica_program(model, batch_inputs(recipe, fields, rows), recipe.seed,
                               rows * recipe.replicas, false, Optimizers(recipe));
}

std::vector<Cost> costs_of(const Graph& graph) {
  std::vector<Cost> costs;
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr || is_joined(node.op->name)) continue;
    std::vector<TensorType> inputs;
    for (const Value value : node.inputs) inputs.push_back(graph.type(value));
    costs.push_back(cost_of(plain(*node.op), node.attributes, inputs, node.outputs));
  }
  return costs;
}

}  // namespace

double direct_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    std::vector<TensorType> inputs;
    for (const Value value : node.inputs) inputs.push_back(graph.type(value));
    flops += cost_of(plain(*node.op), node.attributes, inputs, node.outputs).flops;
  }
  return flops;
}

ProgramWork work_of(const Recipe& recipe, const Model& model, const std::vector<Field>& fields) {
  // Two sizes tell what is of each example and what is not.
  constexpr std::int64_t kSmall = 4;
  const ReplicaProgram small = program_of(recipe, model, fields, kSmall);
  const ReplicaProgram large = program_of(recipe, model, fields, 2 * kSmall);
  const std::vector<Cost> a = costs_of(small.graph), b = costs_of(large.graph);
  PODIUM_CHECK(a.size() == b.size(), a.size(), " ", b.size());
  ProgramWork work;
  std::size_t i = 0;
  for (const Node& node : small.graph.nodes()) {
    if (node.op == nullptr || is_joined(node.op->name)) continue;
    OpWork op{.name = node.name, .product = is_product(node.op->name)};
    op.flops = (b[i].flops - a[i].flops) / kSmall;
    op.bytes = (b[i].bytes - a[i].bytes) / kSmall;
    op.fixed_flops = std::max(0.0, 2 * a[i].flops - b[i].flops);
    op.fixed_bytes = std::max(0.0, 2 * a[i].bytes - b[i].bytes);
    work.ops.push_back(std::move(op));
    ++i;
  }
  for (const FlatEntry& entry : small.layout.parameters)
    work.parameter_values += static_cast<double>(entry.elements());
  work.optimizer_states = Optimizers(recipe).states();
  return work;
}

std::string StepTime::limit() const {
  return exchange > kernels ? "exchange" : "batch too small: operations are short";
}

double bytes_of(const std::string& precision) {
  return precision == "fp16" || precision == "bf16" ? 2 : 4;
}

StepTime step_time(const ProgramWork& work, const DeviceSpec& device, const std::string& precision,
                   std::int64_t devices, double replicas, double examples, const Efficiency& how) {
  const std::size_t family = device.family == Family::kMatrix ? 1 : 0;
  const double reached =
      family == 0 && precision == "fp32" ? how.vector_products : how.products[family];
  const double flops = reached * device.peak(precision);
  const double bandwidth = how.memory * device.bandwidth;
  const double part = bytes_of(precision) / 4;
  StepTime time;
  for (const OpWork& op : work.ops) {
    const double compute = op.product ? (op.flops * examples + op.fixed_flops) / flops : 0;
    const double memory = part * (op.bytes * examples + op.fixed_bytes) / bandwidth;
    (compute > memory ? time.compute : time.memory) += replicas * std::max(compute, memory);
    time.kernels += replicas * 1e-6 * how.kernel_us[family];
  }
  // All-to-all of the gradients' shards and all-gather of the parameters: the bytes of a ring,
  // first within a node, then between nodes, each device with its part.
  if (devices > 1) {
    const double bytes = work.parameter_values * bytes_of(precision);
    const auto n = static_cast<double>(devices);
    const double node =
        device.per_node == 0 ? n : std::min(n, static_cast<double>(device.per_node));
    time.exchange += 2 * (node - 1) / node * bytes / (how.link * device.node_link);
    if (n > node) {
      const double nodes = n / node;
      time.exchange += 2 * (nodes - 1) / nodes * (bytes / node) / (how.link * device.network_link);
    }
    time.exchange += how.latency * device.latency * std::log2(n);
  }
  return time;
}

}  // namespace podium
