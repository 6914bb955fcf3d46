// From a graph to a list of steps, for the backends that have kernels of their own. Each operation
// has one function of the backend (lower_*.cc), or one for all (operations.h), that asks for its
// inputs in the layout its kernel reads, defines its outputs, and emits steps; layouts in between
// are converted as needed.
//
// Two layouts. Plain: row-major, as in a graph. Batched: a batch value [N, ...] as the backend's
// kernels like it best ("lanes" on CPUs, "batch last" on GPUs). Inputs of a program come plain and
// are converted at their first use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "ops/ops.h"

namespace podium::lowering {

using Slot = int;  // a piece of memory of the program

struct SlotInfo {
  enum class Kind : std::uint8_t { kArena, kInput, kOutput, kConstant } kind = Kind::kArena;
  std::int64_t bytes = 0;
  int external = -1;  // number of the program's input or output, or of the constant
  DType dtype = DType::kF32;
  std::int64_t images = 0;  // of a value in lanes; 0: plain
  std::int64_t features = 0;
  bool scratch = false;  // a temporary, which may be unwritten in part
};

template <typename Step>
struct Program {
  std::vector<Step> steps;
  std::vector<SlotInfo> slots;
  std::vector<std::vector<std::byte>> constants;
  std::int64_t scratch_floats = 0;  // that a thread needs at most, whole cache lines
};

inline std::int64_t features_of(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.elements_from(1);
}

// A step has at least the fields name, reads, writes, run and cost.
template <typename Step>
class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}
  virtual ~Lowering() = default;
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  // --- for the functions of operations ---
  const Graph& graph() const { return graph_; }
  const Shape& shape(Value value) const { return graph_.shape(value); }

  // The slot of a value in the layout asked for; emits a conversion where it is held in the other.
  Slot batched(Value value) {
    make_floats(value);
    if (const auto found = batched_.find(value); found != batched_.end()) return found->second;
    materialise(value);
    const Slot source = plain_.at(value);
    if (is_same_in_both(shape(value))) return batched_[value] = source;
    const Slot target = define_batched(value);
    convert(value, graph_.node(value).name, source, target, true);
    return target;
  }
  Slot plain(Value value) {
    make_floats(value);
    materialise(value);
    if (const auto found = plain_.find(value); found != plain_.end()) return found->second;
    const Slot source = batched_.at(value);
    const Slot target = define_plain(value);
    convert(value, label_, source, target, false);
    return target;
  }
  bool is_batched(Value value) const {
    return batched_.contains(value) || is_in_another_form(value, true);
  }
  // Whether a step writes it, or an operation before wrote it with its own result.
  bool is_held(Value value) const {
    return has_floats(value) || is_in_another_form(value, true) || is_in_another_form(value, false);
  }
  Slot in_layout(Value value, bool as_batch) { return as_batch ? batched(value) : plain(value); }

  // What the current operation makes where it makes `value`: rounded to BF16, if that is all that
  // anybody does with it. It then defines this value instead, and round_bf16 has nothing to do.
  Value rounded_result(Value value) const {
    const std::int32_t reader = only_reader(readers_, value);
    if (reader < 0 || graph_.nodes()[static_cast<std::size_t>(reader)].op != &round_bf16_op)
      return value;
    return {reader, 0};
  }

  // Whether all elements are BF16 numbers: it is rounded, or was chosen from what is.
  bool is_rounded(Value value) const {
    const Node& node = graph_.node(value);
    if (node.op == &round_bf16_op) return true;
    const bool chosen =
        value.output == 0 &&
        (node.op == &max_pool_op ||
         (node.op == &max_pool_grad_op && node.attributes.as<PoolAttributes>().tiles()) ||
         (node.op == &activate_op &&
          node.attributes.as<ActivationAttributes>().activation.kind == ActivationKind::kRelu));
    return chosen && is_rounded(node.inputs[0]);
  }

  // New memory for a value that the current operation computes.
  Slot define_batched(Value value) {
    if (is_same_in_both(shape(value))) return batched_[value] = define_plain(value);
    return batched_[value] = add_slot(batched_slot(graph_.type(value)));
  }
  Slot define_plain(Value value) {
    SlotInfo info{.bytes = graph_.type(value).bytes(), .dtype = graph_.type(value).dtype};
    if (const auto output = output_index_.find(value); output != output_index_.end()) {
      info.kind = SlotInfo::Kind::kOutput;
      info.external = output->second;
      output_index_.erase(output);
    }
    return plain_[value] = add_slot(info);
  }
  Slot define_in_layout(Value value, bool as_batch) {
    return as_batch ? define_batched(value) : define_plain(value);
  }
  // The value is the same memory as `other` holds, in the layout that it has.
  void define_alias(Value value, Value other) {
    if (const float* filler = constant(other)) return define_constant(value, *filler);
    if (const auto found = batched_.find(other); found != batched_.end())
      batched_[value] = found->second;
    if (const auto found = plain_.find(other); found != plain_.end()) plain_[value] = found->second;
    alias_another_form(value, other);
  }
  // The same, of the plain layout alone.
  void define_plain_alias(Value value, Value other) {
    if (const float* filler = constant(other)) return define_constant(value, *filler);
    plain_[value] = plain(other);
  }
  // A value whose elements are all one constant; memory only if somebody asks for it.
  void define_constant(Value value, float constant) { constants_[value] = constant; }
  const float* constant(Value value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? nullptr : &found->second;
  }
  // Memory that holds these bytes always, the same for all replicas; once where several steps ask
  // for equal ones. Temporaries are each replica's.
  Slot data(std::span<const std::byte> bytes) {
    for (std::size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const SlotInfo& info = program_.slots[slot];
      if (info.kind == SlotInfo::Kind::kConstant &&
          std::ranges::equal(program_.constants[static_cast<std::size_t>(info.external)], bytes))
        return static_cast<Slot>(slot);
    }
    program_.constants.emplace_back(bytes.begin(), bytes.end());
    return add_slot({.kind = SlotInfo::Kind::kConstant,
                     .bytes = std::ssize(bytes),
                     .external = static_cast<int>(program_.constants.size()) - 1});
  }
  // Memory that lives as long as steps use it.
  Slot temporary(std::int64_t floats) {
    return add_slot({.bytes = std::max<std::int64_t>(floats, 1) * 4, .scratch = true});
  }

  // The step's name and cost are those of the current node unless given.
  void emit(Step step) {
    if (step.name.empty()) step.name = label_;
    // Of several steps of one node, the first that has no cost of its own carries the node's.
    if (step.cost.flops == 0 && step.cost.bytes == 0) step.cost = std::exchange(cost_, {});
    program_.steps.push_back(std::move(step));
  }

 protected:
  // lower(node, number of the node) emits the steps of one operation.
  template <typename Lower>
  Program<Step> lower_all(const Lower& lower) {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      output_index_.emplace(graph_.outputs()[i].value, static_cast<int>(i));
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value value = graph_.inputs()[i].value;
      plain_[value] = add_slot(external(SlotInfo::Kind::kInput, value, i));
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.op == nullptr) continue;
      label_ = node.name.empty() ? node.op->name : cat(node.op->name, " ", node.name);
      std::vector<TensorType> inputs;
      for (const Value value : node.inputs) inputs.push_back(graph_.type(value));
      cost_ = cost_of(*node.op, node.attributes, inputs, node.outputs);
      lower(node, static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) lower_output(i);
    return std::move(program_);
  }
  bool has_floats(Value value) const { return batched_.contains(value) || plain_.contains(value); }
  Slot add_slot(SlotInfo info) {
    program_.slots.push_back(info);
    return static_cast<Slot>(program_.slots.size()) - 1;
  }
  Program<Step>& program() { return program_; }

 private:
  // --- what a backend says ---
  // The memory of a value of this type in the second layout.
  virtual SlotInfo batched_slot(const TensorType& type) const = 0;
  virtual bool is_same_in_both(const Shape& shape) const = 0;
  // Emits the step that converts a value; `name` is of the step that wants it.
  virtual void convert(Value value, const std::string& name, Slot from, Slot to,
                       bool to_batched) = 0;
  // A backend may hold values in a further form, batched or plain. Whether it holds this one so;
  // the same of an alias; and what makes its plain or batched memory, if there is none, before that
  // is looked up.
  virtual bool is_in_another_form(Value, bool /*batched*/) const { return false; }
  virtual void alias_another_form(Value, Value) {}
  virtual void make_floats(Value) {}
  virtual void emit_fill(std::int64_t count, float filler, Slot to) = 0;
  virtual void emit_copy(std::int64_t bytes, Slot from, Slot to) = 0;

  SlotInfo external(SlotInfo::Kind kind, Value value, std::size_t number) const {
    return {.kind = kind,
            .bytes = graph_.type(value).bytes(),
            .external = static_cast<int>(number),
            .dtype = graph_.type(value).dtype};
  }
  void materialise(Value value) {
    const float* found = constant(value);
    if (found == nullptr || plain_.contains(value)) return;
    const float filler = *found;
    const Cost of_node = std::exchange(cost_, {});  // which it does not carry
    emit_fill(shape(value).elements(), filler, define_plain(value));
    cost_ = of_node;
  }
  // Copies an output that no kernel wrote in place: a value held in the second layout alone, an
  // input handed through, a constant, one value twice.
  void lower_output(std::size_t number) {
    const NamedValue& output = graph_.outputs()[number];
    const auto held = plain_.find(output.value);
    if (held != plain_.end()) {
      const SlotInfo& info = program_.slots[static_cast<std::size_t>(held->second)];
      if (info.kind == SlotInfo::Kind::kOutput && info.external == static_cast<int>(number)) return;
    }
    label_ = "output " + output.name;
    cost_ = {};
    const Slot target = add_slot(external(SlotInfo::Kind::kOutput, output.value, number));
    if (is_batched(output.value) && held == plain_.end())
      convert(output.value, label_, batched(output.value), target, false);
    else
      emit_copy(graph_.type(output.value).bytes(), plain(output.value), target);
  }

  const Graph& graph_;
  std::map<Value, Readers> readers_;
  Program<Step> program_;
  std::map<Value, Slot> batched_, plain_;
  std::map<Value, float> constants_;
  std::map<Value, int> output_index_;  // of a program output that nobody has written yet
  std::string label_;
  Cost cost_;
};

}  // namespace podium::lowering
