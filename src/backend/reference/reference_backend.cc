#include "backend/reference/reference_backend.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "graph/op_def.h"
#include "ops/ops.h"

namespace podium {
namespace {

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const Graph& graph) : graph_(without_dead_nodes(graph)) {
    graph_.verify();
    for (const Node& node : graph_.nodes()) {
      std::vector<Tensor>& values = values_.emplace_back();
      for (const TensorType& type : node.outputs) {
        values.emplace_back(type);
        bytes_ += type.bytes();
      }
    }
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    execute(inputs, [](const Node&, std::span<const Tensor>) { return true; });
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& value = at(graph_.outputs()[i].value);
      std::memcpy(outputs[i], value.data(), static_cast<std::size_t>(value.type().bytes()));
    }
  }

  std::int64_t arena_bytes() const override { return bytes_; }

  std::optional<std::string> find_non_finite(std::span<const void* const> inputs,
                                             std::span<void* const>) override {
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

  void execute(std::span<const void* const> inputs,
               const std::function<bool(const Node&, std::span<const Tensor>)>& after) {
    PODIUM_CHECK(inputs.size() == graph_.inputs().size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensor& value = at(graph_.inputs()[i].value);
      std::memcpy(value.data(), inputs[i], static_cast<std::size_t>(value.type().bytes()));
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
  std::vector<std::vector<Tensor>> values_;
  std::int64_t bytes_ = 0;
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "scalar loops, the contract itself"; }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions&) override {
    return std::make_unique<ReferenceExecutable>(graph);
  }
  void accumulate(std::span<float> sum, std::span<const float> addend) override {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
  }
  float sum_of_squares(std::span<const float> run) override { return podium::sum_of_squares(run); }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  ReferenceExecutable executable(graph);
  std::vector<const void*> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PODIUM_CHECK(inputs[i].type() == graph.type(graph.inputs()[i].value), graph.inputs()[i].name);
    in.push_back(inputs[i].data());
  }
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (const NamedValue& output : graph.outputs()) results.emplace_back(graph.type(output.value));
  for (Tensor& result : results) out.push_back(result.data());
  executable.run(in, out);
  return results;
}

}  // namespace podium
