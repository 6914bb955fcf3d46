// Rows of a small table whose weights differ, for the law of tasks that are no pictures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/numerics/philox.h"
#include "law_util.h"
#include "train/loop/trainer.h"

namespace podium {

// How the rows of a table are weighed; 1 of all rows is a table with weights, too.
using WeightOf = std::function<std::int32_t(std::int64_t row)>;

class Rows : public Source {
 public:
  static constexpr std::int64_t kFeatures = 5;
  // `classes` 0: the target is a number. No `weight_of`: the table has no weights.
  Rows(std::int64_t rows, std::uint32_t draw, std::int64_t classes, WeightOf weight_of)
      : rows_(rows), classes_(classes), weight_of_(std::move(weight_of)) {
    const PhiloxStream words(3, RandomPurpose::kInitialise, draw);
    for (std::int64_t i = 0; i < rows * kFeatures; ++i)
      features_.push_back(2 * uniform01(words.word(static_cast<std::uint32_t>(i))) - 1);
  }
  std::vector<Field> fields() const override {
    std::vector<Field> all = {{.name = "features", .shape = Shape{kFeatures}, .unit = "row"},
                              {.name = "answer", .target = true}};
    if (classes_ != 0) all[1].dtype = DType::kI32, all[1].below = classes_;
    if (weight_of_) all.push_back({.name = kWeightsField, .dtype = DType::kI32});
    return all;
  }
  std::int64_t examples() const override { return rows_; }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t index, const ExampleKey*, FieldMemory to) const override {
    const float* const own = features_.data() + index * kFeatures;
    std::copy_n(own, kFeatures, to.at<float>(0));
    const float answer = own[0] * own[1] + 0.5f * own[2];
    if (classes_ == 0)
      *to.at<float>(1) = answer;
    else
      *to.at<std::int32_t>(1) = answer > 0.2f ? 2 : answer > -0.2f ? 1 : 0;
    if (weight_of_) *to.at<std::int32_t>(2) = weight_of_(index);
  }
  void require_usable(const std::string&) const override {}
  std::string identity(StopToken) const override { return "drawn rows"; }
  std::int64_t memory_bytes() const override {
    return static_cast<std::int64_t>(sizeof(float)) * std::ssize(features_);
  }

 private:
  std::int64_t rows_, classes_;
  WeightOf weight_of_;
  std::vector<float> features_;
  std::string origin_ = "drawn";
};

inline Outputs rows_model(Network& net, const Inputs& in) {
  const Value x = net.relu(net.dense("hidden", in["features"], {.units = 12, .bias = true}));
  const Field& target = in.target();
  const std::int64_t units = target.below == 0 ? 1 : target.below;
  return {{target.below == 0 ? "prediction" : "logits",
           net.dense("out", x, {.units = units, .bias = true})}};
}

inline Recipe rows_recipe() {
  Recipe recipe;
  recipe.name = recipe.model = recipe.data = "rows";
  recipe.batch = 32;
  recipe.replicas = 8;
  recipe.epochs = 2;
  recipe.seed = 5;
  recipe.optimizer.name = "adam";
  recipe.optimizer.learning_rate = 0.01;
  return recipe;
}

inline std::unique_ptr<Trainer> rows_trainer(const Recipe& recipe, std::int64_t classes,
                                             const WeightOf& weight_of,
                                             Placement placement = {.workers = 2},
                                             const std::string& backend = law_backend()) {
  placement.backend = backend;
  return std::make_unique<Trainer>(
      recipe, rows_model, std::make_shared<const Rows>(320, 1, classes, weight_of),
      std::make_shared<const Rows>(70, 2, classes, weight_of), placement);
}

// Replicas have other sums of weights each, and some rows count for nothing.
inline std::int32_t uneven(std::int64_t row) {
  return static_cast<std::int32_t>(row % 7 == 0 ? 0 : row % 5);
}

}  // namespace podium
