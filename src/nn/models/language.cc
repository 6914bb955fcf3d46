#include "nn/models/language.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "ops/ops.h"

namespace podium::language {
namespace {

// Each token's loss; the target has a token for each.
Score next_token(Network& net, const Outputs& outputs, const Inputs& inputs) {
  Graph& graph = net.graph();
  const Field& target = inputs.target();
  const Value next = inputs[target.name];
  const Shape items{graph.shape(next).elements()};
  Score score{softmax_cross_entropy(graph, output_of(outputs, "logits"),
                                    reshape(graph, next, items, target.name),
                                    inputs.label_smoothing, "loss")};
  if (inputs.has(kWeightsField))
    score.weights = reshape(graph, inputs[kWeightsField], items, kWeightsField);
  return score;
}

}  // namespace

float last_deviation(std::int64_t layers) {
  return kDeviation / std::sqrt(2.0f * static_cast<float>(layers));
}

Value matrix(Network& net, const std::string& name, const Shape& shape, float deviation) {
  return net.parameter({.name = name + ".weight",
                        .shape = shape,
                        .initialiser = Initialiser::kNormal,
                        .decays = true,
                        .deviation = deviation});
}

Value dense(Network& net, const std::string& name, Value x, std::int64_t units, float deviation,
            bool bias) {
  Graph& graph = net.graph();
  const Value weight = matrix(net, name, {units, graph.shape(x)[1]}, deviation);
  const Value y = matmul(graph, x, weight, {.transpose_b = true}, name);
  if (!bias) return y;
  return bias_add(graph, y, net.parameter({.name = name + ".bias", .shape = {units}}), name);
}

Value norm(Network& net, const std::string& name, Value x, bool bias) {
  const Shape features{net.graph().shape(x)[1]};
  const Value scale = net.parameter(
      {.name = name + ".weight", .shape = features, .initialiser = Initialiser::kOnes});
  const Value shift = bias ? net.parameter({.name = name + ".bias", .shape = features})
                           : fill(net.graph(), features, 0.0f, name);
  return layer_norm(net.graph(), x, scale, shift, 1e-5f, name);
}

Model predicting(Model::Forward forward) {
  const Metric bits{
      .name = "bits_per_token", .unit = "", .more_is_better = false, .of = [](const Sums& sums) {
        return sums.loss / std::numbers::ln2;
      }};
  return Model(std::move(forward), next_token, {perplexity_metric(), bits});
}

void require_size(const std::string& model, const NetworkOptions& options) {
  PODIUM_REQUIRE(options.layers >= 1 && options.heads >= 1 && options.width >= 1, ExitCode::kUsage,
                 "a ", model, " of ", options.layers, " layers, ", options.heads,
                 " heads and width ", options.width, ": each must be at least 1");
  PODIUM_REQUIRE(options.width % options.heads == 0, ExitCode::kUsage,
                 "network.heads = ", options.heads,
                 " does not divide network.width = ", options.width,
                 "; every head has the same number of features");
}

Model model(const std::string& name, const Logits& logits) {
  const auto forward = [name, logits](Network& net, const Inputs& in) -> Outputs {
    const Field& tokens = in.field("tokens");
    PODIUM_REQUIRE(tokens.dtype == DType::kI32 && tokens.shape.rank() == 1 && tokens.below > 0,
                   ExitCode::kUsage, "a ", name,
                   " reads tokens i32 [context] below a vocabulary, got ", to_text(in.fields()));
    return {{"logits", logits(net, in["tokens"], tokens.below)}};
  };
  return predicting(forward);
}

}  // namespace podium::language
