// G1 over the GPUs of one process: the hash of all parameters is equal after every step, on however
// many GPUs the replicas are spread. The GPUs are emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "law_util.h"
#include "parallel/local_transport.h"
#include "parallel/network_transport.h"
#include "ranks_test_util.h"
#include "rows_test_util.h"

namespace podium {
namespace {

constexpr int kGpuSteps = 4;

class Gpus : public testing::Test {
 protected:
  Gpus() { static_cast<void>(law_backend()); }  // which registers the emulation
  ~Gpus() override {
    set_cuda_devices(1);
    set_cuda_late(false);
    fail_cuda_from(std::nullopt);
  }
  static Recipe recipe_of(std::int64_t replicas) {
    Recipe recipe = rows_recipe();
    recipe.replicas = replicas;
    recipe.batch = 4 * replicas;
    return recipe;
  }
  // Rows that have weights, so that replicas differ in what they count for.
  static std::unique_ptr<Trainer> on_cpu(const Recipe& recipe) {
    return rows_trainer(recipe, 3, uneven, {.workers = 1}, "cpu");
  }
  static std::unique_ptr<Trainer> on_gpus(const Recipe& recipe, int gpus,
                                          const Placement& placement = {}) {
    set_cuda_devices(gpus);
    return rows_trainer(recipe, 3, uneven, placement, "cuda-emulated");
  }
};

TEST_F(Gpus, any_number_gives_the_same_hashes) {
  for (const std::int64_t replicas : {3, 8}) {
    for (const float limit : {0.0f, 0.5f}) {
      Recipe recipe = recipe_of(replicas);
      recipe.clip_norm = limit;
      const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
      for (const int gpus : {1, 2, 3, 8}) {
        const auto trainer = on_gpus(recipe, gpus);
        EXPECT_EQ(trainer->placement().workers, std::min<std::int64_t>(gpus, replicas));
        EXPECT_EQ(step_hashes(*trainer, kGpuSteps), expected)
            << replicas << " replicas on " << gpus << ", norms up to " << limit;
      }
    }
  }
}

TEST_F(Gpus, a_network_for_images_has_the_hashes_of_one) {
  constexpr int kSteps = 3;
  const Recipe recipe = small_recipe(10, 5);
  const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), kSteps);
  set_cuda_devices(2);
  EXPECT_EQ(step_hashes(*make_trainer(recipe, 0, 1, "cuda-emulated"), kSteps), expected);
}

// Where the step is not one program, the replicas of each worker are.
TEST_F(Gpus, replicas_of_a_worker_are_one_program) {
  Recipe recipe = recipe_of(7);
  recipe.clip_norm = 0.5f;
  const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
  // Of 7 replicas, 3 and 4: the first have two nodes of the tree.
  for (const std::vector<int>& workers : {std::vector{2}, {1, 1}, {2, 1}}) {
    std::vector<std::vector<std::uint64_t>> hashes(workers.size());
    std::vector<Trace> traces(workers.size());
    on_ranks_of(
        workers, {.bucket_bytes = 512},
        [&](Placement placement) {
          const int rank = placement.ranks == nullptr ? 0 : placement.ranks->rank();
          placement.trace = &traces[static_cast<std::size_t>(rank)];
          return on_gpus(recipe, 2, placement);
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

// Each GPU does its work as late as it may: what does not wait for what it reads, or writes what
// others still read, would be seen. Sums leave a GPU before it has computed all others.
TEST_F(Gpus, exchange_sums_while_they_compute_the_rest) {
  set_cuda_late(true);
  for (const std::int64_t replicas : {3, 8}) {
    for (const float limit : {0.0f, 0.5f}) {
      Recipe recipe = recipe_of(replicas);
      recipe.clip_norm = limit;
      const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
      for (const int gpus : {2, 3, 8}) {
        const std::int64_t before = cuda_overtaken();
        const auto trainer = on_gpus(recipe, gpus, {.bucket_bytes = 64});
        EXPECT_EQ(step_hashes(*trainer, kGpuSteps), expected)
            << replicas << " replicas on " << gpus << ", norms up to " << limit;
        // The losses leave each GPU early, too.
        EXPECT_GT(cuda_overtaken() - before, kGpuSteps * trainer->placement().workers);
      }
    }
  }
}

// Through memory of the host, as by MPI, and from GPU to GPU by NCCL.
TEST_F(Gpus, of_ranks_exchange_sums_while_they_compute_the_rest) {
  set_cuda_late(true);
  const Recipe recipe = recipe_of(7);
  const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
  const Carrier by_nccl = [](LocalRanks& ranks, int rank) {
    constexpr double kSeconds = 60;
    return network_transport(std::make_unique<LocalTransport>(ranks, rank), kSeconds);
  };
  struct Case {
    std::vector<int> workers;
    Carrier carrier;
    std::vector<std::string> hosts;
    const char* carried_by;
  };
  for (const Case& tested : {Case{{1, 1}, carried_by<>, {}, ""},
                             {{2, 2}, carried_by<>, {"a", "b"}, ""},  // each with two GPUs
                             {{1, 1}, by_nccl, {}, "NCCL"},
                             {{1, 1, 1}, by_nccl, {"a", "b", "b"}, "NCCL"}}) {
    const std::int64_t before = cuda_overtaken();
    std::vector<std::vector<std::uint64_t>> hashes(tested.workers.size());
    on_ranks_of(
        tested.workers, {.bucket_bytes = 64},
        [&](const Placement& placement) {
          auto trainer = on_gpus(recipe, 2, placement);
          EXPECT_EQ(placement.ranks->carrier().substr(0, 4), tested.carried_by);
          return trainer;
        },
        [&](Trainer& trainer, int rank) {
          hashes[static_cast<std::size_t>(rank)] = step_hashes(trainer, kGpuSteps);
        },
        tested.carrier, tested.hosts);
    for (const auto& of_rank : hashes)
      EXPECT_EQ(of_rank, expected) << testing::PrintToString(tested.workers) << tested.carried_by;
    const int workers = std::accumulate(tested.workers.begin(), tested.workers.end(), 0);
    EXPECT_GT(cuda_overtaken() - before, kGpuSteps * workers);
  }
}

// Two GPUs for three workers; the numbers of the GPUs do not matter, either.
TEST_F(Gpus, workers_may_share_them) {
  const Recipe recipe = recipe_of(5);
  const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
  EXPECT_EQ(step_hashes(*on_gpus(recipe, 2, {.workers = 3}), kGpuSteps), expected);
  const auto chosen = on_gpus(recipe, 4, {.gpus = {3, 1}});
  EXPECT_EQ(chosen->placement().workers, 2);
  EXPECT_EQ(step_hashes(*chosen, kGpuSteps), expected);
}

TEST_F(Gpus, evaluation_and_gradients_are_those_of_one) {
  const Recipe recipe = recipe_of(4);
  const auto one = on_cpu(recipe), two = on_gpus(recipe, 2);
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
  const Recipe recipe = recipe_of(6);
  const auto undisturbed = step_hashes(*on_cpu(recipe), 2 * kGpuSteps);
  const auto first = on_gpus(recipe, 3);
  step_hashes(*first, kGpuSteps);
  const Checkpoint saved = first->checkpoint();
  for (const int gpus : {1, 2, 6}) {
    const auto second = on_gpus(recipe, gpus);
    second->restore(saved);
    EXPECT_EQ(step_hashes(*second, kGpuSteps),
              std::vector(undisturbed.begin() + kGpuSteps, undisturbed.end()))
        << gpus;
  }
}

TEST_F(Gpus, an_audit_compares_two_of_them) {
  const Recipe recipe = recipe_of(4);
  const auto expected = step_hashes(*on_cpu(recipe), kGpuSteps);
  const auto trainer = on_gpus(recipe, 2);
  for (const std::uint64_t hash : expected) {
    const StepResult result = trainer->step({.hash = true, .audit = true});
    EXPECT_EQ(result.hash, hash);
    EXPECT_EQ(result.disagreement, nullptr);
  }
}

TEST_F(Gpus, one_that_fails_is_named) {
  const Recipe recipe = recipe_of(8);
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
  const auto undisturbed = step_hashes(*on_cpu(recipe), 4);
  EXPECT_EQ(step_hashes(*rest, 2), std::vector(undisturbed.begin() + 2, undisturbed.end()));
}

}  // namespace
}  // namespace podium
