// G1 over the GPUs of one process: the hash of all parameters is equal after every step, on however
// many GPUs the replicas are spread. The GPUs are emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/trace.h"
#include "law_util.h"
#include "ranks_test_util.h"

namespace podium {
namespace {

constexpr int kGpuSteps = 3;

class Gpus : public testing::Test {
 protected:
  Gpus() {
    static_cast<void>(law_backend());  // which registers the emulation
    small_data();
  }
  ~Gpus() override {
    set_cuda_devices(1);
    set_cuda_capability(9, 0);
    fail_cuda_from(std::nullopt);
  }
  static std::unique_ptr<Trainer> on_gpus(const Recipe& recipe, int gpus,
                                          std::int64_t workers = 0) {
    set_cuda_devices(gpus);
    return make_trainer(recipe, workers, 1, "cuda-emulated");
  }
};

TEST_F(Gpus, any_number_gives_the_same_hashes) {
  for (const std::int64_t replicas : {3, 8}) {
    Recipe recipe = small_recipe(replicas * 2, replicas);
    if (replicas == 3) recipe.clip_norm = 0.5f;
    const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), kGpuSteps);
    for (const int gpus : {1, 2, 3, 8}) {
      const auto trainer = on_gpus(recipe, gpus);
      EXPECT_EQ(trainer->placement().workers, std::min<std::int64_t>(gpus, replicas));
      EXPECT_EQ(step_hashes(*trainer, kGpuSteps), expected) << replicas << " replicas on " << gpus;
    }
  }
}

// Where the step is not one program, the replicas of each worker are.
TEST_F(Gpus, replicas_of_a_worker_are_one_program) {
  Recipe recipe = small_recipe(14, 7);
  recipe.clip_norm = 0.5f;
  const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), kGpuSteps);
  const RunData& data = small_data();
  // Of 7 replicas, 3 and 4: the first have two nodes of the tree.
  for (const std::vector<int>& workers : {std::vector{2}, {1, 1}, {2, 1}}) {
    set_cuda_devices(2);
    std::vector<std::vector<std::uint64_t>> hashes(workers.size());
    std::vector<Trace> traces(workers.size());
    on_ranks_of(
        workers, {.backend = "cuda-emulated", .bucket_bytes = 2048},
        [&](Placement placement) {
          const int rank = placement.ranks == nullptr ? 0 : placement.ranks->rank();
          placement.trace = &traces[static_cast<std::size_t>(rank)];
          return std::make_unique<Trainer>(recipe, find_model(recipe.model).build, data.train,
                                           data.held_out, placement);
        },
        [&](Trainer& trainer, int rank) {
          hashes[static_cast<std::size_t>(rank)] = step_hashes(trainer, kGpuSteps);
        });
    for (std::size_t rank = 0; rank < workers.size(); ++rank) {
      EXPECT_EQ(hashes[rank], expected) << testing::PrintToString(workers);
      EXPECT_NE(traces[rank].events(0, "").find("all replicas"), std::string::npos);
    }
  }
}

// Two GPUs for three workers; the numbers of the GPUs do not matter, either.
TEST_F(Gpus, workers_may_share_them) {
  const Recipe recipe = small_recipe(10, 5);
  const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), kGpuSteps);
  EXPECT_EQ(step_hashes(*on_gpus(recipe, 2, 3), kGpuSteps), expected);
  set_cuda_devices(4);
  const RunData& data = small_data();
  Trainer chosen(recipe, find_model(recipe.model).build, data.train, data.held_out,
                 Placement{.backend = "cuda-emulated", .gpus = {3, 1}});
  EXPECT_EQ(chosen.placement().workers, 2);
  EXPECT_EQ(step_hashes(chosen, kGpuSteps), expected);
}

TEST_F(Gpus, evaluation_and_gradients_are_those_of_one) {
  const Recipe recipe = small_recipe(8, 4);
  const auto one = make_trainer(recipe, 1, 1, "cpu"), two = on_gpus(recipe, 2);
  for (int i = 0; i < 2; ++i) {
    one->compute_gradients();
    two->compute_gradients();
    const auto expected = one->gradients(), actual = two->gradients();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t t = 0; t < actual.size(); ++t)
      EXPECT_TRUE(std::ranges::equal(actual[t].values, expected[t].values)) << actual[t].name;
    // A caller may change them, and the parameters.
    for (Trainer* const trainer : {one.get(), two.get()}) {
      trainer->gradients()[0].values[0] = 0.25f;
      trainer->parameters()[1].values[0] = -0.5f;
      trainer->apply_update();
    }
    EXPECT_EQ(two->parameter_hash(), one->parameter_hash());
  }
  const EvaluationResult expected = one->evaluate(), actual = two->evaluate();
  EXPECT_EQ(actual.sums.counts, expected.sums.counts);
  EXPECT_EQ(actual.sums.loss, expected.sums.loss);
}

TEST_F(Gpus, a_run_goes_on_with_more_or_fewer) {
  const Recipe recipe = small_recipe(12, 6);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), 2 * kGpuSteps);
  const auto first = on_gpus(recipe, 3);
  step_hashes(*first, kGpuSteps);
  const Checkpoint saved = first->checkpoint();
  for (const int gpus : {1, 2}) {
    const auto second = on_gpus(recipe, gpus);
    second->restore(saved);
    EXPECT_EQ(step_hashes(*second, kGpuSteps),
              std::vector(undisturbed.begin() + kGpuSteps, undisturbed.end()))
        << gpus;
  }
}

TEST_F(Gpus, an_audit_compares_two_of_them) {
  const Recipe recipe = small_recipe(8, 4);
  const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), 2);
  const auto trainer = on_gpus(recipe, 2);
  for (const std::uint64_t hash : expected) {
    const StepResult result = trainer->step({.hash = true, .audit = true});
    EXPECT_EQ(result.hash, hash);
    EXPECT_EQ(result.disagreement, nullptr);
  }
}

TEST_F(Gpus, one_that_fails_is_named) {
  const Recipe recipe = small_recipe(8, 4);
  const auto trainer = on_gpus(recipe, 4);
  step_hashes(*trainer, 2);
  const Checkpoint saved = trainer->checkpoint();
  fail_cuda_from(0, 3);
  try {
    trainer->step();
    FAIL() << "nothing failed";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 3 (emulation on the host) failed in"),
              std::string::npos)
        << error.what();
  }
  fail_cuda_from(std::nullopt);
  const auto rest = on_gpus(recipe, 3);
  rest->restore(saved);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), 4);
  EXPECT_EQ(step_hashes(*rest, 2), std::vector(undisturbed.begin() + 2, undisturbed.end()));
}

}  // namespace
}  // namespace podium
