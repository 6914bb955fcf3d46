// A small recurrent network, for the law of carried state: a leaky sum of a signal, and the mark
// of the example before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/numerics/philox.h"
#include "law_util.h"
#include "ops/ops.h"
#include "train/loop/trainer.h"

namespace podium {

// A signal that goes on from example to example, a mark of each, and an answer that depends on
// those before.
class Signal : public Source {
 public:
  static constexpr std::int64_t kWidth = 3, kMarks = 4;
  Signal(std::int64_t examples, std::uint32_t draw, VisitOrder order = VisitOrder::kStreams)
      : examples_(examples), order_(order), words_(3, RandomPurpose::kInitialise, draw) {}

  float signal(std::int64_t example, std::int64_t i) const {
    return 2 * uniform01(words_.word(static_cast<std::uint32_t>(example * kWidth + i))) - 1;
  }
  static std::int32_t mark(std::int64_t example) {
    return static_cast<std::int32_t>(example * example % kMarks);
  }
  float answer(std::int64_t example) const {
    return signal(example, 0) + (example == 0 ? 0.0f : 0.5f * signal(example - 1, 1));
  }

  std::vector<Field> fields() const override {
    return {{.name = "signal", .shape = Shape{kWidth}, .unit = "sample"},
            {.name = "mark", .dtype = DType::kI32, .below = kMarks},
            {.name = "answer", .target = true}};
  }
  std::int64_t examples() const override { return examples_; }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t index, const ExampleKey*, FieldMemory to) const override {
    for (std::int64_t i = 0; i < kWidth; ++i) to.at<float>(0)[i] = signal(index, i);
    *to.at<std::int32_t>(1) = mark(index);
    *to.at<float>(2) = answer(index);
  }
  void require_usable(const std::string&) const override {}
  std::string identity(StopToken) const override { return "a drawn signal"; }
  std::int64_t memory_bytes() const override { return 0; }
  VisitOrder order() const override { return order_; }

 private:
  std::int64_t examples_;
  VisitOrder order_;
  PhiloxStream words_;
  std::string origin_ = "drawn";
};

// sum := sum / 2 + signal; last := mark. The prediction is of the new sum and the old mark.
inline Outputs leaky_model(Network& net, const Inputs& in) {
  Graph& graph = net.graph();
  const Value before = net.carried("sum", {Signal::kWidth});
  const Value sum = add(graph, net.scale(before, 0.5f), in["signal"], "sum");
  net.carry(before, sum);
  const Value last = net.carried("last", {}, DType::kI32);
  net.carry(last, in["mark"]);
  const Value table =
      net.parameter({.name = "marks.weight", .shape = {Signal::kMarks, 1}, .decays = true});
  const Value of_sum = net.dense("out", sum, {.units = 1, .bias = true});
  return {{"prediction", add(graph, of_sum, embedding(graph, last, table, "marks"), "prediction")}};
}

// 10 steps an epoch.
inline Recipe leaky_recipe() {
  Recipe recipe;
  recipe.name = recipe.model = recipe.data = "leaky";
  recipe.batch = 32;
  recipe.replicas = 8;
  recipe.epochs = 3;
  recipe.seed = 5;
  recipe.optimizer.name = "adam";
  recipe.optimizer.learning_rate = 0.01;
  return recipe;
}

constexpr std::int64_t kSignal = 325, kHeldOut = 70;

inline std::unique_ptr<Trainer> leaky_trainer(const Recipe& recipe = leaky_recipe(),
                                              Placement placement = {.workers = 2},
                                              const std::string& backend = law_backend(),
                                              const Model& model = leaky_model) {
  placement.backend = backend;
  return std::make_unique<Trainer>(recipe, model, std::make_shared<const Signal>(kSignal, 1),
                                   std::make_shared<const Signal>(kHeldOut, 2), placement);
}

}  // namespace podium
