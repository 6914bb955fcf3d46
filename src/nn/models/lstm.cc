// Stacked LSTMs that predict the next token (Zaremba et al., Recurrent Neural Network
// Regularization, 2014): dropout between layers, not along time.
#include <string>

#include "base/error.h"
#include "nn/models.h"
#include "nn/models/language.h"
#include "nn/models/recurrent.h"
#include "ops/ops.h"

namespace podium {
namespace {

using recurrent::parameter;

class StackedLstm {
 public:
  StackedLstm(Network& net, const NetworkOptions& options) : net_(net), o_(options) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const Value table = parameter(net_, o_, "embedding.weight", {vocabulary, o_.width});
    Value x = embedding(graph, tokens, table, "embedding");
    x = net_.dropout("drop", x, o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      x = layer(i, x, context);
      x = net_.end_block(net_.dropout(cat("lstm.drop_l", i), x, o_.dropout));
    }
    const Value last = o_.tied ? table : parameter(net_, o_, "head.weight", {vocabulary, o_.width});
    return bias_add(graph, matmul(graph, x, last, {.transpose_b = true}, "head"),
                    parameter(net_, o_, "head.bias", {vocabulary}), "head");
  }

 private:
  // x [B T, width] -> the hidden states [B T, width]. The states go on to the next batch.
  Value layer(std::int64_t number, Value x, std::int64_t context) {
    const std::string name = cat("lstm.l", number);
    const recurrent::Gates gates = recurrent::gates(net_, o_, cat("_l", number), x);
    const Value hidden = net_.carried(name + ".hidden", {o_.width}),
                cells = net_.carried(name + ".cells", {o_.width});
    const LstmResult result =
        lstm(net_.graph(), gates.sums, gates.hidden, hidden, cells, {.tokens = context}, name);
    net_.carry(hidden, result.last_hidden);
    net_.carry(cells, result.last_cells);
    return result.hidden;
  }

  Network& net_;
  const NetworkOptions& o_;
};

}  // namespace

Model lstm_model(const NetworkOptions& options) {
  recurrent::require_size("lstm", options);
  return language::model("lstm", [options](Network& net, Value tokens, std::int64_t vocabulary) {
    return StackedLstm(net, options).logits(tokens, vocabulary);
  });
}

}  // namespace podium
