// Stacked recurrent layers that predict the next token (Zaremba et al., Recurrent Neural Network
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

using recurrent::Cell;

class Stacked {
 public:
  Stacked(Network& net, const NetworkOptions& options, Cell cell)
      : net_(net), o_(options), cell_(cell) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const Value table = parameter(net_, o_, "embedding.weight", {vocabulary, o_.width});
    Value x = embedding(graph, tokens, table, "embedding");
    x = net_.dropout("drop", x, o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      x = layer(i, x, context);
      x = net_.end_block(net_.dropout(cat(name_of(cell_), ".drop_l", i), x, o_.dropout));
    }
    const Value last = o_.tied ? table : parameter(net_, o_, "head.weight", {vocabulary, o_.width});
    return bias_add(graph, matmul(graph, x, last, {.transpose_b = true}, "head"),
                    parameter(net_, o_, "head.bias", {vocabulary}), "head");
  }

 private:
  // x [B T, width] -> the hidden states [B T, width]. The states go on to the next batch.
  Value layer(std::int64_t number, Value x, std::int64_t context) {
    const std::string name = cat(name_of(cell_), ".l", number);
    recurrent::States first{net_.carried(name + ".hidden", {o_.width}), {}};
    if (cell_ == Cell::kLstm) first.cells = net_.carried(name + ".cells", {o_.width});
    const recurrent::Layer read =
        recurrent::layer(net_, o_, cell_, cat("_l", number), x, first, {.tokens = context});
    net_.carry(first.hidden, read.last.hidden);
    if (cell_ == Cell::kLstm) net_.carry(first.cells, read.last.cells);
    return read.hidden;
  }

  Network& net_;
  const NetworkOptions& o_;
  Cell cell_;
};

Model stacked_model(Cell cell, const NetworkOptions& options) {
  const std::string name(name_of(cell));
  recurrent::require_size(name, options);
  return language::model(name, [=](Network& net, Value tokens, std::int64_t vocabulary) {
    return Stacked(net, options, cell).logits(tokens, vocabulary);
  });
}

}  // namespace

Model lstm_model(const NetworkOptions& options) { return stacked_model(Cell::kLstm, options); }
Model gru_model(const NetworkOptions& options) { return stacked_model(Cell::kGru, options); }

}  // namespace podium
