// LSTMs that read a sequence in both directions (Graves, Schmidhuber, Framewise phoneme
// classification, 2005): the class of a sentence or a recording. Parameters are named as in
// PyTorch.
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "nn/models.h"
#include "ops/ops.h"

namespace podium {
namespace {

class BidirectionalLstm {
 public:
  BidirectionalLstm(Network& net, const NetworkOptions& options)
      : net_(net),
        o_(options),
        bound_(options.initial_range > 0 ? options.initial_range
                                         : 1.0f / std::sqrt(static_cast<float>(options.width))) {}

  // Tokens i32 [B, T] or frames f32 [B, T, features] -> [B, classes].
  Value logits(Value sequence, const Field& field, std::int64_t classes) {
    Graph& graph = net_.graph();
    const std::int64_t sequences = graph.shape(sequence)[0], length = graph.shape(sequence)[1];
    Value x = field.dtype == DType::kI32
                  ? embedding(graph, sequence,
                              parameter("embedding.weight", {field.below, o_.width}), "embedding")
                  : reshape(graph, sequence, Shape{sequences * length, field.shape[1]}, "frames");
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      const Value forward = direction(i, x, length, false), back = direction(i, x, length, true);
      x = net_.add(net_.pad_channels(forward, 0, o_.width), net_.pad_channels(back, o_.width, 0));
      x = net_.end_block(net_.dropout(cat("lstm.drop_l", i), x, o_.dropout));
    }
    // The largest value of each unit over the sequence: padding has no say in it.
    const Value image = reshape(graph, x, Shape{sequences, 1, length, 2 * o_.width}, "pool");
    const Value units = permute(graph, image, {.channels = 3, .rows = 1, .columns = 2}, "pool");
    return net_.dense("fc", net_.global_max_pool(units), {.units = classes, .bias = true});
  }

 private:
  // x [B T, features] -> the hidden states [B T, width].
  Value direction(std::int64_t number, Value x, std::int64_t length, bool reverse) {
    Graph& graph = net_.graph();
    const std::int64_t gates = 4 * o_.width, sequences = graph.shape(x)[0] / length;
    const std::string end = cat("_l", number, reverse ? "_reverse" : "");
    // One after the other: the order of parameters decides their first values.
    const Value of_x = parameter("lstm.weight_ih" + end, {gates, graph.shape(x)[1]});
    const Value of_h = parameter("lstm.weight_hh" + end, {gates, o_.width});
    const Value bias = parameter("lstm.bias" + end, {gates});
    const std::string name = "lstm" + end;
    const Value sums =
        bias_add(graph, matmul(graph, x, of_x, {.transpose_b = true}, name), bias, name);
    const Value zeros = fill(graph, Shape{sequences, o_.width}, 0, name + ".start");
    return lstm(graph, sums, of_h, zeros, zeros, {.tokens = length, .reverse = reverse}, name)
        .hidden;
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

Model bilstm_model(const NetworkOptions& options) {
  PODIUM_REQUIRE(options.layers >= 1 && options.width >= 1, ExitCode::kUsage, "a bilstm of ",
                 options.layers, " layers and width ", options.width, ": each must be at least 1");
  return [options](Network& net, const Inputs& in) -> Outputs {
    const Field* sequence = nullptr;
    for (const Field& field : in.fields()) {
      const bool tokens = field.dtype == DType::kI32 && field.shape.rank() == 1 && field.below > 0;
      const bool frames = field.dtype == DType::kF32 && field.shape.rank() == 2;
      if (!field.target && (tokens || frames)) sequence = &field;
    }
    PODIUM_REQUIRE(sequence != nullptr, ExitCode::kUsage,
                   "a bilstm reads tokens i32 [context] or frames f32 [context, features], got ",
                   to_text(in.fields()));
    const Field& target = in.target();
    PODIUM_REQUIRE(target.shape.rank() == 0 && target.below > 0, ExitCode::kUsage,
                   "a bilstm predicts one class of each sequence, got ", to_text(in.fields()));
    return {{"logits",
             BidirectionalLstm(net, options).logits(in[sequence->name], *sequence, target.below)}};
  };
}

}  // namespace podium
