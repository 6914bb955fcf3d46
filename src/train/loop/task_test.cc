// Tasks that do not fit together: what a model reads, what the data have, and what is made of both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch_test_util.h"
#include "ops/ops.h"
#include "train/loop/trainer.h"

namespace podium {
namespace {

// Rows of zeros with any fields.
class Rows final : public Source {
 public:
  explicit Rows(std::vector<Field> fields) : fields_(std::move(fields)) {}
  std::vector<Field> fields() const override { return fields_; }
  std::int64_t examples() const override { return 32; }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t, const ExampleKey*, FieldMemory to) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      std::fill_n(to.at<std::byte>(i), fields_[i].bytes(), std::byte{0});
  }
  void require_usable(const std::string&) const override {}
  std::string identity(StopToken) const override { return "32 rows of zeros"; }
  std::int64_t memory_bytes() const override { return 0; }

 private:
  std::vector<Field> fields_;
  std::string origin_ = "rows of zeros";
};

const Field kFeatures{.name = "features", .shape = Shape{3}, .unit = "row"};
const Field kPrice{.name = "price", .target = true};

Outputs linear(Network& net, const Inputs& in) {
  return {{"prediction", net.dense("out", in["features"], {.units = 1, .bias = true})}};
}

std::string error_of(ExitCode code, const Model& model, std::vector<Field> fields) {
  Recipe recipe;
  recipe.name = recipe.model = recipe.data = "own";
  recipe.batch = 16;
  recipe.replicas = 2;
  recipe.epochs = 1;
  recipe.optimizer.name = "sgd";
  const auto rows = std::make_shared<const Rows>(std::move(fields));
  const std::string error =
      user_error(code, [&] { Trainer(recipe, model, rows, rows, {.workers = 1}); });
  const std::string where = "recipe own (batch = 16, replicas = 2, so a replica has 8 rows): ";
  return error.starts_with(where) ? error.substr(where.size()) : error;
}

TEST(Task, a_field_that_the_data_lack_is_named_beside_those_that_they_have) {
  const Model model = [](Network& net, const Inputs& in) -> Outputs {
    return {{"prediction", net.dense("out", in["rooms"], {.units = 1})}};
  };
  EXPECT_EQ(
      error_of(ExitCode::kUsage, model, {kFeatures, kPrice}),
      "the model reads \"rooms\", and the data have \"features\" f32[3], \"price\" f32[]; use "
      "a model for such data, or data with that field");
}

TEST(Task, a_network_cannot_read_its_target) {
  const Model model = [](Network& net, const Inputs& in) -> Outputs {
    const Value price = reshape(net.graph(), in["price"], {in.rows(), 1});
    return {{"prediction", net.dense("out", price, {.units = 1})}};
  };
  EXPECT_EQ(error_of(ExitCode::kUsage, model, {kFeatures, kPrice}),
            "the network reads \"price\", which is what it is to predict; read it in the model's "
            "score");
}

TEST(Task, fields_of_one_name_are_refused) {
  EXPECT_NE(error_of(ExitCode::kData, linear, {kFeatures, kFeatures, kPrice})
                .find("rows of zeros: two fields are named \"features\""),
            std::string::npos);
}

TEST(Task, without_one_target_a_model_needs_a_score_of_its_own) {
  Field second = kPrice;
  second.name = "rent";
  for (const std::vector<Field>& fields :
       {std::vector<Field>{kFeatures}, std::vector<Field>{kFeatures, kPrice, second}})
    EXPECT_NE(error_of(ExitCode::kUsage, linear, fields)
                  .find("the data have no single target, by which a loss could be chosen"),
              std::string::npos);
}

TEST(Task, each_item_has_one_loss_and_one_weight) {
  const auto scored = [](Shape losses, Shape weights) {
    return Model(linear, [=](Network& net, const Outputs& out, const Inputs& in) -> Score {
      Graph& graph = net.graph();
      const Value prediction = output_of(out, "prediction");
      // Of 24 values, three for each row.
      const Value all = mul(graph, in["features"], net.dense("spread", prediction, {.units = 3}));
      Score score{.losses = reshape(graph, all, losses)};
      if (weights.rank() > 0) score.weights = reshape(graph, in["counts"], weights);
      return score;
    });
  };
  const Field counts{.name = "counts", .dtype = DType::kI32, .shape = Shape{3}, .below = 9};
  const std::vector<Field> fields = {kFeatures, counts, kPrice};
  EXPECT_EQ(error_of(ExitCode::kUsage, scored({8, 3}, {}), fields),
            "the model's score returns losses as f32[8, 3] for 8 examples; they must be f32 "
            "[items], with as many items for each example");
  EXPECT_EQ(error_of(ExitCode::kUsage, scored({24}, {8, 3}), fields),
            "the model's score returns losses as f32[24] and weights as i32[8, 3]; each item needs "
            "one i32 weight");
}

}  // namespace
}  // namespace podium
