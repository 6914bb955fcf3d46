#include "train/predict/predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/scratch_test_util.h"
#include "data/pictures/picture_loader_test_util.h"
#include "nn/models.h"
#include "train/run/run.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

// A recipe of a network that is small, on drawn digits.
Recipe digits(const std::string& more = "") {
  return parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 256\ntest_examples = 300\n"
      "batch = 64\nreplicas = 2\nepochs = 2\n" +
          more,
      "digits");
}

struct Trained {
  explicit Trained(const Recipe& its_recipe)
      : recipe(its_recipe),
        data(load_data(recipe, "")),
        trainer(recipe, find_model(recipe.model).build, data.train, data.held_out, {.workers = 1}) {
    for (int i = 0; i < 3; ++i) trainer.step();
  }
  Recipe recipe;
  const ImageSet& held_out() const { return dynamic_cast<const ImageSet&>(*data.held_out); }
  RunData data;
  Trainer trainer;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.f32().data(), b.f32().data(), a.f32().size_bytes()) == 0;
}

std::int64_t taken_for_their_class(const Tensor& logits, const ImageSet& set) {
  std::int64_t correct = 0;
  const auto classes = static_cast<std::size_t>(set.classes);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    correct += ranking(logits.f32().subspan(i * classes, classes))[0] == set.labels[i] ? 1 : 0;
  return correct;
}

TEST(Predictor, answers_what_evaluation_counts_with_every_number_of_views_and_normalisation) {
  for (const char* more : {"[normalise]\nname = \"per-image\"\n",
                           "[normalise]\nname = \"per-channel\"\nmean = [0.1]\ndeviation = [0.3]\n"
                           "[evaluation]\nviews = 2\n",
                           "[evaluation]\nviews = 6\nbatch = 7\n"}) {
    Trained trained(digits(more));
    const EvaluationResult result = trained.trainer.evaluate();
    Predictor predictor(trained.recipe, trained.trainer.checkpoint());
    const Tensor logits = predictor.logits(trained.held_out());
    EXPECT_EQ(taken_for_their_class(logits, trained.held_out()), result.sums.count(kCorrectCount))
        << more;
    EXPECT_EQ(predictor.step(), 3);
    EXPECT_EQ(predictor.image_shape(), (Shape{1, 28, 28}));
    EXPECT_EQ(predictor.classes(), 10);
  }
}

TEST(Predictor, an_image_gives_the_same_bits_alone_in_a_batch_and_under_any_placement) {
  Trained trained(digits());
  const Checkpoint checkpoint = trained.trainer.checkpoint();
  Predictor one(trained.recipe, checkpoint, {}, {.workers = 1});
  const Tensor expected = one.logits(trained.held_out());
  for (const Placement& placement : {Placement{.workers = 3}, Placement{.workers = 2, .threads = 2},
                                     Placement{.workers = 1, .backend = "reference"}}) {
    Predictor other(trained.recipe, checkpoint, {}, placement);
    EXPECT_TRUE(same_bits(other.logits(trained.held_out()), expected))
        << placement.workers << " " << placement.backend;
  }
  for (const std::int64_t n : {1, 2, 5, 19}) {
    const Tensor few = one.logits(part_of(trained.held_out(), 40, n));
    EXPECT_EQ(std::memcmp(few.f32().data(), expected.f32().data() + 400, few.f32().size_bytes()), 0)
        << n;
  }
  EXPECT_EQ(one.logits(part_of(trained.held_out(), 0, 0)).shape(), (Shape{0, 10}));
}

TEST(Predictor, takes_normalised_floats_as_it_takes_bytes) {
  Trained trained(digits("[normalise]\nname = \"per-image\"\n"));
  const PictureLoader loader(std::dynamic_pointer_cast<const ImageSource>(trained.data.held_out),
                             {.normalise = trained.recipe.normalise});
  Tensor images(DType::kF32, Shape{20, 1, 28, 28});
  std::vector<std::int32_t> labels(20);
  loader.in_order(0, 20, images.f32().data(), labels.data());
  Predictor predictor(trained.recipe, trained.trainer.checkpoint());
  EXPECT_TRUE(
      same_bits(predictor.logits(images), predictor.logits(part_of(trained.held_out(), 0, 20))));
}

TEST(Predictor, needs_no_labels_and_refuses_images_of_another_shape) {
  Trained trained(digits());
  Predictor predictor(trained.recipe, trained.trainer.checkpoint());
  ImageSet set = part_of(trained.held_out(), 0, 4);
  set.labels.clear();
  EXPECT_EQ(predictor.logits(set).shape(), (Shape{4, 10}));
  set.height = 14, set.width = 56;
  EXPECT_NE(user_error(ExitCode::kData, [&] { predictor.logits(set); }).find("takes [1, 28, 28]"),
            std::string::npos);
  set.count = 5, set.height = set.width = 28;
  EXPECT_NE(user_error(ExitCode::kData, [&] { predictor.logits(set); }).find("are not 3136 bytes"),
            std::string::npos);
  const Tensor wrong(DType::kF32, Shape{2, 3, 28, 28});
  EXPECT_NE(user_error(ExitCode::kData, [&] { predictor.logits(wrong); }).find("takes [1, 28, 28]"),
            std::string::npos);
  const Tensor flat(DType::kF32, Shape{2, 784});
  EXPECT_NE(user_error(ExitCode::kData, [&] { predictor.logits(flat); })
                .find("[images, channels, height, width]"),
            std::string::npos);
}

TEST(Predictor, refuses_a_network_that_holds_nan_or_infinity_and_names_the_tensor) {
  Trained trained(digits());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (std::size_t index = 0; index < 2; ++index) {
      Checkpoint checkpoint = trained.trainer.checkpoint();
      NamedTensor& tensor = index == 0 ? checkpoint.tensors.front() : checkpoint.tensors[3];
      tensor.tensor.f32().back() = bad;
      const std::string text =
          user_error(ExitCode::kData, [&] { Predictor(trained.recipe, checkpoint); });
      EXPECT_NE(text.find("\"" + tensor.name + "\" contains a value that is not finite"),
                std::string::npos)
          << text;
    }
  }
}

TEST(Predictor, refuses_a_checkpoint_that_does_not_fit_the_model_and_names_the_tensor) {
  Trained trained(digits());
  const auto with_other_units = [](Network& net, Value x, std::int64_t classes) {
    return net.dense("fc9", net.flatten(x), {.units = classes});
  };
  EXPECT_NE(
      user_error(ExitCode::kData,
                 [&] { Predictor(trained.recipe, trained.trainer.checkpoint(), with_other_units); })
          .find("needs \"fc9.weight\" as [10, 784]"),
      std::string::npos);
  Checkpoint more = trained.trainer.checkpoint();
  more.tensors.push_back({"head.weight", Tensor(DType::kF32, Shape{2})});
  EXPECT_NE(user_error(ExitCode::kData, [&] { Predictor(trained.recipe, more); })
                .find("has no \"head.weight\""),
            std::string::npos);
  Checkpoint bent = trained.trainer.checkpoint();
  const auto expect_refused = [&] {
    const std::string text = user_error(ExitCode::kData, [&] { Predictor(trained.recipe, bent); });
    EXPECT_NE(text.find("not a list of fields"), std::string::npos) << text;
  };
  for (const char* bad :
       {"1 28 ten", "[1]", R"([{"name":"x"}])", R"([{"name":"x","dtype":"f64","shape":[]}])",
        R"([{"name":"x","dtype":"f32","shape":[0]}])",
        R"([{"name":"x","dtype":"f32","shape":[-1]}])",
        R"([{"name":"x","dtype":"f32","shape":[65536,65536]}])"}) {
    SCOPED_TRACE(bad);
    bent.metadata[kFieldsKey] = bad;
    expect_refused();
  }
  // As older Podiums stated images.
  bent.metadata.erase(kFieldsKey);
  bent.metadata["input"] = "1 28 28 10";
  EXPECT_EQ(Predictor(trained.recipe, bent).image_shape(), (Shape{1, 28, 28}));
  bent.metadata["input"] = "1 28 ten";
  expect_refused();
}

TEST(Predictor, loads_a_run_by_its_folder_with_the_recipes_model_or_one_that_is_given) {
  const TestFolder folder;
  Trained trained(digits());
  {
    RunFolder run(folder / "run");
    run.adopt_recipe(to_toml(trained.recipe));
    EXPECT_NE(user_error(ExitCode::kData, [&] { Predictor::load(folder / "run"); })
                  .find("has no checkpoint yet"),
              std::string::npos);
    run.save(trained.trainer.checkpoint(), 1);
  }
  Predictor named = Predictor::load(folder / "run");
  Predictor given = Predictor::load(folder / "run", find_model("mnist").build, {.workers = 1});
  EXPECT_EQ(named.step(), 3);
  EXPECT_EQ(given.placement().workers, 1);
  EXPECT_TRUE(same_bits(named.logits(trained.held_out()), given.logits(trained.held_out())));
  EXPECT_NE(user_error(ExitCode::kData, [&] { Predictor::load(folder / "none"); }).find("none"),
            std::string::npos);
}

// A network whose recipe's data no build knows: its checkpoint says what it takes.
TEST(Predictor, needs_no_dataset_of_the_recipes_name) {
  Trained trained(digits());
  Recipe own = trained.recipe;
  own.data = "pictures of mine";
  Predictor predictor(own, trained.trainer.checkpoint());
  EXPECT_EQ(predictor.class_name(3), "3");
  EXPECT_EQ(predictor.logits(trained.held_out()).shape(), (Shape{300, 10}));
}

TEST(Probabilities, are_the_softmax_and_rank_by_falling_logit) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -2.0f};
  const std::vector<double> p = probabilities(logits);
  const double sum = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0);
  EXPECT_NEAR(p[0], std::exp(1.0) / sum, 1e-15);
  EXPECT_NEAR(p[1], std::exp(3.0) / sum, 1e-15);
  EXPECT_EQ(p[1], p[2]);
  EXPECT_EQ(ranking(logits), (std::vector<std::int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(probabilities(std::vector<float>{1e30f, -1e30f})[0], 1.0);
}

}  // namespace
}  // namespace podium
