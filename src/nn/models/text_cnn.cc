// Convolutions over words (Kim, Convolutional Neural Networks for Sentence Classification, 2014):
// filters over 3, 4 and 5 tokens, the largest value of each over the sentence, one dense layer.
// Vectors of tokens are learned from random ones.
#include <array>
#include <string>

#include "base/error.h"
#include "nn/models.h"
#include "ops/ops.h"

namespace podium {
namespace {

constexpr std::array<std::int64_t, 3> kTokens = {3, 4, 5};
// Of each length, where the recipe names no number.
constexpr std::int64_t kFilters = 100;
// The vectors of tokens begin between this and its negative.
constexpr float kRange = 0.25f;

// The tokens as images [B, width, 1, T]: a feature is a channel, a token a column.
Value vectors(Network& net, Value tokens, std::int64_t vocabulary, const NetworkOptions& options) {
  Graph& graph = net.graph();
  const Value table =
      net.parameter({.name = "embedding.weight",
                     .shape = {vocabulary, options.width},
                     .initialiser = Initialiser::kUniform,
                     .bound = options.initial_range > 0 ? options.initial_range : kRange});
  const Shape& shape = graph.shape(tokens);
  const Value rows = reshape(graph, embedding(graph, tokens, table, "embedding"),
                             Shape{shape[0], 1, shape[1], options.width}, "embedding");
  return permute(graph, rows, {.channels = 3, .rows = 1, .columns = 2}, "embedding");
}

// The largest value that each filter over `length` tokens has in a sentence, [B, filters].
Value strongest(Network& net, Value x, std::int64_t length, std::int64_t filters) {
  Graph& graph = net.graph();
  const std::string name = cat("conv", length);
  const Value weight = net.parameter({.name = name + ".weight",
                                      .shape = {filters, graph.shape(x)[1], 1, length},
                                      .initialiser = Initialiser::kFanInUniform,
                                      .decays = true});
  const Value y = bias_add(graph, conv2d(graph, x, weight, {}, name),
                           net.parameter({.name = name + ".bias", .shape = {filters}}), name);
  return net.global_max_pool(net.relu(y));
}

}  // namespace

Model text_cnn_model(const NetworkOptions& options) {
  PODIUM_REQUIRE(options.width >= 1, ExitCode::kUsage, "a text-cnn of width ", options.width,
                 ": it must be at least 1");
  return [options](Network& net, const Inputs& in) -> Outputs {
    const Field& tokens = in.field("tokens");
    const Field& target = in.target();
    PODIUM_REQUIRE(tokens.dtype == DType::kI32 && tokens.shape.rank() == 1 &&
                       tokens.shape[0] >= kTokens.back() && tokens.below > 0,
                   ExitCode::kUsage,
                   "a text-cnn reads tokens i32 [context] of a context of at least ",
                   kTokens.back(), ", got ", to_text(in.fields()));
    PODIUM_REQUIRE(target.shape.rank() == 0 && target.below > 0, ExitCode::kUsage,
                   "a text-cnn predicts one class of each sentence, got ", to_text(in.fields()));
    const std::int64_t filters = options.hidden > 0 ? options.hidden : kFilters;
    const auto lengths = static_cast<std::int64_t>(kTokens.size());
    const Value x = vectors(net, in["tokens"], tokens.below, options);
    Value features;
    for (std::int64_t i = 0; i < lengths; ++i) {
      const Value own =
          net.pad_channels(strongest(net, x, kTokens[static_cast<std::size_t>(i)], filters),
                           i * filters, (lengths - 1 - i) * filters);
      features = i == 0 ? own : net.add(features, own);
    }
    features = net.dropout("drop", features, options.dropout);
    return {{"logits", net.dense("fc", features, {.units = target.below, .bias = true})}};
  };
}

}  // namespace podium
