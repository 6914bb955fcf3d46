// An encoder that reads a sentence and a decoder that writes another (Vaswani et al., Attention Is
// All You Need, 2017), with a layer norm before each part of a block, learned positions, and one
// table of tokens for both languages and the last layer.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "nn/models.h"
#include "nn/models/language.h"
#include "ops/ops.h"

namespace podium {
namespace {

using language::dense, language::kDeviation, language::matrix;

class Transformer {
 public:
  // `tokens`: as the data have them, whose longest sentence decides how many positions there are.
  Transformer(Network& net, const NetworkOptions& options, const Field& tokens)
      : net_(net),
        o_(options),
        positions_(std::max(tokens.longest, tokens.shape[0])),
        table_(matrix(net, "embedding", {tokens.below, options.width}, kDeviation)) {}

  // source and tokens i32 [B, T], lengths i32 [B] -> [B T, vocabulary].
  Value logits(Value source, Value lengths, Value tokens) {
    Graph& graph = net_.graph();
    const std::int64_t context = graph.shape(source)[1];
    Value memory = embedded("encoder", source);
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      const std::string name = cat("encoder.", i);
      const Value h = norm(name + ".ln_1", memory);
      memory = sum(name + ".attn", memory, attend(name + ".attn", h, h, lengths, context));
      memory = net_.end_block(feed_forward(name, memory));
    }
    memory = norm("encoder.ln_f", memory);
    Value x = embedded("decoder", tokens);
    for (std::int64_t i = 0; i < o_.layers; ++i) {
      const std::string name = cat("decoder.", i);
      const Value h = norm(name + ".ln_1", x);
      x = sum(name + ".attn", x, attend(name + ".attn", h, h, {}, context));
      const Value other = norm(name + ".ln_x", x);
      x = sum(name + ".cross", x, attend(name + ".cross", other, memory, lengths, context));
      x = net_.end_block(feed_forward(name, x));
    }
    x = norm("decoder.ln_f", x);
    if (o_.tied) return matmul(graph, x, table_, {.transpose_b = true}, "head");
    return dense(net_, "head", x, graph.shape(table_)[0], kDeviation, false);
  }

 private:
  Value embedded(const std::string& name, Value tokens) {
    Graph& graph = net_.graph();
    const Value places = matrix(net_, name + ".positions", {positions_, o_.width}, kDeviation);
    const Value own = embedding(graph, tokens, table_, name + ".embedding");
    return net_.dropout(
        name + ".drop",
        add(graph, own, position_embedding(graph, tokens, places, name + ".positions"), name),
        o_.dropout);
  }

  // The rows of x ask those of `memory`; without lengths, those before them.
  Value attend(const std::string& name, Value x, Value memory, Value lengths,
               std::int64_t context) {
    Graph& graph = net_.graph();
    const Value q = dense(net_, name + ".query", x, o_.width, kDeviation, o_.bias);
    const Value k = dense(net_, name + ".key", memory, o_.width, kDeviation, o_.bias);
    const Value v = dense(net_, name + ".value", memory, o_.width, kDeviation, o_.bias);
    const AttentionAttributes a{
        .heads = o_.heads, .groups = o_.heads, .tokens = context, .causal = !lengths};
    const Value y =
        lengths ? attention(graph, q, k, v, lengths, a, name) : attention(graph, q, k, v, a, name);
    return dense(net_, name + ".out", y, o_.width, language::last_deviation(o_.layers), o_.bias);
  }

  Value feed_forward(const std::string& name, Value x) {
    Graph& graph = net_.graph();
    const std::int64_t units = o_.hidden > 0 ? o_.hidden : 4 * o_.width;
    Value h = dense(net_, name + ".mlp.in", norm(name + ".ln_2", x), units, kDeviation, o_.bias);
    h = activate(graph, h, {ActivationKind::kGelu}, name + ".mlp.gelu");
    h = dense(net_, name + ".mlp.out", h, o_.width, language::last_deviation(o_.layers), o_.bias);
    return sum(name + ".mlp", x, h);
  }

  Value sum(const std::string& name, Value x, Value part) {
    return add(net_.graph(), x, net_.dropout(name + ".drop", part, o_.dropout), name + ".sum");
  }

  Value norm(const std::string& name, Value x) { return language::norm(net_, name, x, o_.bias); }

  Network& net_;
  const NetworkOptions& o_;
  std::int64_t positions_;
  Value table_;
};

}  // namespace

Model transformer_model(const NetworkOptions& options) {
  language::require_size("transformer", options);
  const auto forward = [options](Network& net, const Inputs& in) -> Outputs {
    const Field &source = in.field("source"), &tokens = in.field("tokens");
    PODIUM_REQUIRE(source.dtype == DType::kI32 && source.shape.rank() == 1 && source.below > 0 &&
                       tokens.dtype == DType::kI32 && tokens.shape == source.shape &&
                       tokens.below == source.below,
                   ExitCode::kUsage,
                   "a transformer reads source and tokens i32 [context] below a vocabulary, got ",
                   to_text(in.fields()));
    Transformer network(net, options, source);
    const Value of_source = in["source"], lengths = in["source_length"], of_target = in["tokens"];
    return {{"logits", network.logits(of_source, lengths, of_target)}};
  };
  return language::predicting(forward);
}

}  // namespace podium
