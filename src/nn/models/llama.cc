// Llama (Touvron et al., 2023): tokens, then blocks of causal attention, whose queries and keys are
// turned by their positions, and a gated dense layer (SwiGLU: Shazeer, 2020), each with an RMS norm
// before it, then an RMS norm and logits of the next token. Heads may share keys and values
// (Ainslie et al., 2023). Parameters are named as in the published networks.
#include <string>

#include "base/error.h"
#include "nn/models.h"
#include "nn/models/language.h"
#include "ops/ops.h"

namespace podium {
namespace {

class Llama {
 public:
  Llama(Network& net, const NetworkOptions& options) : net_(net), o_(options) {}

  // tokens i32 [B, T], each below `vocabulary` -> [B T, vocabulary].
  Value logits(Value tokens, std::int64_t vocabulary) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(tokens)[1];
    const std::string embed = "model.embed_tokens";
    const Value table = language::matrix(net_, embed, {vocabulary, o_.width}, language::kDeviation);
    Value x = net_.dropout("drop", embedding(graph, tokens, table, embed), o_.dropout);
    for (std::int64_t i = 0; i < o_.layers; ++i)
      x = net_.end_block(block(cat("model.layers.", i), x, context));
    x = norm("model.norm", x);
    if (o_.tied) return matmul(graph, x, table, {.transpose_b = true}, "lm_head");
    return language::dense(net_, "lm_head", x, vocabulary, language::kDeviation, false);
  }

 private:
  Value block(const std::string& name, Value x, std::int64_t context) {
    Graph& graph = net_.graph();
    const std::int64_t features = o_.width / o_.heads, groups = o_.key_heads();
    const std::string attend = name + ".self_attn", mlp = name + ".mlp";
    Value h = norm(name + ".input_layernorm", x);
    const RotaryAttributes turn{.tokens = context, .features = features, .base = o_.rotary_base};
    const auto turned = [&](const char* of, std::int64_t heads) {
      const std::string part = cat(attend, ".", of, "_proj");
      return rotary(graph, dense(part, h, heads * features), turn, cat(attend, ".", of));
    };
    const Value q = turned("q", o_.heads), k = turned("k", groups),
                v = dense(attend + ".v_proj", h, groups * features);
    h = attention(graph, q, k, v, {.heads = o_.heads, .groups = groups, .tokens = context}, attend);
    x = sum(attend, x, h, ".o_proj");
    h = norm(name + ".post_attention_layernorm", x);
    const Value gate = activate(graph, dense(mlp + ".gate_proj", h, o_.hidden_units()),
                                {ActivationKind::kSilu}, mlp + ".silu"),
                up = dense(mlp + ".up_proj", h, o_.hidden_units());
    return sum(mlp, x, mul(graph, gate, up, mlp + ".gated"), ".down_proj");
  }

  // x + a dense layer of h.
  Value sum(const std::string& name, Value x, Value h, const char* layer) {
    const Value y = language::dense(net_, name + layer, h, o_.width,
                                    language::last_deviation(o_.layers), o_.bias);
    return add(net_.graph(), x, net_.dropout(name + ".drop", y, o_.dropout), name + ".sum");
  }
  Value dense(const std::string& name, Value x, std::int64_t units) {
    return language::dense(net_, name, x, units, language::kDeviation, o_.bias);
  }
  Value norm(const std::string& name, Value x) {
    const Value scale = net_.parameter(
        {.name = name + ".weight", .shape = Shape{o_.width}, .initialiser = Initialiser::kOnes});
    return rms_norm(net_.graph(), x, scale, 1e-5f, name);
  }

  Network& net_;
  const NetworkOptions& o_;
};

}  // namespace

Model llama_model(const NetworkOptions& options) {
  language::require_size("llama", options);
  PODIUM_REQUIRE(options.heads % options.key_heads() == 0, ExitCode::kUsage,
                 "network.groups = ", options.groups,
                 " does not divide network.heads = ", options.heads,
                 "; every head of keys and values serves the same number of queries' heads");
  PODIUM_REQUIRE(options.width / options.heads % 2 == 0, ExitCode::kUsage, "a llama of width ",
                 options.width, " with ", options.heads, " heads has ",
                 options.width / options.heads,
                 " features in each; rotary embedding turns pairs, so it must be an even number");
  return language::model("llama", [options](Network& net, Value tokens, std::int64_t vocabulary) {
    return Llama(net, options).logits(tokens, vocabulary);
  });
}

}  // namespace podium
