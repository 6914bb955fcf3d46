#include "compile/decode.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/ops.h"

namespace podium {
namespace {

constexpr std::int64_t kContext = 6, kWidth = 8;

// An embedding and an attention, with what `change` makes of its result.
template <typename Change>
Graph network(const AttentionAttributes& a, const Change& change) {
  Graph graph;
  const Value tokens = graph.input("tokens", {DType::kI32, Shape{1, kContext}}, InputRole::kBatch);
  const Value table = graph.input("table", {DType::kF32, Shape{10, kWidth}}, InputRole::kParameter);
  const Value x = embedding(graph, tokens, table);
  const Value y = attention(graph, rotary(graph, x, {.tokens = kContext, .features = 4}), x, x, a);
  graph.output("logits", change(graph, add(graph, x, y), table));
  return graph;
}
constexpr AttentionAttributes kAttention = {.heads = 2, .groups = 2, .tokens = kContext};

TEST(Decoding, makes_a_program_of_one_row_with_the_keys_and_values_of_those_before) {
  const Graph graph = network(kAttention, [](Graph& g, Value x, Value table) {
    return matmul(g, x, table, {.transpose_b = true});
  });
  const auto decoding = decoding_of(graph, "tokens", "logits");
  ASSERT_TRUE(decoding);
  EXPECT_EQ(decoding->caches, (std::vector<std::string>{"cache/0/keys", "cache/0/values"}));
  decoding->window.verify();
  decoding->token.verify();
  EXPECT_EQ(decoding->window.shape(decoding->window.output("cache/0/keys")),
            (Shape{kContext, kWidth}));
  EXPECT_EQ(decoding->token.shape(decoding->token.output("logits")), (Shape{1, 10}));
  // Every device has kernels for it.
  for (const Node& node : decoding->token.nodes())
    EXPECT_TRUE(node.op == nullptr || node.op->kind != kOwnOperation) << node.op->name;
  EXPECT_EQ(decoding->token.shape(decoding->token.output("next/cache/0/values")),
            (Shape{kContext, kWidth}));
}

TEST(Decoding, is_not_possible_where_a_token_depends_on_others_in_another_way) {
  const auto same = [](Graph&, Value x, Value) { return x; };
  AttentionAttributes ahead = kAttention;
  ahead.causal = false;
  EXPECT_TRUE(decoding_of(network(kAttention, same), "tokens", "logits"));
  EXPECT_FALSE(decoding_of(network(ahead, same), "tokens", "logits"));
  // A sum over the rows.
  EXPECT_FALSE(decoding_of(
      network(kAttention,
              [](Graph& g, Value x, Value) { return matmul(g, x, x, {.transpose_a = true}); }),
      "tokens", "logits"));
  // Two tokens to a row.
  EXPECT_FALSE(decoding_of(network(kAttention,
                                   [](Graph& g, Value x, Value) {
                                     return reshape(g, x, Shape{kContext / 2, 2 * kWidth});
                                   }),
                           "tokens", "logits"));
}

}  // namespace
}  // namespace podium
