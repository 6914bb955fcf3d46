// The law in BF16: in each order of the sums, the hashes of whole steps are equal on the reference,
// on the CPU by every way that it can compute, on the emulated GPU whose tensor cores add so,
// whatever the placement, and after a checkpoint.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/kernels/bf16/tiles.h"
#include "backend/cpu/kernels/targets.h"
#include "base/error.h"
#include "law_util.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

constexpr int kBf16Steps = 2;

// On MNIST's network: convolutions whose channels fill no octet, and dense layers.
Recipe bf16_recipe(Bf16Order order) {
  return parse_recipe(to_toml(small_recipe(44, 2)), "small",
                      {"precision=bf16", cat("bf16_order=", name_of(order))});
}

std::vector<std::uint64_t> hashes_on(const Recipe& recipe, const std::string& backend,
                                     std::int64_t workers = 1, int threads = 1) {
  return step_hashes(*make_trainer(recipe, workers, threads, backend), kBf16Steps);
}

class Bf16 : public testing::TestWithParam<Bf16Order> {
 protected:
  Bf16() { static_cast<void>(law_backend()); }  // knows all backends
  ~Bf16() override {
    cpu::allow_amx(true);
    cpu::set_vector_target(cpu::vector_targets().front());
    set_cuda_capability(9, 0);
    set_cuda_code_version(90);
  }
};

// On `backend` after `expected` of the reference, by every way that the CPU can compute.
void expect_on_every_target(const std::vector<std::uint64_t>& expected,
                            const std::function<std::vector<std::uint64_t>()>& hashes) {
  for (const bool instructions : {true, false})
    for (const std::string& target : cpu::vector_targets()) {
      cpu::allow_amx(instructions);
      cpu::set_vector_target(target);
      EXPECT_EQ(hashes(), expected)
          << target << (instructions ? ", with instructions for BF16 where there are any" : "");
    }
}

TEST_P(Bf16, has_the_hashes_of_the_reference_by_vectors_and_by_instructions_for_it) {
  const Recipe recipe = bf16_recipe(GetParam());
  expect_on_every_target(hashes_on(recipe, "reference", 2),
                         [&] { return hashes_on(recipe, "cpu"); });
}

TEST_P(Bf16, has_the_same_hashes_in_any_placement) {
  const Recipe recipe = bf16_recipe(GetParam());
  const auto expected = hashes_on(recipe, "cpu");
  EXPECT_EQ(hashes_on(recipe, "cpu", 2), expected);
  EXPECT_EQ(hashes_on(recipe, "cpu", 1, 3), expected);
  EXPECT_EQ(hashes_on(recipe, "detached", 2, 2), expected);
}

TEST_P(Bf16, goes_on_with_the_same_hashes_after_a_checkpoint) {
  const Recipe recipe = bf16_recipe(GetParam());
  const auto expected = hashes_on(recipe, "cpu");
  const auto first = make_trainer(recipe, 2, 1, "cpu");
  step_hashes(*first, 1);
  const auto second = make_trainer(recipe, 1, 2, "cpu");
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, 1).front(), expected.back());
}

// Strides, kernels of one pixel, channels in whole runs, in whole octets and in neither.
Value small_network(Network& net, Value x, std::int64_t classes) {
  x = net.relu(net.conv2d("first", x, {.channels = 12, .kernel = 3}));
  x = net.relu(net.conv2d("second", x, {.channels = 32, .kernel = 3, .stride = 2}));
  x = net.relu(net.conv2d("third", x, {.channels = 40, .kernel = 3}));
  x = net.relu(net.conv2d("fourth", x, {.channels = 7, .kernel = 1, .stride = 2}));
  return net.dense("last", net.flatten(x), {.units = classes});
}

TEST_P(Bf16, has_the_hashes_of_the_reference_on_a_network_of_pictures) {
  Recipe recipe = bf16_recipe(GetParam());
  recipe.batch = 20, recipe.replicas = 1;
  auto images = std::make_shared<ImageSet>(ImageFields{20, 3, 9, 9, 10, "random images"});
  std::minstd_rand draw(7);
  for (std::int64_t i = 0; i < images->count * images->image_bytes(); ++i)
    images->pixels.push_back(static_cast<std::uint8_t>(draw() >> 8));
  for (std::int64_t i = 0; i < images->count; ++i)
    images->labels.push_back(static_cast<std::uint8_t>(i % 10));
  const auto hashes = [&](const std::string& backend) {
    Trainer trainer(recipe, small_network, images, images, Placement{.backend = backend});
    return step_hashes(trainer, 1);
  };
  expect_on_every_target(hashes("reference"), [&] { return hashes("cpu"); });
}

INSTANTIATE_TEST_SUITE_P(Each, Bf16, testing::ValuesIn(kBf16Orders),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// Of the emulated GPU, whose mma.sync adds as its capability does.
TEST_F(Bf16, has_the_hashes_of_the_cpu_on_gpus_whose_tensor_cores_add_so) {
  for (const auto& [major, order] :
       {std::pair{8, Bf16Order::kAmpere}, std::pair{9, Bf16Order::kHopper}}) {
    set_cuda_capability(major, 0);
    Recipe recipe = bf16_recipe(order);
    recipe.batch = 9, recipe.replicas = 1;
    const auto on_gpu = make_trainer(recipe, 1, 1, "cuda-emulated");
    auto hashes = step_hashes(*on_gpu, 1);
    // It goes on on both.
    const auto on_cpu = make_trainer(recipe, 1, 2, "cpu");
    on_cpu->restore(on_gpu->checkpoint());
    hashes.push_back(step_hashes(*on_gpu, 1).front());
    EXPECT_EQ(step_hashes(*on_cpu, 1).front(), hashes.back()) << name_of(order);
    EXPECT_EQ(hashes, hashes_on(recipe, "cpu")) << name_of(order);
    EXPECT_EQ(on_gpu->kind(), on_cpu->kind());
  }
}

TEST_F(Bf16, has_other_hashes_in_each_order) {
  std::set<std::uint64_t> hashes;
  for (const Bf16Order order : kBf16Orders)
    hashes.insert(hashes_on(bf16_recipe(order), "cpu").back());
  EXPECT_EQ(hashes.size(), kBf16Orders.size());
}

TEST_F(Bf16, has_the_order_that_its_first_device_decides_where_the_recipe_names_none) {
  const Recipe unnamed = parse_recipe(to_toml(small_recipe(44, 2)), "small", {"precision=bf16"});
  EXPECT_EQ(make_trainer(unnamed, 1, 1, "cpu")->kind(), "exact bf16");
  EXPECT_EQ(hashes_on(unnamed, "cpu"), hashes_on(bf16_recipe(Bf16Order::kAmx), "cpu"));
  EXPECT_EQ(make_trainer(unnamed, 1, 1, "cuda-emulated")->kind(), "exact bf16 hopper");
  set_cuda_capability(8, 6);
  EXPECT_EQ(make_trainer(unnamed, 1, 1, "cuda-emulated")->kind(), "exact bf16 ampere");
  // One that keeps no rule that is known.
  set_cuda_capability(12, 0, true);
  EXPECT_EQ(make_trainer(unnamed, 1, 1, "cuda-emulated")->kind(), "cuda-emulated bf16 on sm_120");
}

std::string placement_refusal(const Recipe& recipe, const std::string& backend) {
  try {
    make_trainer(recipe, 1, 1, backend);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST_F(Bf16, is_refused_by_a_device_that_does_not_compute_its_order) {
  const std::string text = placement_refusal(bf16_recipe(Bf16Order::kAmx), "cuda-emulated");
  EXPECT_NE(text.find("does not add BF16 products in the order amx (bf16_order), only in the order "
                      "hopper; --backend cpu computes every order"),
            std::string::npos)
      << text;
  EXPECT_NE(placement_refusal(bf16_recipe(Bf16Order::kAmpere), "cuda-emulated"), "");
  set_cuda_capability(12, 0);
  set_cuda_code_version(75);
  const std::string old = placement_refusal(bf16_recipe(Bf16Order::kHopper), "cuda-emulated");
  EXPECT_NE(old.find("no code with BF16 for"), std::string::npos) << old;
  EXPECT_NE(old.find("PODIUM_CUDA_ARCHITECTURES=120"), std::string::npos) << old;
  set_cuda_code_version(90);
  set_cuda_capability(9, 0, true);
  const std::string odd = placement_refusal(bf16_recipe(Bf16Order::kHopper), "cuda-emulated");
  EXPECT_NE(odd.find("nor in any that a recipe can name"), std::string::npos) << odd;
}

}  // namespace
}  // namespace podium
