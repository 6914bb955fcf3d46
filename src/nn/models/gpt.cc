// GPT (Radford et al., 2019): tokens and learned positions, then blocks of causal attention and a
// dense layer of four times the width, each with a layer norm before it, then a layer norm and
// logits of the next token. Parameters are named as in the published networks, but that query, key
// and value are a layer each.
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "nn/models.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Of all matrices (GPT-2). Those that end on a sum of `layers` blocks are divided by the root of
// how many there are, so that the sum keeps its size.
constexpr float kDeviation = 0.02f;

class Gpt {
 public:
  Gpt(Network& net, const NetworkOptions& options) : net_(net), o_(options) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const Value table = matrix("wte", {vocabulary, o_.width}, kDeviation);
    Value x = add(
        graph, embedding(graph, tokens, table, "wte"),
        position_embedding(graph, tokens, matrix("wpe", {context, o_.width}, kDeviation), "wpe"),
        "tokens");
    x = net_.dropout("drop", x, o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i) x = block(cat("h.", i), x, context);
    x = norm("ln_f", x);
    if (o_.tied) return matmul(graph, x, table, {.transpose_b = true}, "head");
    return dense("head", x, vocabulary, kDeviation, false);
  }

 private:
  Value block(const std::string& name, Value x, std::int64_t context) {
    Graph& graph = net_.graph();
    const float last = kDeviation / std::sqrt(2.0f * static_cast<float>(o_.layers));
    Value h = norm(name + ".ln_1", x);
    const auto part = [&](const char* of) {
      return dense(cat(name, ".attn.", of), h, o_.width, kDeviation, o_.bias);
    };
    const Value q = part("query"), k = part("key"), v = part("value");
    h = attention(graph, q, k, v, {.heads = o_.heads, .groups = o_.heads, .tokens = context},
                  name + ".attn");
    h = dense(name + ".attn.c_proj", h, o_.width, last, o_.bias);
    x = add(graph, x, net_.dropout(name + ".attn.drop", h, o_.dropout), name + ".attn.sum");
    h = dense(name + ".mlp.c_fc", norm(name + ".ln_2", x), 4 * o_.width, kDeviation, o_.bias);
    h = activate(graph, h, {ActivationKind::kGelu}, name + ".mlp.gelu");
    h = dense(name + ".mlp.c_proj", h, o_.width, last, o_.bias);
    return add(graph, x, net_.dropout(name + ".mlp.drop", h, o_.dropout), name + ".mlp.sum");
  }

  Value matrix(const std::string& name, const Shape& shape, float deviation) {
    return net_.parameter({.name = name + ".weight",
                           .shape = shape,
                           .initialiser = Initialiser::kNormal,
                           .decays = true,
                           .deviation = deviation});
  }
  Value dense(const std::string& name, Value x, std::int64_t units, float deviation, bool bias) {
    Graph& graph = net_.graph();
    const Value weight = matrix(name, {units, graph.shape(x)[1]}, deviation);
    const Value y = matmul(graph, x, weight, {.transpose_b = true}, name);
    if (!bias) return y;
    return bias_add(graph, y, net_.parameter({.name = name + ".bias", .shape = {units}}), name);
  }
  Value norm(const std::string& name, Value x) {
    const Shape features{o_.width};
    const Value scale = net_.parameter(
        {.name = name + ".weight", .shape = features, .initialiser = Initialiser::kOnes});
    const Value shift = o_.bias ? net_.parameter({.name = name + ".bias", .shape = features})
                                : fill(net_.graph(), features, 0.0f, name);
    return layer_norm(net_.graph(), x, scale, shift, 1e-5f, name);
  }

  Network& net_;
  const NetworkOptions& o_;
};

// Each token's loss; the target has a token for each.
Score next_token(Network& net, const Outputs& outputs, const Inputs& inputs) {
  Graph& graph = net.graph();
  const Field& target = inputs.target();
  const Value next = inputs[target.name];
  const Value flat = reshape(graph, next, Shape{graph.shape(next).elements()}, target.name);
  return {softmax_cross_entropy(graph, output_of(outputs, "logits"), flat, inputs.label_smoothing,
                                "loss")};
}

}  // namespace

Model gpt_model(const NetworkOptions& options) {
  PODIUM_REQUIRE(options.layers >= 1 && options.heads >= 1 && options.width >= 1, ExitCode::kUsage,
                 "a gpt of ", options.layers, " layers, ", options.heads, " heads and width ",
                 options.width, ": each must be at least 1");
  PODIUM_REQUIRE(options.width % options.heads == 0, ExitCode::kUsage,
                 "network.heads = ", options.heads,
                 " does not divide network.width = ", options.width,
                 "; every head has the same number of features");
  const auto forward = [options](Network& net, const Inputs& in) -> Outputs {
    const Field& tokens = in.field("tokens");
    PODIUM_REQUIRE(tokens.dtype == DType::kI32 && tokens.shape.rank() == 1 && tokens.below > 0,
                   ExitCode::kUsage, "a gpt reads tokens i32 [context] below a vocabulary, got ",
                   to_text(in.fields()));
    return {{"logits", Gpt(net, options).logits(in["tokens"], tokens.below)}};
  };
  const Metric bits{
      .name = "bits_per_token", .unit = "", .more_is_better = false, .of = [](const Sums& sums) {
        return sums.loss / std::numbers::ln2;
      }};
  return Model(forward, next_token, {perplexity_metric(), bits});
}

}  // namespace podium
