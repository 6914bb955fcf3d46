#include "autodiff/recompute.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

class Rewriter {
 public:
  Rewriter(const Graph& from, std::int32_t backward, std::span<const Value> ends)
      : from_(from), backward_(backward), last_end_(ends.back().node), again_(from.nodes().size()) {
    for (const Value end : ends) ends_.push_back(end.node);
    PODIUM_CHECK(std::ranges::is_sorted(ends_) && last_end_ < backward, "ends of blocks");
  }

  Graph run() {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(from_.nodes().size()); ++i) {
      const Node& node = from_.nodes()[static_cast<std::size_t>(i)];
      first_.push_back(i < backward_ ? copy(node, node.inputs, node.name)
                                     : copy(node, inputs_of(node), node.name));
    }
    for (const NamedValue& output : from_.outputs()) to_.output(output.name, first(output.value));
    return std::move(to_);
  }

 private:
  using Values = std::vector<Value>;  // of a node

  Value first(Value old) const {
    return first_[static_cast<std::size_t>(old.node)][static_cast<std::size_t>(old.output)];
  }

  // `inputs` are of the old graph in the forward pass, where nodes have the same order in both.
  Values copy(const Node& node, const Values& inputs, const std::string& name) {
    if (node.op == nullptr) return {to_.input(node.name, node.outputs[0], node.role)};
    Values made = inputs;
    if (std::ssize(first_) < backward_)
      std::ranges::transform(inputs, made.begin(), [&](Value v) { return first(v); });
    return to_.add(*node.op, node.attributes, std::move(made), name);
  }

  // The operands of a node of the backward pass, computed again where they are not held.
  Values inputs_of(const Node& node) {
    Values inputs;
    for (const Value old : node.inputs) inputs.push_back(held_or_again(old));
    return inputs;
  }

  Value held_or_again(Value old) {
    const Node& node = from_.node(old);
    if (node.op == nullptr || old.node >= last_end_ || std::ranges::binary_search(ends_, old.node))
      return first(old);
    Values& again = again_[static_cast<std::size_t>(old.node)];
    if (again.empty()) {
      Values inputs = inputs_of(node);
      again = to_.add(*node.op, node.attributes, std::move(inputs), node.name);
    }
    return again[static_cast<std::size_t>(old.output)];
  }

  const Graph& from_;
  std::int32_t backward_, last_end_;
  std::vector<std::int32_t> ends_;
  Graph to_;
  std::vector<Values> first_, again_;  // by the old node's number
};

}  // namespace

Graph with_blocks_recomputed(const Graph& graph, std::int32_t backward,
                             std::span<const Value> ends) {
  if (ends.empty()) return graph;
  return Rewriter(graph, backward, ends).run();
}

}  // namespace podium
