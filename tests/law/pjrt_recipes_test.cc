// One step of each recipe on a PJRT plugin beside the same step on the CPU backend, on images that
// are drawn: each tensor's gradient, the running statistics and the loss.
//
// How far they may be apart follows from the roundings. The plugin adds up in other orders, where
// the roundings of a sum of n products come to those of sqrt(n) products, n up to about 4,600. So
// further CPU steps start from parameters that are wrong by up to kRoundings roundings each, and
// what that changes in a gradient, at most, is what the plugin may change; twice that, because the
// roundings of the CPU's Winograd convolutions come to more. There are several of these steps,
// since a network is not smooth: an input of ReLU near 0, or two of max pooling that are nearly
// equal, may change sides in one of them and not in another.
//
// Recipes named in PODIUM_PJRT_RECIPES, or "all"; without it, mnist.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>

#include "backend/pjrt/cpu_plugin_test_util.h"
#include "base/numerics/philox.h"
#include "data/datasets/dataset.h"
#include "data/source/own_files.h"
#include "law_util.h"
#include "train/loop/checkpoint.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

constexpr double kRoundings = 64, kMost = 2;
constexpr std::uint64_t kDisturbedSteps = 4;
constexpr std::int64_t kReplicas = 2, kReplicaImages = 8;

std::vector<std::string> wanted_recipes() {
  const char* const stated = std::getenv("PODIUM_PJRT_RECIPES");
  const std::string wanted = stated == nullptr ? "mnist" : stated;
  if (wanted == "all") {
    std::vector<std::string> images = recipe_names();
    std::erase_if(images, [](const std::string& name) {
      const Recipe recipe = read_recipe(find_recipe(name));
      return own_file(recipe.data) != nullptr;
    });
    return images;
  }
  std::istringstream words(wanted);
  return {std::istream_iterator<std::string>(words), {}};
}

std::shared_ptr<const ImageSet> drawn_images(const DataShape& shape, std::int64_t count,
                                             std::uint64_t seed) {
  const PhiloxStream words(seed, RandomPurpose::kInitialise, 0);
  ImageFields fields = image_fields_of(shape.fields);
  fields.count = count, fields.source = "drawn";
  const std::int64_t bytes = count * fields.image_bytes();
  std::vector<std::uint8_t> pixels;
  for (std::int64_t i = 0; i < bytes; ++i)
    pixels.push_back(static_cast<std::uint8_t>(words.word(static_cast<std::uint64_t>(i)) >> 24));
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i)
    labels.push_back(static_cast<std::int32_t>(i % fields.classes));
  return std::make_shared<const ImageSet>(make_image_set(pixels, labels, fields));
}

// With few images, and without what needs files.
Recipe small(const std::string& name) {
  Recipe recipe = read_recipe(find_recipe(name));
  recipe.replicas = kReplicas;
  recipe.batch = kReplicas * kReplicaImages;
  recipe.init = {};
  recipe.augment = {};
  return recipe;
}

// A step's results: the gradients, then what it made of the running statistics.
struct Made {
  double loss = 0;
  std::vector<NamedTensor> tensors;
};

// `disturbance`: the number of the disturbed step, or 0.
Made step_on(const std::string& backend, const Recipe& recipe, const RunData& data,
             std::uint64_t disturbance = 0) {
  Trainer trainer(recipe, find_model(recipe.model).build, data.train, data.held_out,
                  Placement{.workers = 1, .backend = backend});
  const PhiloxStream words(4 + disturbance, RandomPurpose::kInitialise, 1);
  std::uint32_t at = 0;
  for (const TensorSpan& parameter : trainer.parameters())
    for (float& value : parameter.values)
      if (disturbance != 0)
        value *= 1 + (uniform01(words.word(at++)) - 0.5f) * static_cast<float>(kRoundings) *
                         std::numeric_limits<float>::epsilon();
  Made made;
  made.loss = trainer.compute_gradients().sums.loss;
  for (const TensorSpan& gradient : trainer.gradients()) {
    Tensor tensor(TensorType{DType::kF32, gradient.shape});
    std::ranges::copy(gradient.values, tensor.f32().begin());
    made.tensors.push_back({"gradient of " + gradient.name, std::move(tensor)});
  }
  trainer.apply_update();
  for (NamedTensor& tensor : trainer.checkpoint().tensors)
    if (tensor.name.find("running_") != std::string::npos) made.tensors.push_back(tensor);
  return made;
}

// The largest difference, as a share of the largest magnitude.
double distance(const Tensor& a, const Tensor& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.f32().size(); ++i) {
    const double x = a.f32()[i], y = b.f32()[i];
    largest = std::max(largest, std::abs(y));
    apart = std::max(apart, std::abs(x - y));
  }
  return largest == 0 ? apart : apart / largest;
}

class PjrtRecipes : public testing::TestWithParam<std::string> {};

TEST_P(PjrtRecipes, one_step_is_that_of_the_cpu_up_to_roundings) {
  if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  const Recipe recipe = small(GetParam());
  DataShape shape = stated_shape(recipe);
  if (shape.fields[1].below == 0) shape.fields[1].below = 10;
  const RunData data = {drawn_images(shape, 4 * recipe.batch, 1), drawn_images(shape, 16, 2)};
  const Made cpu = step_on("cpu", recipe, data), here = step_on("pjrt", recipe, data);
  std::vector<Made> disturbed;
  for (std::uint64_t i = 1; i <= kDisturbedSteps; ++i)
    disturbed.push_back(step_on("cpu", recipe, data, i));
  double loss_change = 0;
  for (const Made& made : disturbed)
    loss_change = std::max(loss_change, std::abs(made.loss - cpu.loss));
  EXPECT_NEAR(here.loss, cpu.loss, kMost * loss_change + 1e-6);
  ASSERT_EQ(here.tensors.size(), cpu.tensors.size());
  double furthest = 0, most = 0, largest = 0;
  for (std::size_t i = 0; i < cpu.tensors.size(); ++i) {
    const Tensor& expected = cpu.tensors[i].tensor;
    double change = kRoundings * std::numeric_limits<float>::epsilon() / 2;
    for (const Made& made : disturbed)
      change = std::max(change, distance(made.tensors[i].tensor, expected));
    const double found = distance(here.tensors[i].tensor, expected);
    EXPECT_LE(found, kMost * change) << cpu.tensors[i].name;
    furthest = std::max(furthest, found);
    most = std::max(most, found / change);
    largest = std::max(largest, change);
  }
  std::cout << GetParam() << ": " << cpu.tensors.size() << " tensors; apart by " << furthest
            << " of the largest magnitude at most; " << kRoundings
            << " roundings of the parameters change " << largest << " at most; largest ratio "
            << most << "\n";
}

INSTANTIATE_TEST_SUITE_P(All, PjrtRecipes, testing::ValuesIn(wanted_recipes()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace podium
