// The law on devices of a PJRT plugin, which are a kind of their own: the same hashes for any
// number of its devices, and for a run that goes on on another number; gradients that are those of
// the CPU up to roundings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/pjrt/cpu_plugin_test_util.h"
#include "data/dataset.h"
#include "law_util.h"
#include "train/checkpoint.h"

namespace podium {
namespace {

constexpr int kSteps = 3;

class PjrtLaw : public testing::Test {
 protected:
  void SetUp() override {
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  }
};

std::unique_ptr<Trainer> on_devices(const Recipe& recipe, int devices, std::int64_t workers) {
  setenv("PODIUM_PJRT_OPTIONS", cat("cpu_device_count=", devices).c_str(), 1);
  return make_trainer(recipe, workers, 1, "pjrt");
}

TEST_F(PjrtLaw, any_number_of_devices_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto expected = step_hashes(*on_devices(recipe, 1, 1), kSteps);
  EXPECT_NE(expected.front(), expected.back());
  EXPECT_EQ(step_hashes(*on_devices(recipe, 1, 1), kSteps), expected) << "again";
  for (const int devices : {2, 4, 8})
    EXPECT_EQ(step_hashes(*on_devices(recipe, devices, devices), kSteps), expected) << devices;
  EXPECT_EQ(step_hashes(*on_devices(recipe, 1, 3), kSteps), expected) << "3 workers of one device";
}

TEST_F(PjrtLaw, a_run_that_goes_on_on_other_devices_has_the_same_hashes) {
  const Recipe recipe = small_recipe(64, 4);
  const auto whole = step_hashes(*on_devices(recipe, 2, 2), 4);
  const auto first = on_devices(recipe, 4, 4);
  step_hashes(*first, 2);
  const auto second = on_devices(recipe, 1, 1);
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, 2), (std::vector{whole[2], whole[3]}));
}

TEST_F(PjrtLaw, clipped_gradients_and_matrix_optimizers_give_the_same_hashes) {
  Recipe recipe = parse_recipe(to_toml(small_recipe(51, 3)), "small",
                               {R"(optimizer.group.1.parameters=["conv*.weight", "fc*.weight"])",
                                "optimizer.group.1.name=muon", "optimizer.clip_norm=0.5"});
  const auto expected = step_hashes(*on_devices(recipe, 1, 1), kSteps);
  EXPECT_EQ(step_hashes(*on_devices(recipe, 3, 3), kSteps), expected);
}

// The largest difference between two tensors, as a share of the largest magnitude.
double distance(std::span<const float> a, std::span<const float> b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    apart = std::max(apart, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest == 0 ? apart : apart / largest;
}

TEST_F(PjrtLaw, gradients_are_those_of_the_cpu_up_to_roundings) {
  const Recipe recipe = small_recipe(64, 2);
  const auto here = on_devices(recipe, 1, 1), cpu = make_trainer(recipe, 1, 1, "cpu");
  const StepResult a = here->compute_gradients(), b = cpu->compute_gradients();
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_EQ(a.correct, b.correct);
  const auto ours = here->gradients(), theirs = cpu->gradients();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT(distance(ours[i].values, theirs[i].values), 2e-5) << ours[i].name;
}

TEST_F(PjrtLaw, a_loss_that_is_not_finite_is_traced_to_its_operation) {
  Recipe recipe = small_recipe(64, 2);
  const auto trainer = on_devices(recipe, 1, 1);
  for (const TensorSpan& parameter : trainer->parameters())
    if (parameter.name == "conv2.weight") std::ranges::fill(parameter.values, 1e38f);
  const StepResult result = trainer->step({.throw_on_divergence = false});
  EXPECT_NE(result.non_finite.find("conv2"), std::string::npos) << result.non_finite;
}

}  // namespace
}  // namespace podium
