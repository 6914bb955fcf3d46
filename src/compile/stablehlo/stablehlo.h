// A graph as StableHLO (openxla.org/stablehlo), the language that XLA compiles: what the PJRT
// backend hands to a plugin, and `podium show RECIPE --stablehlo` prints.
//
//   @main         the inputs of the graph in their order -> its outputs in theirs
//   products and convolutions have precision HIGHEST, since the graph's values are FP32
//   images are [N, C, H, W], weights [K, C, R, S]
//   sums within an operation have XLA's order; random numbers and hashes have our bits
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compile/stablehlo/builder.h"
#include "graph/graph.h"

namespace podium::stablehlo {

// Appends the operations of the graph. `inputs` and the result are in the order of the graph's.
// `made` (may be null) sees each node with its results. Throws UserError, which names it, for an
// operation that has no emitter: one that a program defined itself.
std::vector<HloValue> emit(
    Builder& builder, const Graph& graph, std::span<const HloValue> inputs,
    const std::function<void(const Node& node, std::span<const HloValue> results)>& made = {});

// The whole module.
std::string module_text(const Graph& graph, const std::string& name);

// A module around the body of its function @main: `arguments` are written "%arg0: tensor<f32>".
std::string module_around(const std::string& name, std::span<const std::string> arguments,
                          const Builder& body, std::span<const HloValue> results);

// An identifier: what the language does not allow in one is replaced.
std::string identifier(const std::string& name);

}  // namespace podium::stablehlo
