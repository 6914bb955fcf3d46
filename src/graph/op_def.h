// The definition of an operation: all that the system knows of it apart from fast kernels. One
// constant for each, in ops/; ops/op_list.h names them all. A program may define more of its own
// (docs/adding-an-operation.md); check_operation() in train/check_operation.h tries them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace podium {

// The work of a node: floating-point operations (2 for a multiply-add), and bytes that must be read
// and written once.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// The types of a node's inputs. To ask for one that the node does not have is an error of whoever
// added the node.
class InputTypes {
 public:
  InputTypes(const std::string& name, std::span<const TensorType> types)
      : name_(name), types_(types) {}
  const TensorType& operator[](std::size_t i) const {
    if (i >= types_.size())
      throw UserError(cat("[", name_, "] has ", types_.size(), " inputs, and needs more"));
    return types_[i];
  }
  std::size_t size() const { return types_.size(); }
  auto begin() const { return types_.begin(); }
  auto end() const { return types_.end(); }

 private:
  const std::string& name_;
  std::span<const TensorType> types_;
};

// What a shape rule sees. `name` stands in brackets before its errors: [conv2d "stem"] ...
struct InferContext {
  InferContext(std::string node, const Attributes& its_attributes,
               std::span<const TensorType> types)
      : name(std::move(node)), attributes(its_attributes), inputs(name, types) {}
  InferContext(const InferContext&) = delete;
  InferContext& operator=(const InferContext&) = delete;

  std::string name;
  const Attributes& attributes;
  InputTypes inputs;

  template <typename T>
  const T& as() const {
    return attributes.as<T>();
  }
  // Throws UserError `[op "name"] text` unless the condition holds.
  template <typename... Args>
  void require(bool condition, const Args&... text) const {
    if (!condition) throw UserError(cat("[", name, "] ", text...));
  }
};

// What a gradient rule sees: it appends nodes to `graph` and returns one gradient an input, or no
// value where the input has none. An output gradient is no value where nothing depends on that
// output.
struct GradientContext {
  Graph& graph;
  Value node;  // output 0 of the node
  std::span<const Value> output_gradients;
  std::span<const bool> wanted;  // inputs whose gradient somebody reads

  const Node& self() const { return graph.node(node); }
  Value input(std::size_t i) const { return self().inputs[i]; }
  Value output(std::int32_t i) const { return {node.node, i}; }
};

using ConstTensors = std::span<const Tensor* const>;
using Tensors = std::span<Tensor* const>;

// One shape for tests and benchmarks. Batch inputs lead with the images.
struct OpSample {
  Attributes attributes;
  std::vector<TensorType> inputs;
};

// The functions are called from several threads at once: they depend on their arguments alone.
// A definition lives as long as any graph that holds it.
struct OpDef {
  OpKind kind = kOwnOperation;
  const char* name = "";
  std::vector<TensorType> (*infer)(const InferContext& context) = nullptr;
  // Null: the operation has no gradient (it ends a path, or is itself a gradient).
  std::vector<Value> (*gradient)(const GradientContext& context) = nullptr;
  // The contract in scalar code: inputs are plain row-major tensors; outputs are allocated, hold
  // anything, and every element is to be written.
  void (*reference)(const Attributes& attributes, ConstTensors inputs, Tensors outputs) = nullptr;
  // Null: no arithmetic is counted, and each input and output once; see cost_of().
  Cost (*cost)(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) = nullptr;
  // Null: none, so that nothing can be tried or timed.
  std::vector<OpSample> (*samples)() = nullptr;
};

Cost cost_of(const OpDef& op, const Attributes& attributes, std::span<const TensorType> inputs,
             std::span<const TensorType> outputs);

}  // namespace podium
