// Training a part of a network: what is frozen keeps its bits, and the law holds for the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "law_util.h"

namespace podium {
namespace {

Recipe with(std::int64_t replicas, std::vector<std::string> overrides) {
  return parse_recipe(to_toml(small_recipe(64 / replicas * replicas, replicas)), "small",
                      overrides);
}

// Of tensors whose names both have: those that differ.
std::vector<std::string> changed(const Checkpoint& a, const Checkpoint& b) {
  std::vector<std::string> names;
  for (const NamedTensor& t : a.tensors) {
    const Tensor* other = b.find(t.name);
    if (other != nullptr && std::memcmp(other->data(), t.tensor.data(),
                                        static_cast<std::size_t>(t.tensor.type().bytes())) != 0)
      names.push_back(t.name);
  }
  return names;
}

const std::vector<std::string> kAllButTheHead = {
    R"(optimizer.group.1.parameters=["conv*", "bn*", "fc1.*"])", "optimizer.group.1.frozen=true"};

TEST(Frozen, parameters_and_their_running_statistics_keep_their_bits) {
  // Three replicas: the mean of equal statistics would be rounded.
  const auto trainer = make_trainer(with(3, kAllButTheHead), 2);
  const Checkpoint before = trainer->checkpoint();
  step_hashes(*trainer, 4);
  EXPECT_EQ(
      changed(before, trainer->checkpoint()),
      (std::vector<std::string>{"fc2.weight", "optimizer/fc2.weight/m", "optimizer/fc2.weight/v"}));
  for (const NamedTensor& t : before.tensors)
    EXPECT_TRUE(!t.name.starts_with("optimizer/") || t.name.find("fc2") != std::string::npos)
        << t.name;
}

TEST(Frozen, layers_compute_no_gradient) {
  const auto gradients = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> names;
    for (const NamedTensor& t : make_trainer(with(2, overrides), 1)->inspect_step().tensors)
      if (t.name.starts_with("gradient/")) names.push_back(t.name);
    return names;
  };
  EXPECT_EQ(gradients(kAllButTheHead), std::vector<std::string>{"gradient/fc2.weight"});
  EXPECT_EQ(gradients({}).size(), 13u);
}

// A gradient passes through a batch normalisation that runs on its running statistics.
TEST(Frozen, layers_in_the_middle_pass_gradients_on_and_any_placement_gives_the_same_hashes) {
  for (const std::int64_t replicas : {1, 3, 8}) {
    const Recipe recipe = with(replicas, {R"(optimizer.group.1.parameters=["conv2*", "bn2*"])",
                                          "optimizer.group.1.frozen=true"});
    const auto trainer = make_trainer(recipe, 1);
    const Checkpoint before = trainer->checkpoint();
    const auto expected = step_hashes(*trainer, 3);
    const std::vector<std::string> names = changed(before, trainer->checkpoint());
    EXPECT_EQ(std::ranges::count(names, "conv1.weight"), 1);
    EXPECT_EQ(std::ranges::count(names, "bn1.running_mean"), 1);
    EXPECT_EQ(std::ranges::count(names, "conv2.weight"), 0);
    EXPECT_EQ(std::ranges::count(names, "bn2.running_var"), 0);
    for (const std::int64_t workers : {2, 3})
      if (workers <= replicas) {
        EXPECT_EQ(step_hashes(*make_trainer(recipe, workers), 3), expected) << workers;
      }
    EXPECT_EQ(step_hashes(*make_trainer(recipe, 1, 3), 3), expected);
    EXPECT_EQ(step_hashes(*make_trainer(recipe, 1, 1, "reference"), 3), expected);
  }
}

TEST(Frozen, a_checkpoint_goes_on_under_another_placement) {
  const Recipe recipe = with(4, kAllButTheHead);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 2), 6);
  const auto first = make_trainer(recipe, 1);
  step_hashes(*first, 3);
  const auto second = make_trainer(recipe, 3);
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, 3), std::vector(undisturbed.begin() + 3, undisturbed.end()));
}

}  // namespace
}  // namespace podium
