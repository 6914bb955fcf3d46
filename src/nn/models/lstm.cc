// Stacked LSTMs that predict the next token (Zaremba et al., Recurrent Neural Network
// Regularization, 2014): dropout between layers, not along time. Parameters are named as in
// PyTorch.
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "nn/models.h"
#include "nn/models/language.h"
#include "ops/ops.h"

namespace podium {
namespace {

class StackedLstm {
 public:
  StackedLstm(Network& net, const NetworkOptions& options)
      : net_(net),
        o_(options),
        bound_(options.initial_range > 0 ? options.initial_range
                                         : 1.0f / std::sqrt(static_cast<float>(options.width))) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const Value table = parameter("embedding.weight", {vocabulary, o_.width});
    Value x = embedding(graph, tokens, table, "embedding");
    x = net_.dropout("drop", x, o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      x = layer(i, x, context);
      x = net_.end_block(net_.dropout(cat("lstm.drop_l", i), x, o_.dropout));
    }
    const Value last = o_.tied ? table : parameter("head.weight", {vocabulary, o_.width});
    return bias_add(graph, matmul(graph, x, last, {.transpose_b = true}, "head"),
                    parameter("head.bias", {vocabulary}), "head");
  }

 private:
  // x [B T, width] -> the hidden states [B T, width]. The states go on to the next batch.
  Value layer(std::int64_t number, Value x, std::int64_t context) {
    Graph& graph = net_.graph();
    const std::int64_t gates = 4 * o_.width;
    const std::string name = cat("lstm.l", number);
    const auto own = [&](const char* of, const Shape& shape) {
      return parameter(cat("lstm.", of, "_l", number), shape);
    };
    // One after the other: the order of parameters decides their first values.
    const Value of_x = own("weight_ih", {gates, o_.width});
    const Value of_h = own("weight_hh", {gates, o_.width});
    const Value bias_h = own("bias_hh", {gates});
    const Value bias_x = own("bias_ih", {gates});
    const Value bias = add(graph, bias_x, bias_h, name + ".bias");
    const Value sums =
        bias_add(graph, matmul(graph, x, of_x, {.transpose_b = true}, name), bias, name);
    const Value hidden = net_.carried(name + ".hidden", {o_.width}),
                cells = net_.carried(name + ".cells", {o_.width});
    const LstmResult result = lstm(graph, sums, of_h, hidden, cells, {.tokens = context}, name);
    net_.carry(hidden, result.last_hidden);
    net_.carry(cells, result.last_cells);
    return result.hidden;
  }

  Value parameter(const std::string& name, const Shape& shape) {
    return net_.parameter({.name = name,
                           .shape = shape,
                           .initialiser = Initialiser::kUniform,
                           .decays = shape.rank() > 1,
                           .bound = bound_});
  }

  Network& net_;
  const NetworkOptions& o_;
  float bound_;
};

}  // namespace

Model lstm_model(const NetworkOptions& options) {
  PODIUM_REQUIRE(options.layers >= 1 && options.width >= 1, ExitCode::kUsage, "an lstm of ",
                 options.layers, " layers and width ", options.width, ": each must be at least 1");
  return language::model("lstm", [options](Network& net, Value tokens, std::int64_t vocabulary) {
    return StackedLstm(net, options).logits(tokens, vocabulary);
  });
}

}  // namespace podium
