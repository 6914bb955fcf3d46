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

std::string_view name_of(Cell cell) { return cell == Cell::kLstm ? "lstm" : "gru"; }

Layer layer(Network& net, const NetworkOptions& options, Cell cell, const std::string& end, Value x,
            const States& first, const RecurrentAttributes& attributes) {
  Graph& graph = net.graph();
  const std::string name = cat(name_of(cell), end);
  const std::int64_t rows = (cell == Cell::kLstm ? 4 : 3) * options.width;
  const auto own = [&](const char* of, const Shape& shape) {
    return parameter(net, options, cat(name_of(cell), ".", of, end), shape);
  };
  // One after the other: the order of parameters decides their first values.
  const Value of_x = own("weight_ih", {rows, graph.shape(x)[1]});
  const Value of_h = own("weight_hh", {rows, options.width});
  const Value bias_h = own("bias_hh", {rows});
  const Value bias_x = own("bias_ih", {rows});
  if (cell == Cell::kLstm) {
    const Value bias = add(graph, bias_x, bias_h, name + ".bias");
    const Value sums =
        bias_add(graph, matmul(graph, x, of_x, {.transpose_b = true}, name), bias, name);
    const LstmResult result = lstm(graph, sums, of_h, first.hidden, first.cells, attributes, name);
    return {result.hidden, {result.last_hidden, result.last_cells}};
  }
  const Value sums =
      bias_add(graph, matmul(graph, x, of_x, {.transpose_b = true}, name), bias_x, name);
  const GruResult result = gru(graph, sums, of_h, bias_h, first.hidden, attributes, name);
  return {result.hidden, {result.last_hidden, {}}};
}

}  // namespace podium::recurrent
