#include "nn/model.h"

#include <algorithm>

#include "base/error.h"
#include "ops/ops.h"

namespace podium {

const Field& Inputs::field(std::string_view name) const {
  const Field* found = find_field(fields_, name);
  PODIUM_REQUIRE(found != nullptr, ExitCode::kUsage, "the model reads \"", std::string(name),
                 "\", and the data have ", to_text(fields_),
                 "; use a model for such data, or data with that field");
  return *found;
}

const Field& Inputs::target() const {
  const Field* found = target_of(fields_);
  PODIUM_REQUIRE(found != nullptr, ExitCode::kUsage,
                 "the data have no single target, by which a loss could be chosen, but ",
                 to_text(fields_), "; give the model a score of its own");
  return *found;
}

bool Inputs::has(std::string_view name) const {
  const Field* found = find_field(fields_, name);
  return found != nullptr && (with_targets_ || !found->target);
}

Value Inputs::operator[](std::string_view name) const {
  const Field& own = field(name);
  PODIUM_REQUIRE(with_targets_ || !own.target, ExitCode::kUsage, "the network reads \"", own.name,
                 "\", which is what it is to predict; read it in the model's score");
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  const Value value = graph_.input(own.name, own.batch(rows_), InputRole::kBatch);
  values_.emplace(own.name, value);
  return value;
}

Value output_of(const Outputs& outputs, std::string_view name) {
  const auto found = std::ranges::find(outputs, name, &NamedValue::name);
  if (found != outputs.end()) return found->value;
  std::string names;
  for (const NamedValue& output : outputs)
    names += cat(names.empty() ? "\"" : ", \"", output.name, "\"");
  throw UserError(cat("the model's score needs its output \"", std::string(name), "\", and it has ",
                      names.empty() ? "none" : names),
                  ExitCode::kUsage);
}

Model Model::of_images(Classifier network) {
  if (!network) return {};
  return [network = std::move(network)](Network& net, const Inputs& inputs) -> Outputs {
    return {{"logits", network(net, inputs["images"], inputs.target().below)}};
  };
}

Score classify(Network& net, Value logits, Value labels, float label_smoothing, Value weights) {
  Graph& graph = net.graph();
  Score score{softmax_cross_entropy(graph, logits, labels, label_smoothing, "loss")};
  score.weights = weights;
  if (net.mode() == Mode::kTrain) {
    score.correct =
        weights ? weighted_count(graph, weights, argmax(graph, logits, "guess"), labels, "correct")
                : correct(graph, logits, labels, "correct");
  } else {
    score.predictions = argmax(graph, logits, "guess");
  }
  return score;
}

Score squared_error(Network& net, Value prediction, Value target, Value weights) {
  Graph& graph = net.graph();
  const Shape rows = graph.shape(target);
  if (graph.shape(prediction) != rows) prediction = reshape(graph, prediction, rows, "prediction");
  const Value error = sub(graph, prediction, target, "error");
  Score score{mul(graph, error, error, "loss")};
  score.weights = weights;
  if (net.mode() != Mode::kTrain) score.predictions = prediction;
  return score;
}

Score score_of(const Model& model, Network& net, const Outputs& outputs, const Inputs& inputs) {
  if (model.score) return model.score(net, outputs, inputs);
  const Field& target = inputs.target();
  Value weights;
  if (inputs.has(kWeightsField)) {
    const Field& field = inputs.field(kWeightsField);
    PODIUM_REQUIRE(field.dtype == DType::kI32 && field.shape == Shape{}, ExitCode::kUsage,
                   "the data have \"", kWeightsField, "\" as ",
                   to_string(TensorType{field.dtype, field.shape}),
                   " of an example; it must be one i32, or the model must have a score of its own");
    weights = inputs[kWeightsField];
  }
  if (target.dtype == DType::kI32) {
    const Value logits = output_of(outputs, "logits");
    const Shape expected{inputs.rows(), target.below};
    PODIUM_REQUIRE(net.graph().shape(logits) == expected, ExitCode::kUsage, "the model returns ",
                   to_string(net.graph().shape(logits)), " instead of logits ", to_string(expected),
                   "; end it with a dense layer that has one unit per class");
    return classify(net, logits, inputs[target.name], inputs.label_smoothing, weights);
  }
  const Value prediction = output_of(outputs, "prediction");
  const std::int64_t values = net.graph().shape(prediction).elements();
  PODIUM_REQUIRE(values == target.batch(inputs.rows()).shape.elements(), ExitCode::kUsage,
                 "the model predicts ", to_string(net.graph().shape(prediction)), " for \"",
                 target.name, "\" ", to_string(target.batch(inputs.rows()).shape),
                 "; end it with a dense layer that has as many units as the target has values");
  return squared_error(net, prediction, inputs[target.name], weights);
}

std::vector<Metric> metrics_of(const Model& model, std::span<const Field> fields) {
  if (!model.metrics.empty()) return model.metrics;
  const Field* target = target_of(fields);
  if (target == nullptr) return {};
  if (target->dtype == DType::kI32) return {accuracy_metric()};
  return {r2_metric(), mean_absolute_error_metric(), mean_squared_error_metric()};
}

}  // namespace podium
