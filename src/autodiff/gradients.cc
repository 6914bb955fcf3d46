#include "autodiff/gradients.h"

#include <algorithm>
#include <map>

#include "ops/ops.h"

namespace podium {
namespace {

bool leads_to(const Graph& graph, Value from, Value to) {
  if (to.node < from.node) return false;
  std::vector<bool> needed(static_cast<std::size_t>(to.node) + 1, false);
  needed[static_cast<std::size_t>(to.node)] = true;
  for (std::int32_t i = to.node; i > from.node; --i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    for (const Value value : graph.node({i, 0}).inputs)
      needed[static_cast<std::size_t>(value.node)] = true;
  }
  return needed[static_cast<std::size_t>(from.node)];
}

}  // namespace

std::vector<Value> gradients(Graph& graph, Value output, Value seed,
                             std::span<const Value> with_respect_to) {
  PODIUM_CHECK(graph.type(seed) == graph.type(output));
  const auto last = static_cast<std::size_t>(output.node) + 1;

  // Which nodes lie between: those that read, directly or not, a value asked for.
  std::vector<bool> depends(last, false);
  for (const Value value : with_respect_to) {
    PODIUM_CHECK(static_cast<std::size_t>(value.node) < last);
    depends[static_cast<std::size_t>(value.node)] = true;
  }
  for (std::size_t i = 0; i < last; ++i) {
    for (const Value value : graph.nodes()[i].inputs)
      depends[i] = depends[i] || depends[static_cast<std::size_t>(value.node)];
  }

  std::map<Value, Value> gradient_of;  // sums so far
  const auto accumulate = [&](Value value, Value gradient) {
    Value& sum = gradient_of[value];
    sum = sum ? add(graph, sum, gradient, graph.node(value).name) : gradient;
  };
  accumulate(output, seed);

  for (std::size_t i = last; i-- > 0;) {
    const Node node = graph.nodes()[i];  // a copy: rules append to the graph
    const auto wants = [&](Value value) { return depends[static_cast<std::size_t>(value.node)]; };
    if (node.op == nullptr || std::ranges::none_of(node.inputs, wants)) continue;
    std::vector<Value> from_above(node.outputs.size());
    bool reached = false;
    for (std::size_t o = 0; o < from_above.size(); ++o) {
      const auto found =
          gradient_of.find({static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)});
      if (found == gradient_of.end()) continue;
      from_above[o] = found->second;
      reached = true;
    }
    if (!reached) continue;
    PODIUM_REQUIRE(node.op->gradient != nullptr, ExitCode::kUsage, "[", node.op->name, " \"",
                   node.name, "\"] has no gradient, but a parameter is reached only through it");
    std::unique_ptr<bool[]> wanted(new bool[node.inputs.size()]);
    for (std::size_t k = 0; k < node.inputs.size(); ++k) wanted[k] = wants(node.inputs[k]);
    const std::vector<Value> below =
        node.op->gradient(GradientContext{graph, Value{static_cast<std::int32_t>(i), 0}, from_above,
                                          std::span<const bool>(wanted.get(), node.inputs.size())});
    PODIUM_REQUIRE(below.size() <= node.inputs.size(), ExitCode::kUsage, "[", node.op->name, " \"",
                   node.name, "\"] has ", node.inputs.size(),
                   " inputs, and its gradient rule gives ", below.size(),
                   " gradients; it gives one for each input, in order");
    for (std::size_t k = 0; k < below.size(); ++k) {
      if (!below[k] || !wanted[k]) continue;
      PODIUM_REQUIRE(graph.type(below[k]) == graph.type(node.inputs[k]), ExitCode::kUsage, "[",
                     node.op->name, " \"", node.name, "\"] its gradient rule gives ",
                     to_string(graph.type(below[k])), " for input ", k, ", which is ",
                     to_string(graph.type(node.inputs[k])));
      accumulate(node.inputs[k], below[k]);
    }
  }

  std::vector<Value> result;
  for (const Value value : with_respect_to) {
    const auto found = gradient_of.find(value);
    if (found == gradient_of.end()) {
      PODIUM_CHECK(leads_to(graph, value, output), "the output does not depend on ",
                   graph.node(value).name);
      throw UserError(cat("[\"", graph.node(value).name,
                          "\"] has no gradient: an operation between it and the output gives none "
                          "for the input that leads to it"));
    }
    result.push_back(found->second);
  }
  return result;
}

}  // namespace podium
