#include "compile/decode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

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
          node.op == &combine_op || node.op == &round_bf16_op) &&
         all();
}

class Rewriter {
 public:
  // `states`: inputs of the network's that go on from window to window.
  Rewriter(const Graph& from, Value tokens, const std::vector<Value>& states)
      : from_(from), tokens_(tokens), states_(states) {
    const TensorType numbers{DType::kI32, Shape{from.shape(tokens)[0]}};
    positions_ = to_.input(kPositions, numbers, InputRole::kBatch);
    origins_ = to_.input(kOrigins, numbers, InputRole::kBatch);
  }

  // Whether the graph could be rewritten.
  bool run() {
    for (std::size_t i = 0; i < from_.nodes().size(); ++i)
      if (!rewrite(static_cast<std::int32_t>(i), from_.nodes()[i])) return false;
    return true;
  }
  Value made(Value old) const { return made_.at(old).value; }
  bool is_row(Value old) const { return made_.at(old).kind == Kind::kRow; }
  Graph& graph() { return to_; }
  Graph& memory() { return memory_; }
  const std::vector<Value>& cached() const { return cached_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::string>& memories() const { return memories_; }

 private:
  enum class Kind {
    kShared,  // as it was, in both graphs
    kRow,     // one row of each sequence for the old value's T
    kMemory,  // of other inputs: in the graph of these alone
  };
  struct Made {
    Value value;  // of a memory: in the new graph, where it is read
    Kind kind = Kind::kShared;
    Value remembered = {};  // in the graph of other inputs
  };

  bool rewrite(std::int32_t index, const Node& node) {
    const Value old{index, 0};
    if (node.op == nullptr) return add_input(old, node);
    std::vector<Kind> kinds;
    for (const Value input : node.inputs) kinds.push_back(made_.at(input).kind);
    const auto has = [&](Kind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
    if (!has(Kind::kRow)) {
      copy(index, node, has(Kind::kMemory) ? Kind::kMemory : Kind::kShared);
      return true;
    }
    if (node.op == &attention_op || node.op == &attention_bf16_op) return attend(old, node, kinds);
    if (has(Kind::kMemory)) return false;
    std::vector<Value> inputs;
    std::vector<bool> rows;
    for (const Value input : node.inputs) {
      inputs.push_back(made_.at(input).value);
      rows.push_back(is_row(input));
    }
    const auto add = [&](const OpDef& op, const Attributes& attributes) {
      made_[old] = {to_.add1(op, attributes, std::move(inputs), node.name), Kind::kRow};
      return true;
    };
    if (node.op == &lstm_op || node.op == &gru_op) return remember(index, node, inputs, rows);
    if (node.outputs.size() != 1) return false;
    if (node.op == &embedding_op) {
      if (node.inputs[0] != tokens_ || rows[1]) return false;
      if (node.attributes.as<EmbeddingAttributes>().positions) inputs[0] = positions_;
      return add(embedding_op, EmbeddingAttributes{});
    }
    if (node.op == &rotary_op) {
      inputs.push_back(positions_);
      return add(rotary_op, node.attributes);
    }
    if (!works_on_rows(node, rows)) return false;
    return add(*node.op, node.attributes);
  }

  bool add_input(Value old, const Node& node) {
    if (old == tokens_) {
      const Shape one{node.outputs[0].shape[0], 1};
      made_[old] = {to_.input(node.name, {DType::kI32, one}, node.role), Kind::kRow};
      return true;
    }
    const bool is_state = std::ranges::find(states_, old) != states_.end();
    const Value remembered = memory_.input(node.name, node.outputs[0], node.role);
    if (node.role == InputRole::kBatch && !is_state)
      made_[old] = {{}, Kind::kMemory, remembered};
    else
      made_[old] = {to_.input(node.name, node.outputs[0], node.role), Kind::kShared, remembered};
    return true;
  }

  // What depends on no token.
  void copy(std::int32_t index, const Node& node, Kind kind) {
    const auto into = [&](Graph& graph, Value Made::*where) {
      std::vector<Value> inputs;
      for (const Value input : node.inputs) inputs.push_back(made_.at(input).*where);
      return graph.add(*node.op, node.attributes, std::move(inputs), node.name);
    };
    const std::vector<Value> remembered = into(memory_, &Made::remembered);
    const std::vector<Value> values =
        kind == Kind::kShared ? into(to_, &Made::value) : std::vector<Value>(remembered.size());
    for (std::size_t o = 0; o < values.size(); ++o)
      made_[{index, static_cast<std::int32_t>(o)}] = {values[o], kind, remembered[o]};
  }

  // A value of the graph of other inputs, where a token reads it.
  Value recalled(Value old) {
    Made& made = made_.at(old);
    if (made.value) return made.value;
    const Node& node = from_.node(old);
    if (node.op == nullptr) return made.value = to_.input(node.name, from_.type(old), node.role);
    memories_.push_back(cat("memory/", memories_.size()));
    memory_.output(memories_.back(), made.remembered);
    return made.value = to_.input(memories_.back(), from_.type(old), InputRole::kState);
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
      made_[{index, o}] = {made[static_cast<std::size_t>(o)],
                           o < 1 || o > last ? Kind::kRow : Kind::kShared};
    return true;
  }

  bool attend(Value old, const Node& node, const std::vector<Kind>& kinds) {
    AttentionAttributes a = node.attributes.as<AttentionAttributes>();
    if (a.tokens != from_.shape(tokens_)[1] || kinds[0] != Kind::kRow) return false;
    std::vector<Value> inputs = {made_.at(node.inputs[0]).value};
    if (std::count(kinds.begin() + 1, kinds.end(), Kind::kMemory) + 1 == std::ssize(kinds)) {
      for (std::size_t i = 1; i < kinds.size(); ++i) inputs.push_back(recalled(node.inputs[i]));
      if (a.causal) return false;
      a.keys = a.keys > 0 ? a.keys : a.tokens;
      a.tokens = 1;
      made_[old] = {to_.add1(*node.op, a, std::move(inputs), node.name), Kind::kRow};
      return true;
    }
    if (!a.causal || kinds[1] != Kind::kRow || kinds[2] != Kind::kRow) return false;
    const std::size_t number = names_.size() / 2;
    Value seen;
    for (const std::size_t operand : {1u, 2u}) {
      const Value row = node.inputs[operand];
      names_.push_back(cat("cache/", number, operand == 1 ? "/keys" : "/values"));
      cached_.push_back(row);
      const Value kept = to_.input(names_.back(), from_.type(row), InputRole::kState);
      const std::vector<Value> made =
          to_.add(cache_row_op, {}, {positions_, origins_, made_.at(row).value, kept}, node.name);
      inputs.push_back(made[0]);
      seen = made[1];
      to_.output(kNextCache + names_.back(), made[0]);
    }
    inputs.push_back(seen);
    // Of a single query: it sees the keys up to its own position.
    a.keys = a.tokens;
    a.tokens = 1;
    a.causal = false;
    made_[old] = {to_.add1(*node.op, a, std::move(inputs), node.name), Kind::kRow};
    return true;
  }

  const Graph& from_;
  Value tokens_, positions_, origins_;
  const std::vector<Value>& states_;
  Graph to_, memory_;
  std::map<Value, Made> made_;
  std::vector<Value> cached_;  // of the old graph
  std::vector<std::string> names_, memories_;
};

}  // namespace

std::optional<Decoding> decoding_of(const Graph& evaluation, const std::string& tokens,
                                    const std::string& logits,
                                    const std::vector<StateNames>& states) {
  const Value window = evaluation.input(tokens), result = evaluation.output(logits);
  if (evaluation.outputs().size() != 1 + states.size() ||
      evaluation.type(window).dtype != DType::kI32 || evaluation.shape(window).rank() != 2 ||
      (!states.empty() && evaluation.shape(window)[0] != 1))
    return std::nullopt;
  std::vector<Value> before;
  for (const StateNames& state : states) before.push_back(evaluation.input(state.before));
  Rewriter rewriter(evaluation, window, before);
  if (!rewriter.run() || !rewriter.is_row(result)) return std::nullopt;
  // Keys and values of more than one window cannot be kept.
  if (!states.empty() && !rewriter.names().empty()) return std::nullopt;
  Decoding decoding;
  decoding.caches = rewriter.names();
  decoding.memories = rewriter.memories();
  if (!decoding.memories.empty()) decoding.memory = without_dead_nodes(rewriter.memory());
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
