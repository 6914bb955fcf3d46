// Recurrent layers that read a sequence in both directions (Graves, Schmidhuber, Framewise phoneme
// classification, 2005): the class of a sentence or a recording.
#include <string>

#include "base/error.h"
#include "nn/models.h"
#include "nn/models/recurrent.h"
#include "ops/ops.h"

namespace podium {
namespace {

using recurrent::Cell;

class Bidirectional {
 public:
  Bidirectional(Network& net, const NetworkOptions& options, Cell cell)
      : net_(net), o_(options), cell_(cell) {}

  // Tokens i32 [B, T] or frames f32 [B, T, features] -> [B, classes].
  Value logits(Value sequence, const Field& field, std::int64_t classes) {
    Graph& graph = net_.graph();
    const std::int64_t sequences = graph.shape(sequence)[0], length = graph.shape(sequence)[1];
    Value x =
        field.dtype == DType::kI32
            ? embedding(graph, sequence,
                        recurrent::parameter(net_, o_, "embedding.weight", {field.below, o_.width}),
                        "embedding")
            : reshape(graph, sequence, Shape{sequences * length, field.shape[1]}, "frames");
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      const Value forward = direction(cat("_l", i), x, {.tokens = length}),
                  back =
                      direction(cat("_l", i, "_reverse"), x, {.tokens = length, .reverse = true});
      x = net_.add(net_.pad_channels(forward, 0, o_.width), net_.pad_channels(back, o_.width, 0));
      x = net_.end_block(net_.dropout(cat(name_of(cell_), ".drop_l", i), x, o_.dropout));
    }
    // The largest value of each unit over the sequence: padding has no say in it.
    const Value image = reshape(graph, x, Shape{sequences, 1, length, 2 * o_.width}, "pool");
    const Value units = permute(graph, image, {.channels = 3, .rows = 1, .columns = 2}, "pool");
    return net_.dense("fc", net_.global_max_pool(units), {.units = classes, .bias = true});
  }

 private:
  // x [B T, features] -> the hidden states [B T, width]; they begin from zeros.
  Value direction(const std::string& end, Value x, const RecurrentAttributes& attributes) {
    Graph& graph = net_.graph();
    const Value zeros = fill(graph, Shape{graph.shape(x)[0] / attributes.tokens, o_.width}, 0,
                             cat(name_of(cell_), end, ".start"));
    return recurrent::layer(net_, o_, cell_, end, x, {zeros, zeros}, attributes).hidden;
  }

  Network& net_;
  const NetworkOptions& o_;
  Cell cell_;
};

Model bidirectional_model(Cell cell, const NetworkOptions& options) {
  const std::string name = cat("bi", name_of(cell));
  recurrent::require_size(name, options);
  return [=](Network& net, const Inputs& in) -> Outputs {
    const Field* sequence = nullptr;
    for (const Field& field : in.fields()) {
      const bool tokens = field.dtype == DType::kI32 && field.shape.rank() == 1 && field.below > 0;
      const bool frames = field.dtype == DType::kF32 && field.shape.rank() == 2;
      if (!field.target && (tokens || frames)) sequence = &field;
    }
    PODIUM_REQUIRE(sequence != nullptr, ExitCode::kUsage, "a ", name,
                   " reads tokens i32 [context] or frames f32 [context, features], got ",
                   to_text(in.fields()));
    const Field& target = in.target();
    PODIUM_REQUIRE(target.shape.rank() == 0 && target.below > 0, ExitCode::kUsage, "a ", name,
                   " predicts one class of each sequence, got ", to_text(in.fields()));
    return {
        {"logits",
         Bidirectional(net, options, cell).logits(in[sequence->name], *sequence, target.below)}};
  };
}

}  // namespace

Model bilstm_model(const NetworkOptions& options) {
  return bidirectional_model(Cell::kLstm, options);
}
Model bigru_model(const NetworkOptions& options) {
  return bidirectional_model(Cell::kGru, options);
}

}  // namespace podium
