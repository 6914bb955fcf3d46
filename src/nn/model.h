// A model: two functions on a Network. `forward` turns the fields of a batch into outputs, and
// never sees a target, so that prediction needs none. `score` turns outputs and targets into
// losses.
//
//   Model model = [](Network& net, const Inputs& in) -> Outputs {
//     const Value x = net.relu(net.dense("hidden", in["features"], {.units = 64, .bias = true}));
//     return {{"prediction", net.dense("out", x, {.units = 1, .bias = true})}};
//   };
//
// A function of images that returns logits is a model, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nn/metric.h"
#include "nn/network.h"
#include "tensor/field.h"

namespace podium {

// The fields of a batch, as inputs of the graph that is being built.
class Inputs {
 public:
  // `names` are those that may be read now: a network may not read targets.
  Inputs(Graph& graph, std::vector<Field> fields, std::int64_t rows, bool with_targets)
      : graph_(graph), fields_(std::move(fields)), rows_(rows), with_targets_(with_targets) {}

  // The values of a field, [rows, ...]. Throws UserError(kUsage), which names this field and those
  // that the data have, if there is none of this name or it may not be read here.
  Value operator[](std::string_view name) const;
  bool has(std::string_view name) const;
  // Throws UserError(kUsage) likewise.
  const Field& field(std::string_view name) const;
  // The one target. Throws UserError(kUsage), which names the fields, if there is not one.
  const Field& target() const;
  const std::vector<Field>& fields() const { return fields_; }
  std::int64_t rows() const { return rows_; }  // examples: a replica's, in training

  // The same fields as values of the same graph, for a score, which may read targets as well.
  Inputs with_targets() const {
    Inputs all = *this;
    all.with_targets_ = true;
    return all;
  }
  // Uses `value` for a field, in place of an input of the graph.
  void set(const std::string& name, Value value) { values_[name] = value; }
  // Of the recipe, for scores of classes.
  float label_smoothing = 0;

 private:
  Graph& graph_;
  std::vector<Field> fields_;
  std::int64_t rows_;
  bool with_targets_;
  mutable std::map<std::string, Value, std::less<>> values_;
};

// What a network makes of a batch, by name: "logits", "prediction".
using Outputs = std::vector<NamedValue>;
// Throws UserError(kUsage), which names those that there are, if there is none of this name.
Value output_of(const Outputs& outputs, std::string_view name);

// Of items: an item is a picture, a token, a row of a table. A batch has as many items as rows, or
// as many of each row.
struct Score {
  Value losses;        // f32 [items]
  Value correct = {};  // i32 scalar: how many items were predicted right; none: nothing is counted
  // i32 [items], not negative: how much each counts; one of weight 0, such as padding, does not.
  // None: all count 1. `correct` then adds weights (weighted_count() of ops/ops.h).
  Value weights = {};
  // For evaluation, of a row each: i32 [rows] (a class, -1: none) or f32 [rows]; none: nothing to
  // show or to compare with the target.
  Value predictions = {};
};

// A classifier of images: images [N, C, H, W], number of classes -> logits [N, classes].
using Classifier = std::function<Value(Network& net, Value images, std::int64_t classes)>;

// A network, what is made of its outputs, and the numbers that people look at.
struct Model {
  // Fields of a batch -> outputs.
  using Forward = std::function<Outputs(Network&, const Inputs&)>;
  // Outputs and fields, targets included -> losses.
  using MakeScore = std::function<Score(Network&, const Outputs&, const Inputs&)>;

  Forward forward;
  // None: by the target. Classes: classify() of "logits"; numbers: squared_error() of "prediction".
  MakeScore score;
  // None: by the target. Classes: accuracy; numbers: R^2, the mean absolute and the
  // mean squared error.
  std::vector<Metric> metrics;

  Model() = default;
  Model(std::nullptr_t) {}  // none, as of any function
  // A function is a model.
  template <typename F>
  requires std::is_invocable_r_v<Outputs, F&, Network&, const Inputs&> Model(
      F network, MakeScore its_score = {}, std::vector<Metric> its_metrics = {})
      : forward(std::move(network)), score(std::move(its_score)), metrics(std::move(its_metrics)) {}
  // A classifier of images, too.
  template <typename F>
  requires std::is_invocable_r_v<Value, F&, Network&, Value, std::int64_t> Model(F network)
      : Model(of_images(Classifier(std::move(network)))) {}

  explicit operator bool() const { return bool(forward); }

 private:
  static Model of_images(Classifier network);
};

// The score and the metrics that a model states, or those that follow from the target.
Score score_of(const Model& model, Network& net, const Outputs& outputs, const Inputs& inputs);
std::vector<Metric> metrics_of(const Model& model, std::span<const Field> fields);

// Cross-entropy of logits [rows, classes] and a target of classes; `weights` i32 [rows], or none.
Score classify(Network& net, Value logits, Value labels, float label_smoothing, Value weights = {});
// (prediction - target)^2 of a prediction [rows] or [rows, 1] and a target of numbers.
Score squared_error(Network& net, Value prediction, Value target, Value weights = {});

}  // namespace podium
