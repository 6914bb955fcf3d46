#include "compile/decode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "ops/decode.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Operations whose result at a row depends on that row of the operands in `rows` alone.
bool works_on_rows(const Node& node, const std::vector<bool>& rows) {
  const auto only_first = [&] {
    return rows[0] && std::count(rows.begin(), rows.end(), true) == 1;
  };
  const auto all = [&] { return std::count(rows.begin(), rows.end(), false) == 0; };
  if (node.op == &matmul_op || node.op == &matmul_bf16_op)
    return only_first() && !node.attributes.as<MatmulAttributes>().transpose_a;
  if (node.op == &bias_add_op || node.op == &layer_norm_op || node.op == &multiply_by_op)
    return only_first();
  return (node.op == &activate_op || node.op == &scale_op || node.op == &divide_op ||
          node.op == &add_op || node.op == &sub_op || node.op == &mul_op ||
          node.op == &combine_op) &&
         all();
}

class Rewriter {
 public:
  // `states`: inputs of the network's that go on from window to window.
  Rewriter(const Graph& from, Value tokens, const std::vector<Value>& states)
      : from_(from), tokens_(tokens), states_(states) {
    position_ = to_.input("position", {DType::kI32, Shape{1}}, InputRole::kBatch);
  }

  // Whether the graph could be rewritten.
  bool run() {
    for (std::size_t i = 0; i < from_.nodes().size(); ++i)
      if (!rewrite(static_cast<std::int32_t>(i), from_.nodes()[i])) return false;
    return true;
  }
  Value made(Value old) const { return made_.at(old).value; }
  bool is_row(Value old) const { return made_.at(old).row; }
  Graph& graph() { return to_; }
  const std::vector<Value>& cached() const { return cached_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Made {
    Value value;
    bool row = false;  // one row for the old value's T
  };

  bool rewrite(std::int32_t index, const Node& node) {
    const Value old{index, 0};
    if (node.op == nullptr) {
      const bool is_tokens = old == tokens_;
      const bool is_state = std::ranges::find(states_, old) != states_.end();
      if (node.role == InputRole::kBatch && !is_tokens && !is_state) return false;
      const TensorType type = is_tokens ? TensorType{DType::kI32, Shape{1, 1}} : node.outputs[0];
      made_[old] = {to_.input(node.name, type, node.role), is_tokens};
      return true;
    }
    std::vector<Value> inputs;
    std::vector<bool> rows;
    for (const Value input : node.inputs) {
      inputs.push_back(made_.at(input).value);
      rows.push_back(made_.at(input).row);
    }
    const auto add = [&](const OpDef& op, const Attributes& attributes, bool row) {
      made_[old] = {to_.add1(op, attributes, std::move(inputs), node.name), row};
      return true;
    };
    if (std::ranges::find(rows, true) == rows.end()) {
      const std::vector<Value> values = to_.add(*node.op, node.attributes, inputs, node.name);
      for (std::size_t o = 0; o < values.size(); ++o)
        made_[{index, static_cast<std::int32_t>(o)}] = {values[o]};
      return true;
    }
    if (node.op == &lstm_op || node.op == &gru_op) return remember(index, node, inputs, rows);
    if (node.outputs.size() != 1) return false;
    if (node.op == &embedding_op) {
      if (node.inputs[0] != tokens_ || rows[1]) return false;
      if (node.attributes.as<EmbeddingAttributes>().positions) inputs[0] = position_;
      return add(embedding_op, EmbeddingAttributes{}, true);
    }
    if (node.op == &rotary_op) {
      inputs.push_back(position_);
      return add(rotary_at_op, node.attributes, true);
    }
    if (node.op == &attention_op) return attend(old, node, inputs);
    if (!works_on_rows(node, rows)) return false;
    return add(*node.op, node.attributes, true);
  }

  // The states after the last token are not of a row: one token leaves them to the next.
  bool remember(std::int32_t index, const Node& node, const std::vector<Value>& inputs,
                const std::vector<bool>& rows) {
    RecurrentAttributes a = node.attributes.as<RecurrentAttributes>();
    if (a.reverse || a.tokens != from_.shape(tokens_)[1] || rows[1] || rows[2] || rows[3])
      return false;
    a.tokens = 1;
    const std::int32_t last = node.op == &lstm_op ? kLstmLastCells : kGruLastHidden;
    const std::vector<Value> made = to_.add(*node.op, a, inputs, node.name);
    for (std::int32_t o = 0; o < static_cast<std::int32_t>(made.size()); ++o)
      made_[{index, o}] = {made[static_cast<std::size_t>(o)], o < 1 || o > last};
    return true;
  }

  bool attend(Value old, const Node& node, std::vector<Value> inputs) {
    const auto& a = node.attributes.as<AttentionAttributes>();
    if (!a.causal || a.tokens != from_.shape(tokens_)[1]) return false;
    for (const std::size_t operand : {1u, 2u}) {
      names_.push_back(cat("cache/", names_.size() / 2, operand == 1 ? "/keys" : "/values"));
      cached_.push_back(node.inputs[operand]);
      inputs.push_back(
          to_.input(names_.back(), from_.type(node.inputs[operand]), InputRole::kState));
    }
    inputs.push_back(position_);
    const std::vector<Value> made = to_.add(attend_cached_op, a, inputs, node.name);
    made_[old] = {made[0], true};
    to_.output(kNextCache + names_[names_.size() - 2], made[1]);
    to_.output(kNextCache + names_.back(), made[2]);
    return true;
  }

  const Graph& from_;
  Value tokens_, position_;
  const std::vector<Value>& states_;
  Graph to_;
  std::map<Value, Made> made_;
  std::vector<Value> cached_;  // of the old graph
  std::vector<std::string> names_;
};

}  // namespace

std::optional<Decoding> decoding_of(const Graph& evaluation, const std::string& tokens,
                                    const std::string& logits,
                                    const std::vector<StateNames>& states) {
  const Value window = evaluation.input(tokens), result = evaluation.output(logits);
  if (evaluation.outputs().size() != 1 + states.size() ||
      evaluation.type(window).dtype != DType::kI32 || evaluation.shape(window).rank() != 2 ||
      evaluation.shape(window)[0] != 1)
    return std::nullopt;
  std::vector<Value> before;
  for (const StateNames& state : states) before.push_back(evaluation.input(state.before));
  Rewriter rewriter(evaluation, window, before);
  if (!rewriter.run() || !rewriter.is_row(result)) return std::nullopt;
  // Keys and values of more than one window cannot be kept.
  if (!states.empty() && !rewriter.names().empty()) return std::nullopt;
  Decoding decoding;
  decoding.caches = rewriter.names();
  decoding.token = std::move(rewriter.graph());
  decoding.token.output(logits, rewriter.made(result));
  for (const StateNames& state : states) {
    const Value after = evaluation.output(state.after);
    if (rewriter.is_row(after)) return std::nullopt;
    decoding.caches.push_back(state.before);
    decoding.token.output(kNextCache + state.before, rewriter.made(after));
  }
  if (!states.empty()) return decoding;
  decoding.window = evaluation;
  for (std::size_t i = 0; i < decoding.caches.size(); ++i)
    decoding.window.output(decoding.caches[i], rewriter.cached()[i]);
  return decoding;
}

}  // namespace podium
