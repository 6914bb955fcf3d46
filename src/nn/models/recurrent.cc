#include "nn/models/recurrent.h"

#include <cmath>

#include "base/error.h"
#include "ops/ops.h"

namespace podium::recurrent {

void require_size(const std::string& model, const NetworkOptions& options) {
  PODIUM_REQUIRE(options.layers >= 1 && options.width >= 1, ExitCode::kUsage, "a ", model, " of ",
                 options.layers, " layers and width ", options.width, ": each must be at least 1");
}

Value parameter(Network& net, const NetworkOptions& options, const std::string& name,
                const Shape& shape) {
  return net.parameter({.name = name,
                        .shape = shape,
                        .initialiser = Initialiser::kUniform,
                        .decays = shape.rank() > 1,
                        .bound = options.initial_range > 0
                                     ? options.initial_range
                                     : 1.0f / std::sqrt(static_cast<float>(options.width))});
}

Gates gates(Network& net, const NetworkOptions& options, const std::string& end, Value x) {
  Graph& graph = net.graph();
  const std::string name = "lstm" + end;
  const std::int64_t rows = 4 * options.width;
  const auto own = [&](const char* of, const Shape& shape) {
    return parameter(net, options, cat("lstm.", of, end), shape);
  };
  // One after the other: the order of parameters decides their first values.
  const Value of_x = own("weight_ih", {rows, graph.shape(x)[1]});
  const Value of_h = own("weight_hh", {rows, options.width});
  const Value bias_h = own("bias_hh", {rows});
  const Value bias_x = own("bias_ih", {rows});
  const Value bias = add(graph, bias_x, bias_h, name + ".bias");
  return {bias_add(graph, matmul(graph, x, of_x, {.transpose_b = true}, name), bias, name), of_h};
}

}  // namespace podium::recurrent
