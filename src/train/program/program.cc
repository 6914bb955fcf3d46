#include "train/program/program.h"

#include <algorithm>

#include "autodiff/gradients.h"
#include "autodiff/recompute.h"
#include "base/words.h"
#include "compile/choose.h"
#include "compile/trim.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kFlatAlign - 1) / kFlatAlign * kFlatAlign;
}

std::int64_t floats_in(std::int64_t bytes) {
  return bytes / static_cast<std::int64_t>(size_of(DType::kF32));
}

Inputs inputs_in(Graph& graph, const BatchInputs& inputs, bool with_targets) {
  Inputs all(graph, inputs.fields, inputs.rows, with_targets);
  all.label_smoothing = inputs.label_smoothing;
  return all;
}

// What a model of one's own can get wrong, said before a pass stumbles over it.
void require_complete(const Network& net, const Graph& graph, Value losses) {
  std::vector<bool> read(graph.nodes().size(), false);
  read[static_cast<std::size_t>(losses.node)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    if (!read[i]) continue;
    for (const Value value : graph.nodes()[i].inputs)
      read[static_cast<std::size_t>(value.node)] = true;
  }
  for (const Parameter& parameter : net.parameters())
    PODIUM_REQUIRE(!parameter.trained || read[static_cast<std::size_t>(parameter.value.node)],
                   ExitCode::kUsage, "[\"", parameter.name,
                   "\"] is a trained parameter that no loss depends on; use it or remove it");
  for (const Statistic& statistic : net.statistics())
    PODIUM_REQUIRE(statistic.new_value || statistic.frozen, ExitCode::kUsage, "[\"", statistic.name,
                   "\"] is a statistic without a next value; give it one with Network::update()");
}

// In training and in evaluation.
void require_carried(const Network& net) {
  for (const Carried& carried : net.carried())
    PODIUM_REQUIRE(carried.new_value, ExitCode::kUsage, "[\"",
                   carried.name.substr(kCarriedPrefix.size()),
                   "\"] is a carried value without a next one; give it one with Network::carry()");
}

// The next values of what the network carries.
void output_carried(Graph& graph, const Network& net) {
  for (const Carried& carried : net.carried())
    graph.output(kNewPrefix + carried.name, carried.new_value);
}

// Each item has a loss, and each row as many items.
void require_losses(const Graph& graph, const Score& score, std::int64_t rows) {
  const TensorType& type = graph.type(score.losses);
  PODIUM_REQUIRE(type.dtype == DType::kF32 && type.shape.rank() == 1 && type.shape[0] % rows == 0,
                 ExitCode::kUsage, "the model's score returns losses as ", to_string(type), " for ",
                 count_text(rows, "example"),
                 "; they must be f32 [items], with as many items for each example");
  if (!score.weights) return;
  const TensorType& weights = graph.type(score.weights);
  PODIUM_REQUIRE(weights == (TensorType{DType::kI32, type.shape}), ExitCode::kUsage,
                 "the model's score returns losses as ", to_string(type), " and weights as ",
                 to_string(weights), "; each item needs one i32 weight");
}

FlatLayout make_layout(const Network& net, const Optimizers& optimizers) {
  FlatLayout layout;
  std::int64_t offset = 0;
  for (const Parameter& p : net.parameters()) {
    const std::size_t optimizer = p.trained ? optimizers.index_of(p.name) : 0;
    const TensorType type{DType::kF32, p.shape};
    layout.parameters.push_back({p.name, type, offset, p.decays, optimizer, p.trained});
    offset += aligned(type.bytes());
  }
  layout.parameter_bytes = offset;
  for (const Statistic& s : net.statistics()) {
    const TensorType type{DType::kF32, s.shape};
    layout.statistics.push_back(
        {.name = s.name, .type = type, .offset = offset, .trained = bool(s.new_value)});
    offset += aligned(type.bytes());
  }
  layout.loss_offset = offset;
  layout.bytes = offset + kFlatAlign;
  return layout;
}

}  // namespace

BatchInputs batch_inputs(const Recipe& recipe, std::vector<Field> fields, std::int64_t rows) {
  return {.fields = std::move(fields),
          .rows = rows,
          .precision = precision_of(recipe),
          .label_smoothing = recipe.label_smoothing,
          .recompute = recipe.recompute == "blocks"};
}

ReplicaProgram build_replica_program(const Model& model, const BatchInputs& inputs,
                                     std::uint64_t seed, std::int64_t global_batch, bool inspect,
                                     const Optimizers& optimizers) {
  Graph graph;
  Inputs network_inputs = inputs_in(graph, inputs, false),
         score_inputs = inputs_in(graph, inputs, true);
  for (const Field& field : inputs.fields) {
    const Value value = score_inputs[field.name];
    if (!field.target) network_inputs.set(field.name, value);
  }
  const Value step = graph.input("step", {DType::kU32, Shape{}}, InputRole::kScalar);
  const Value replica = graph.input("replica", {DType::kU32, Shape{}}, InputRole::kScalar);

  Network net(graph, Mode::kTrain, seed, step, replica, inputs.rows);
  net.freeze([&](const std::string& name) { return optimizers.freezes(name); });
  const Outputs outputs = model.forward(net, network_inputs);
  graph = without_unread_pixels(graph);
  const Score score = score_of(model, net, outputs, score_inputs);
  const Value losses = score.losses;
  require_losses(graph, score, inputs.rows);

  // Each item weighs one of all items of the global batch, so the tree sum over replicas is the
  // gradient of their mean loss. Where items have weights, their sum over all replicas is known
  // only then: the step corrects the mean (kWeightCount).
  const std::int64_t items = graph.shape(losses)[0], all_items = global_batch / inputs.rows * items;
  Value weights = fill(graph, Shape{items}, 1.0f / static_cast<float>(all_items));
  if (score.weights) weights = weigh(graph, weights, score.weights, "weights");
  std::vector<Value> trained;
  std::vector<std::string> names;
  for (const Parameter& parameter : net.parameters()) {
    if (!parameter.trained) continue;
    trained.push_back(parameter.value);
    names.push_back(parameter.name);
  }
  require_complete(net, graph, losses);
  require_carried(net);
  // Before the backward pass: with them begins the exchange between ranks, beside it.
  const Value counted = score.weights ? weigh(graph, losses, score.weights, "loss") : losses;
  const Value mean_loss = batch_mean(graph, counted, "loss");
  const auto backward = static_cast<std::int32_t>(graph.nodes().size());
  const std::vector<Value> gradient_values = gradients(graph, losses, weights, trained);
  for (std::size_t i = 0; i < trained.size(); ++i)
    graph.output("gradient/" + names[i], gradient_values[i]);
  for (const Statistic& statistic : net.statistics())
    if (statistic.new_value) graph.output(kNewPrefix + statistic.name, statistic.new_value);
  graph.output("loss", mean_loss);
  ReplicaProgram program;
  program.items = items;
  if (score.correct) {
    graph.output(kCorrectCount, score.correct);
    program.counts.emplace_back(kCorrectCount);
  }
  if (score.weights) {
    graph.output(kWeightCount,
                 weighted_count(graph, score.weights, score.weights, score.weights, kWeightCount));
    program.counts.emplace_back(kWeightCount);
  }
  output_carried(graph, net);
  for (const Carried& carried : net.carried()) {
    program.carried.push_back(
        {.name = carried.name, .type = carried.type, .offset = program.carried_bytes});
    program.carried_bytes += aligned(carried.type.bytes());
  }
  if (inspect) {
    for (const NamedValue& output : outputs) {
      graph.output(output.name, output.value);
      program.outputs.push_back(output.name);
    }
    for (const Dropout& dropout : net.dropouts()) {
      graph.output("dropout/" + dropout.name, dropout.mask);
      program.dropouts.push_back(dropout.name);
    }
  }
  program.layout = make_layout(net, optimizers);
  program.parameters = net.parameters();
  for (const Statistic& statistic : net.statistics())
    program.statistic_starts.push_back(statistic.initial);
  if (inputs.recompute) graph = with_blocks_recomputed(graph, backward, net.block_ends());
  program.graph = choose_algorithms(graph, inputs.precision);
  return program;
}

bool ReplicaProgram::is_weighted() const {
  return !counts.empty() && counts.back() == kWeightCount;
}

bool is_next_carried(std::string_view output) {
  return output.starts_with(cat(kNewPrefix, kCarriedPrefix));
}

namespace {

void output_score(Graph& graph, const Score& score, std::int64_t rows) {
  require_losses(graph, score, rows);
  graph.output("losses",
               score.weights ? weigh(graph, score.losses, score.weights, "loss") : score.losses);
  if (score.weights) graph.output("weights", score.weights);
  if (score.predictions) graph.output("predictions", score.predictions);
}

}  // namespace

Graph build_evaluation_program(const Model& model, const BatchInputs& inputs, bool scored) {
  Graph graph;
  Network net(graph, Mode::kEvaluate, 0, {}, {}, inputs.rows);
  const Inputs fields = inputs_in(graph, inputs, false);
  const Outputs outputs = model.forward(net, fields);
  if (scored) {
    output_score(graph, score_of(model, net, outputs, fields.with_targets()), inputs.rows);
  } else {
    for (const NamedValue& output : outputs) graph.output(output.name, output.value);
  }
  require_carried(net);
  output_carried(graph, net);
  return choose_algorithms(without_unread_pixels(graph), inputs.precision);
}

Graph build_loss_program(const Model& model, const BatchInputs& inputs, const Graph& evaluation) {
  Graph graph;
  Network net(graph, Mode::kEvaluate, 0);
  Outputs outputs;
  for (const NamedValue& output : evaluation.outputs())
    if (!is_next_carried(output.name))
      outputs.push_back(
          {output.name, graph.input(kOutputPrefix + output.name, evaluation.type(output.value),
                                    InputRole::kBatch)});
  output_score(graph, score_of(model, net, outputs, inputs_in(graph, inputs, true)), inputs.rows);
  return graph;
}

Optimizers::Optimizers(const Recipe& recipe)
    : options{recipe.optimizer}, groups(recipe.optimizer_groups) {
  for (const OptimizerGroup& group : groups)
    if (!group.frozen) options.push_back(group.optimizer);
}

namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& p) { return matches_pattern(p, name); });
}

// For people: the names that are nearest to a pattern.
std::string nearest_names(const std::string& pattern, const FlatLayout& layout) {
  std::vector<std::pair<std::size_t, std::string>> names;
  for (const FlatEntry& entry : layout.parameters)
    names.emplace_back(edit_distance(pattern, entry.name), entry.name);
  std::ranges::stable_sort(names, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i)
    nearest.push_back(names[i].second);
  return join_words(nearest);
}

}  // namespace

const OptimizerGroup* Optimizers::group_of(std::string_view name) const {
  for (const OptimizerGroup& group : groups)
    if (matches_any(group.parameters, name)) return &group;
  return nullptr;
}

bool Optimizers::freezes(std::string_view name) const {
  const OptimizerGroup* group = group_of(name);
  return group != nullptr && group->frozen;
}

std::size_t Optimizers::index_of(std::string_view name) const {
  std::size_t index = 0;
  for (const OptimizerGroup& group : groups) {
    if (!group.frozen) ++index;
    if (matches_any(group.parameters, name)) return group.frozen ? 0 : index;
  }
  return 0;
}

void Optimizers::require_parameters(const FlatLayout& layout, const std::string& model) const {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& pattern : groups[i].parameters) {
      bool matched = false, own = false, acts = false;
      for (const FlatEntry& entry : layout.parameters) {
        if (!matches_pattern(pattern, entry.name)) continue;
        const bool is_own = group_of(entry.name) == &groups[i];
        matched = true, own = own || is_own;
        acts = acts || (is_own && (entry.trained || groups[i].frozen));
        PODIUM_REQUIRE(!is_own || groups[i].frozen || !needs_matrices(groups[i].optimizer) ||
                           entry.shape().rank() >= 2,
                       ExitCode::kUsage, "group ", i + 1,
                       " of parameters: ", groups[i].optimizer.name,
                       " is for matrices and the weights of convolutions, "
                       "and \"",
                       pattern, "\" matches ", entry.name, " ", to_string(entry.shape()),
                       "; give that to an earlier group");
      }
      const std::string what = cat("group ", i + 1, " of parameters: \"", pattern, "\" matches ");
      PODIUM_REQUIRE(matched, ExitCode::kUsage, what, "no parameter of model \"", model,
                     "\"; the nearest are ", nearest_names(pattern, layout),
                     " (`podium show` lists them all)");
      PODIUM_REQUIRE(own, ExitCode::kUsage, what,
                     "only what earlier groups have: a parameter belongs to the first group with a "
                     "pattern that matches its name");
      PODIUM_REQUIRE(acts, ExitCode::kUsage, what, "only parameters that model \"", model,
                     "\" does not train; leave it out");
    }
  }
  PODIUM_REQUIRE(std::ranges::any_of(layout.parameters, &FlatEntry::trained), ExitCode::kUsage,
                 "every parameter of model \"", model, "\" is frozen: there is nothing to train");
}

float Optimizers::weight_decay(const FlatEntry& entry) const {
  const OptimizerOptions& own = of(entry);
  return entry.decays || own.decay_all ? own.weight_decay : 0.0f;
}

std::vector<std::string> Optimizers::scalars() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (const std::string& name : optimizer_scalars(options[i]))
      names.push_back(i == 0 ? name : cat(name, "/", i));
  }
  return names;
}

std::vector<float> Optimizers::scalar_values(const ScheduleOptions& schedule,
                                             const StepInRun& at) const {
  std::vector<float> values;
  for (const OptimizerOptions& own : options) {
    const double rate = learning_rate_at(own, schedule, at);
    for (const float value : optimizer_scalar_values(own, rate, at.step)) values.push_back(value);
  }
  return values;
}

std::size_t Optimizers::states() const {
  std::size_t most = 0;
  for (const OptimizerOptions& own : options) most = std::max(most, optimizer_states(own).size());
  return most;
}

UpdateProgram build_update_program(const FlatLayout& layout, const Optimizers& optimizers,
                                   std::int64_t replicas, std::int64_t begin, std::int64_t end) {
  UpdateProgram program;
  std::vector<Shape> shapes;  // of the pieces
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const FlatEntry& entry = layout.parameters[i];
    const std::int64_t next =
        i + 1 < layout.parameters.size() ? layout.parameters[i + 1].offset : layout.parameter_bytes;
    const std::int64_t from = std::max(entry.offset, begin), to = std::min(next, end);
    if (from >= to || !entry.trained) continue;
    const std::size_t index = entry.optimizer;
    const OptimizerOptions& options = optimizers.options[index];
    const float once = optimizers.weight_decay(entry);
    const float decay =
        options.decay == Decay::kPerReplica ? once * static_cast<float>(replicas) : once;
    if (needs_whole_parameters(options)) {
      PODIUM_CHECK(from == entry.offset && to == next, entry.name, " is cut");
      const std::int64_t rows = needs_matrices(options) ? entry.shape()[0] : 1;
      program.pieces.push_back({from, from + entry.bytes(), needs_matrices(options) ? 0.0f : decay,
                                index, entry.decays || options.decay_all});
      shapes.push_back(needs_matrices(options) ? Shape{rows, entry.elements() / rows}
                                               : Shape{entry.elements()});
      continue;
    }
    // Neighbours under one decay are one piece; the gaps between tensors are zeros and stay so.
    if (!program.pieces.empty() && program.pieces.back().weight_decay == decay &&
        program.pieces.back().optimizer == index && program.pieces.back().end == from) {
      program.pieces.back().end = to;
      shapes.back() = Shape{floats_in(to - program.pieces.back().begin)};
    } else {
      program.pieces.push_back({from, to, decay, index});
      shapes.push_back(Shape{floats_in(to - from)});
    }
  }
  Graph& graph = program.graph;
  const std::vector<std::string> names = optimizers.scalars();
  std::vector<std::vector<Value>> scalars;  // by optimizer
  std::size_t next_name = 0;
  for (const OptimizerOptions& options : optimizers.options) {
    std::vector<Value>& own = scalars.emplace_back();
    for (std::size_t i = 0; i < optimizer_scalars(options).size(); ++i)
      own.push_back(graph.input(names[next_name++], {DType::kF32, Shape{}}, InputRole::kScalar));
  }
  std::vector<std::vector<Value>> results;
  for (std::size_t i = 0; i < program.pieces.size(); ++i) {
    const UpdatePiece& piece = program.pieces[i];
    OptimizerOptions options = optimizers.options[piece.optimizer];
    if (!piece.decays) options.trust = 0;
    const TensorType type{DType::kF32, shapes[i]};
    const Value parameter = graph.input(cat("parameter/", i), type, InputRole::kParameter);
    const Value gradient = graph.input(cat("gradient/", i), type, InputRole::kParameter);
    std::vector<Value> states;
    for (const std::string& name : optimizer_states(options))
      states.push_back(graph.input(cat(name, "/", i), type, InputRole::kState));
    results.push_back(append_update(graph, options, piece.weight_decay, parameter, gradient, states,
                                    scalars[piece.optimizer], cat("piece ", i)));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t k = 0; k < results[i].size(); ++k)
      graph.output(cat("new/", i, "/", k), results[i][k]);
  }
  return program;
}

}  // namespace podium
