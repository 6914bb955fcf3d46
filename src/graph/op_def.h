// The definition of an operation: everything that the system knows about it except fast kernels.
// One constant per operation, in ops/; ops/op_list.h lists them. A program may define its own
// (docs/adding-an-operation.md); check_operation() in train/plugin/check_operation.h checks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace podium {

// The work of a node: floating-point operations (2 for a multiply-add), and bytes that must be read
// and written once.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// The types of a node's inputs. Reading one that the node does not have throws UserError, because
// the node was added with too few inputs.
class InputTypes {
 public:
  // `name` is the node's, for errors. Both arguments must outlive this object.
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

// The arguments of a shape rule. Its errors begin with `name` in brackets: [conv2d "stem"] ...
struct InferContext {
  // `node` is written in brackets at the start of errors.
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

// The arguments of a gradient rule. It appends nodes to `graph` and returns one gradient per input,
// or Value{} for an input without one. An output gradient is Value{} if nothing depends on that
// output.
struct GradientContext {
  Graph& graph;
  Value node;  // output 0 of the node
  std::span<const Value> output_gradients;
  std::span<const bool> wanted;  // inputs whose gradient is needed

  // The node, its operand `i` and its output `i`. Appending a node may move the others in memory:
  // copy what you need from self() first.
  const Node& self() const { return graph.node(node); }
  Value input(std::size_t i) const { return self().inputs[i]; }
  Value output(std::int32_t i) const { return {node.node, i}; }
};

// Operands and results of a reference function.
using ConstTensors = std::span<const Tensor* const>;
using Tensors = std::span<Tensor* const>;

// One set of shapes for tests and benchmarks. The first axis of batch inputs is the images.
struct OpSample {
  Attributes attributes;
  std::vector<TensorType> inputs;
};

// The functions are called from several threads at once and must depend on their arguments alone.
// A definition must outlive every graph that contains it.
struct OpDef {
  OpKind kind = kOwnOperation;
  const char* name = "";
  std::vector<TensorType> (*infer)(const InferContext& context) = nullptr;
  // Null: the operation has no gradient (it ends a path, or is itself a gradient).
  std::vector<Value> (*gradient)(const GradientContext& context) = nullptr;
  // The contract in scalar code. Inputs are plain row-major tensors. Outputs are allocated and
  // uninitialised; the function must write every element.
  void (*reference)(const Attributes& attributes, ConstTensors inputs, Tensors outputs) = nullptr;
  // Null: counts no arithmetic, and the bytes of each input and output once; see cost_of().
  Cost (*cost)(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) = nullptr;
  // Null: no samples, so the operation cannot be tested or timed.
  std::vector<OpSample> (*samples)() = nullptr;
};

// The work of a node with these operands and results.
Cost cost_of(const OpDef& op, const Attributes& attributes, std::span<const TensorType> inputs,
             std::span<const TensorType> outputs);

}  // namespace podium
