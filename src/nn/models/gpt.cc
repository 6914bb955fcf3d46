// GPT (Radford et al., 2019): tokens and learned positions, then blocks of causal attention and a
// dense layer of four times the width, each with a layer norm before it, then a layer norm and
// logits of the next token. Parameters are named as in the published networks, but that query, key
// and value are a layer each.
#include <string>

#include "nn/models.h"
#include "nn/models/language.h"
#include "ops/ops.h"

namespace podium {
namespace {

using language::dense, language::kDeviation, language::matrix;

class Gpt {
 public:
  Gpt(Network& net, const NetworkOptions& options) : net_(net), o_(options) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const Value table = matrix(net_, "wte", {vocabulary, o_.width}, kDeviation);
    Value x = add(graph, embedding(graph, tokens, table, "wte"),
                  position_embedding(graph, tokens,
                                     matrix(net_, "wpe", {context, o_.width}, kDeviation), "wpe"),
                  "tokens");
    x = net_.dropout("drop", x, o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i)
      x = net_.end_block(block(cat("h.", i), x, context));
    x = norm("ln_f", x);
    if (o_.tied) return matmul(graph, x, table, {.transpose_b = true}, "head");
    return dense(net_, "head", x, vocabulary, kDeviation, false);
  }

 private:
  Value block(const std::string& name, Value x, std::int64_t context) {
    Graph& graph = net_.graph();
    const float last = language::last_deviation(o_.layers);
    Value h = norm(name + ".ln_1", x);
    const auto part = [&](const char* of) {
      return dense(net_, cat(name, ".attn.", of), h, o_.width, kDeviation, o_.bias);
    };
    const Value q = part("query"), k = part("key"), v = part("value");
    h = attention(graph, q, k, v, {.heads = o_.heads, .groups = o_.heads, .tokens = context},
                  name + ".attn");
    h = dense(net_, name + ".attn.c_proj", h, o_.width, last, o_.bias);
    x = add(graph, x, net_.dropout(name + ".attn.drop", h, o_.dropout), name + ".attn.sum");
    h = dense(net_, name + ".mlp.c_fc", norm(name + ".ln_2", x), 4 * o_.width, kDeviation, o_.bias);
    h = activate(graph, h, {o_.gelu_tanh ? ActivationKind::kGeluTanh : ActivationKind::kGelu},
                 name + ".mlp.gelu");
    h = dense(net_, name + ".mlp.c_proj", h, o_.width, last, o_.bias);
    return add(graph, x, net_.dropout(name + ".mlp.drop", h, o_.dropout), name + ".mlp.sum");
  }

  Value norm(const std::string& name, Value x) { return language::norm(net_, name, x, o_.bias); }

  Network& net_;
  const NetworkOptions& o_;
};

}  // namespace

Model gpt_model(const NetworkOptions& options) {
  language::require_size("gpt", options);
  return language::model("gpt", [options](Network& net, Value tokens, std::int64_t vocabulary) {
    return Gpt(net, options).logits(tokens, vocabulary);
  });
}

}  // namespace podium
