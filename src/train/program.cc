#include "train/program.h"

#include <algorithm>

#include "autodiff/gradients.h"
#include "compile/choose.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::int64_t aligned(std::int64_t floats) {
  return (floats + kFlatAlign - 1) / kFlatAlign * kFlatAlign;
}

Shape batch_shape(const ReplicaInputs& inputs) {
  std::vector<std::int64_t> extents = {inputs.images};
  extents.insert(extents.end(), inputs.image.extents().begin(), inputs.image.extents().end());
  return Shape(std::move(extents));
}

// The programs take parameters and statistics in the order of the model's list, after the inputs
// given.
Graph with_inputs_in_order(const Graph& graph, const std::vector<std::string>& first,
                           const Network& net) {
  std::vector<std::string> order = first;
  for (const Parameter& parameter : net.parameters()) order.push_back(parameter.name);
  for (const Statistic& statistic : net.statistics()) order.push_back(statistic.name);
  Graph result;
  std::map<Value, Value> moved;
  for (const std::string& name : order) {
    const Value value = graph.input(name);
    moved[value] = result.input(name, graph.type(value), graph.node(value).role);
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == nullptr) continue;
    std::vector<Value> inputs;
    for (const Value value : node.inputs) inputs.push_back(moved.at(value));
    const std::vector<Value> outputs =
        result.add(*node.op, node.attributes, std::move(inputs), node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      moved[{static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)}] = outputs[o];
  }
  for (const NamedValue& output : graph.outputs())
    result.output(output.name, moved.at(output.value));
  return result;
}

Value checked_logits(Network& net, const Model& model, Value images, const ReplicaInputs& inputs) {
  const Value logits = model(net, images, inputs.classes);
  const Shape expected{inputs.images, inputs.classes};
  PODIUM_REQUIRE(net.graph().shape(logits) == expected, ExitCode::kUsage, "the model gives ",
                 to_string(net.graph().shape(logits)), ", not logits ", to_string(expected),
                 "; end it with a dense layer of as many units as classes");
  return logits;
}

FlatLayout make_layout(const Network& net) {
  FlatLayout layout;
  std::int64_t offset = 0;
  for (const Parameter& p : net.parameters()) {
    layout.parameters.push_back({p.name, p.shape, offset, p.decays});
    offset += aligned(p.shape.elements());
  }
  layout.parameter_floats = offset;
  for (const Statistic& s : net.statistics()) {
    layout.statistics.push_back({s.name, s.shape, offset, false});
    offset += aligned(s.shape.elements());
  }
  layout.loss_offset = offset;
  layout.floats = offset + kFlatAlign;
  return layout;
}

}  // namespace

ReplicaProgram build_replica_program(const Model& model, const ReplicaInputs& inputs,
                                     std::uint64_t seed, std::int64_t global_batch,
                                     float label_smoothing, bool inspect) {
  Graph graph;
  const Value images = graph.input("images", {DType::kF32, batch_shape(inputs)}, InputRole::kBatch);
  const Value labels =
      graph.input("labels", {DType::kI32, Shape{inputs.images}}, InputRole::kBatch);
  const Value step = graph.input("step", {DType::kU32, Shape{}}, InputRole::kScalar);
  const Value replica = graph.input("replica", {DType::kU32, Shape{}}, InputRole::kScalar);

  Network net(graph, Mode::kTrain, seed, step, replica);
  const Value logits = checked_logits(net, model, images, inputs);
  const Value losses = softmax_cross_entropy(graph, logits, labels, label_smoothing, "loss");

  // Each example weighs 1 / B, so the tree sum over replicas is the gradient of the mean loss over
  // the global batch.
  const Value weights = fill(graph, Shape{inputs.images}, 1.0f / static_cast<float>(global_batch));
  std::vector<Value> parameters;
  for (const Parameter& parameter : net.parameters()) parameters.push_back(parameter.value);
  const std::vector<Value> gradient_values = gradients(graph, losses, weights, parameters);

  for (std::size_t i = 0; i < parameters.size(); ++i)
    graph.output("gradient/" + net.parameters()[i].name, gradient_values[i]);
  for (const Statistic& statistic : net.statistics())
    graph.output("new/" + statistic.name, statistic.new_value);
  graph.output("loss", batch_mean(graph, losses, "loss"));
  graph.output("correct", correct(graph, logits, labels, "correct"));
  ReplicaProgram program;
  if (inspect) {
    graph.output("logits", logits);
    for (const Dropout& dropout : net.dropouts()) {
      graph.output("dropout/" + dropout.name, dropout.mask);
      program.dropouts.push_back(dropout.name);
    }
  }
  program.layout = make_layout(net);
  program.parameters = net.parameters();
  for (const Statistic& statistic : net.statistics())
    program.statistic_starts.push_back(statistic.initial);
  program.graph =
      choose_algorithms(with_inputs_in_order(graph, {"images", "labels", "step", "replica"}, net));
  return program;
}

Graph build_evaluation_program(const Model& model, const ReplicaInputs& inputs,
                               float label_smoothing) {
  Graph graph;
  const Value images = graph.input("images", {DType::kF32, batch_shape(inputs)}, InputRole::kBatch);
  const Value labels =
      graph.input("labels", {DType::kI32, Shape{inputs.images}}, InputRole::kBatch);
  Network net(graph, Mode::kEvaluate, 0);
  const Value logits = checked_logits(net, model, images, inputs);
  graph.output("logits", logits);
  graph.output("losses", softmax_cross_entropy(graph, logits, labels, label_smoothing, "loss"));
  return choose_algorithms(with_inputs_in_order(graph, {"images", "labels"}, net));
}

UpdateProgram build_update_program(const FlatLayout& layout, const OptimizerOptions& options,
                                   std::int64_t replicas, std::int64_t begin, std::int64_t end) {
  UpdateProgram program;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const FlatEntry& entry = layout.parameters[i];
    const std::int64_t next = i + 1 < layout.parameters.size() ? layout.parameters[i + 1].offset
                                                               : layout.parameter_floats;
    const std::int64_t from = std::max(entry.offset, begin), to = std::min(next, end);
    if (from >= to) continue;
    const float once = entry.decays || options.decay_all ? options.weight_decay : 0.0f;
    const float decay =
        options.decay == Decay::kPerReplica ? once * static_cast<float>(replicas) : once;
    // Neighbours under one decay are one piece; the gaps between tensors are zeros and stay so.
    if (!program.pieces.empty() && program.pieces.back().weight_decay == decay &&
        program.pieces.back().end == from) {
      program.pieces.back().end = to;
    } else {
      program.pieces.push_back({from, to, decay});
    }
  }
  Graph& graph = program.graph;
  std::vector<Value> scalars;
  for (const std::string& name : optimizer_scalars(options))
    scalars.push_back(graph.input(name, {DType::kF32, Shape{}}, InputRole::kScalar));
  const std::vector<std::string> state_names = optimizer_states(options);
  std::vector<std::vector<Value>> results;
  for (std::size_t i = 0; i < program.pieces.size(); ++i) {
    const UpdatePiece& piece = program.pieces[i];
    const TensorType type{DType::kF32, Shape{piece.end - piece.begin}};
    const Value parameter = graph.input(cat("parameter/", i), type, InputRole::kParameter);
    const Value gradient = graph.input(cat("gradient/", i), type, InputRole::kParameter);
    std::vector<Value> states;
    for (const std::string& name : state_names)
      states.push_back(graph.input(cat(name, "/", i), type, InputRole::kState));
    results.push_back(append_update(graph, options, piece.weight_decay, parameter, gradient, states,
                                    scalars, cat("piece ", i)));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t k = 0; k < results[i].size(); ++k)
      graph.output(cat("new/", i, "/", k), results[i][k]);
  }
  return program;
}

}  // namespace podium
