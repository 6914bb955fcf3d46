#include "backend/reference/reference_device.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "backend/host_device.h"
#include "graph/op_def.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Every value of a graph has memory of its own.
Plan plan_of(const Graph& graph, const CompileOptions& options) {
  Plan plan = interface_of(graph, options);
  for (const Node& node : graph.nodes()) {
    for (const TensorType& type : node.outputs) plan.arena_bytes += type.bytes();
    if (node.op == nullptr) continue;
    std::vector<TensorType> inputs;
    for (const Value value : node.inputs) inputs.push_back(graph.type(value));
    const Cost cost = cost_of(*node.op, node.attributes, inputs, node.outputs);
    plan.kernels.push_back({cat(node.op->name, " ", node.name), cost.flops, cost.bytes});
  }
  return plan;
}

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(const Graph& graph, const CompileOptions& options)
      : graph_(without_dead_nodes(graph)), plan_(plan_of(graph_, options)) {
    graph_.verify();
    for (const Node& node : graph_.nodes()) {
      std::vector<Tensor>& values = values_.emplace_back();
      for (const TensorType& type : node.outputs) values.emplace_back(type);
    }
  }

  const Plan& plan() const override { return plan_; }

  void run(std::span<const View> inputs, std::span<const View> outputs) override {
    execute(inputs, [](const Node&, std::span<const Tensor>) { return true; });
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& value = at(graph_.outputs()[i].value);
      std::memcpy(outputs[i].host(), value.data(), static_cast<std::size_t>(value.type().bytes()));
    }
  }

  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View>) override {
    std::optional<std::string> found;
    execute(inputs, [&](const Node& node, std::span<const Tensor> results) {
      for (const Tensor& result : results) {
        if (result.dtype() != DType::kF32) continue;
        for (const float x : result.f32()) {
          if (!std::isfinite(x)) {
            found = cat(node.op->name, " ", node.name);
            return false;
          }
        }
      }
      return true;
    });
    return found;
  }

 private:
  Tensor& at(Value value) {
    return values_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  }

  void execute(std::span<const View> inputs,
               const std::function<bool(const Node&, std::span<const Tensor>)>& after) {
    PODIUM_CHECK(inputs.size() == graph_.inputs().size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor& value = at(graph_.inputs()[i].value);
      std::memcpy(value.data(), inputs[i].host(), static_cast<std::size_t>(value.type().bytes()));
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.op == nullptr) continue;
      std::vector<const Tensor*> arguments;
      for (const Value value : node.inputs) arguments.push_back(&at(value));
      std::vector<Tensor*> results;
      for (Tensor& result : values_[i]) results.push_back(&result);
      node.op->reference(node.attributes, arguments, results);
      if (!after(node, values_[i])) return;
    }
  }

  Graph graph_;
  Plan plan_;
  std::vector<std::vector<Tensor>> values_;
};

class ReferenceDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;
  std::string name() const override { return "reference"; }
  std::string description() const override { return "scalar loops, the contract itself"; }
  Plan plan(const Graph& graph, const CompileOptions& options) override {
    return plan_of(without_dead_nodes(graph), options);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override {
    return std::make_unique<ReferenceExecutable>(graph, options);
  }
  void accumulate(View sum, View addend, int /*worker*/) override {
    auto* const to = reinterpret_cast<float*>(sum.host());
    const auto* const from = reinterpret_cast<const float*>(addend.host());
    for (std::int64_t i = 0; i < sum.bytes / static_cast<std::int64_t>(sizeof(float)); ++i)
      to[i] += from[i];
  }
};

}  // namespace

std::unique_ptr<Device> make_reference_device(const DeviceOptions& options) {
  return std::make_unique<ReferenceDevice>(options);
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  ReferenceDevice device{DeviceOptions{}};
  ReferenceExecutable executable(graph, {});
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto view_of = [&](const void* memory, const TensorType& type) -> View {
    return *buffers.emplace_back(device.adopt(const_cast<void*>(memory), type.bytes()));
  };
  std::vector<View> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PODIUM_CHECK(inputs[i].type() == graph.type(graph.inputs()[i].value), graph.inputs()[i].name);
    in.push_back(view_of(inputs[i].data(), inputs[i].type()));
  }
  std::vector<Tensor> results;
  for (const NamedValue& output : graph.outputs()) results.emplace_back(graph.type(output.value));
  for (Tensor& result : results) out.push_back(view_of(result.data(), result.type()));
  executable.run(in, out);
  return results;
}

}  // namespace podium
