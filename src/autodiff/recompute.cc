#include "autodiff/recompute.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

class Rewriter {
 public:
  Rewriter(const Graph& from, std::int32_t backward, std::span<const Value> ends)
      : from_(from), backward_(backward), again_(from.nodes().size()) {
    for (const Value end : ends) ends_.push_back(end.node);
    std::ranges::sort(ends_);
    PODIUM_CHECK(ends_.back() < backward, "the end of a block behind the network");
  }

  Graph run() {
    for (const Node& node : from_.nodes()) {
      const bool forward = std::ssize(first_) < backward_;
      first_.push_back(node.op == nullptr
                           ? Values{to_.input(node.name, node.outputs[0], node.role)}
                           : copy(node, forward ? &Rewriter::first : &Rewriter::held_or_again));
    }
    for (const NamedValue& output : from_.outputs()) to_.output(output.name, first(output.value));
    return std::move(to_);
  }

 private:
  using Values = std::vector<Value>;  // of a node

  Value first(Value old) {
    return first_[static_cast<std::size_t>(old.node)][static_cast<std::size_t>(old.output)];
  }

  // With what `operand` makes of each operand.
  Values copy(const Node& node, Value (Rewriter::*operand)(Value)) {
    Values inputs;
    for (const Value old : node.inputs) inputs.push_back((this->*operand)(old));
    return to_.add(*node.op, node.attributes, std::move(inputs), node.name);
  }

  // For a node of the backward pass: computed again where it is not held.
  Value held_or_again(Value old) {
    const Node& node = from_.node(old);
    if (node.op == nullptr || old.node >= ends_.back() ||
        std::ranges::binary_search(ends_, old.node))
      return first(old);
    Values& again = again_[static_cast<std::size_t>(old.node)];
    if (again.empty()) again = copy(node, &Rewriter::held_or_again);
    return again[static_cast<std::size_t>(old.output)];
  }

  const Graph& from_;
  std::int32_t backward_;
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
