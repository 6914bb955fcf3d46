#include "train/predict/attention_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "data/pairs/pairs.h"
#include "ops/geometry.h"
#include "ops/ops.h"
#include "train/predict/predictor_state.h"

namespace podium {
namespace {

constexpr const char *kQueries = "attention/queries", *kKeys = "attention/keys";

// The last attention that reads the sequence of others.
const Node* attention_of(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes())
    if ((node.op == &attention_op || node.op == &attention_bf16_op) && node.inputs.size() == 4)
      found = &node;
  return found;
}

}  // namespace

struct AttentionReader::State {
  Predictor::State& network;
  AttentionShape shape = {};
  BatchMemory batch;
  BoundExecutable program;
  Staging queries, keys, logits;
};

AttentionReader::AttentionReader(Predictor& predictor) {
  Predictor::State& network = *predictor.state_;
  Graph graph = network.program_of(1);
  const Node* const node = attention_of(graph);
  if (node == nullptr) return;
  const Value queries = node->inputs[0], keys = node->inputs[1];
  const AttentionShape shape =
      attention_shape(node->attributes.as<AttentionAttributes>(), graph.shape(queries));
  graph.output(kQueries, queries);
  graph.output(kKeys, keys);
  Device& device = *network.device;
  state_ = std::make_unique<State>(State{.network = network, .shape = shape});
  State& s = *state_;
  s.program = BoundExecutable(device, graph, {});
  s.batch = BatchMemory(device, network.inputs, 1);
  s.batch.bind(s.program, graph);
  network.bind(s.program);
  s.queries = Staging(device, graph.type(queries).bytes());
  s.keys = Staging(device, graph.type(keys).bytes());
  s.logits = Staging(device, graph.type(graph.output(network.output)).bytes());
  s.program.bind_output(kQueries, s.queries.view());
  s.program.bind_output(kKeys, s.keys.view());
  s.program.bind_output(network.output, s.logits.view());
}
AttentionReader::~AttentionReader() = default;

std::optional<AttentionMap> AttentionReader::read(std::span<const std::int32_t> source,
                                                  std::span<const std::int32_t> written,
                                                  const Tokenizer& tokenizer) {
  if (!state_) return std::nullopt;
  State& s = *state_;
  const Field& field = *find_field(s.network.fields, kSourceField);
  const auto row = [&](std::span<const std::int32_t> tokens) {
    TokenRows rows{{tokens.begin(), tokens.end()}, {static_cast<std::int32_t>(tokens.size())}};
    rows.tokens.resize(static_cast<std::size_t>(field.shape[0]), end_token(tokenizer));
    return rows;
  };
  const PairSource pair("a sentence", s.network.fields, end_token(tokenizer), row(source),
                        row(written));
  std::vector<std::int32_t> target(static_cast<std::size_t>(field.shape[0]));
  std::vector<void*> to(s.network.fields.size(), target.data());
  for (std::size_t i = 0; i < s.network.inputs.size(); ++i) {
    const auto found = std::ranges::find(s.network.fields, s.network.inputs[i].name, &Field::name);
    to[static_cast<std::size_t>(found - s.network.fields.begin())] = s.batch.host()[i];
  }
  pair.read(0, nullptr, to);
  s.batch.send();
  s.program.run();
  s.queries.receive(), s.keys.receive();

  AttentionMap map;
  const auto name = [&](std::int32_t token) {
    return token == end_token(tokenizer) ? std::string("end") : tokenizer.text_of(token);
  };
  std::ranges::transform(source, std::back_inserter(map.read), name);
  std::ranges::transform(written, std::back_inserter(map.written), name);
  map.shares.resize(source.size() * written.size());
  const AttentionShape& shape = s.shape;
  for (std::size_t t = 0; t < written.size(); ++t)
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const float* const q = s.queries.host<float>() + shape.query(0, head) +
                             static_cast<std::int64_t>(t) * shape.query_row();
      const float* k = s.keys.host<float>() + shape.key(0, head / shape.heads_of_group());
      std::vector<float> scores;
      for (std::size_t j = 0; j < source.size(); ++j, k += shape.key_row())
        scores.push_back(std::inner_product(q, q + shape.features, k, 0.0f) * shape.scale);
      const std::vector<double> shares = probabilities(scores);
      for (std::size_t j = 0; j < source.size(); ++j)
        map.shares[t * source.size() + j] +=
            static_cast<float>(shares[j] / static_cast<double>(shape.heads));
    }
  return map;
}

}  // namespace podium
