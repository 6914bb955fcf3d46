// G1 over ranks: the hash of all parameters is equal after every step, however the replicas are
// spread over ranks and workers. Ranks are threads here; tests/ranks/ has those that are processes.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "law_util.h"
#include "ranks_test_util.h"

namespace podium {
namespace {

constexpr int kRanksSteps = 5;
// Small enough for several buckets of these models.
constexpr std::int64_t kBucketBytes = 2048;

// Calls work(trainer, rank) on each rank, on a thread of its own. workers[r] is rank r's.
void on_ranks(const Recipe& recipe, const std::vector<int>& workers,
              const std::function<void(Trainer&, int)>& work, int input_threads = 0,
              std::int64_t bucket_bytes = kBucketBytes) {
  on_ranks_of(
      workers,
      {.input_threads = input_threads, .backend = law_backend(), .bucket_bytes = bucket_bytes},
      [&](const Placement& placement) {
        const RunData& data = small_data();
        return std::make_unique<Trainer>(recipe, find_model(recipe.model).build, data.train,
                                         data.held_out, placement);
      },
      work);
}

// Of every rank.
std::vector<std::vector<std::uint64_t>> hashes_of_ranks(const Recipe& recipe,
                                                        const std::vector<int>& workers,
                                                        int input_threads = 0,
                                                        std::int64_t bucket_bytes = kBucketBytes) {
  std::vector<std::vector<std::uint64_t>> hashes(workers.size());
  on_ranks(
      recipe, workers,
      [&](Trainer& trainer, int rank) {
        hashes[static_cast<std::size_t>(rank)] = step_hashes(trainer, kRanksSteps);
      },
      input_threads, bucket_bytes);
  return hashes;
}

const std::vector<std::vector<int>> kLayouts = {
    {1}, {2}, {1, 1}, {2, 1}, {2, 2}, {1, 1, 1}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};

TEST(Ranks, any_layout_gives_the_same_hashes) {
  small_data();
  for (const std::int64_t replicas : {1, 3, 7, 8}) {
    const Recipe recipe = small_recipe(replicas * 8, replicas);
    const auto expected = step_hashes(*make_trainer(recipe, 1), kRanksSteps);
    for (const std::vector<int>& workers : kLayouts) {
      if (std::accumulate(workers.begin(), workers.end(), 0) > replicas) continue;
      for (const auto& hashes : hashes_of_ranks(recipe, workers))
        EXPECT_EQ(hashes, expected) << replicas << " replicas, " << testing::PrintToString(workers);
    }
  }
}

TEST(Ranks, that_make_batches_ahead_give_the_same_hashes) {
  const Recipe recipe = small_recipe(56, 7);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kRanksSteps);
  for (const auto& hashes : hashes_of_ranks(recipe, {2, 1}, 2)) EXPECT_EQ(hashes, expected);
}

TEST(Ranks, any_buckets_give_the_same_hashes) {
  const Recipe recipe = small_recipe(40, 5);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kRanksSteps);
  for (const std::int64_t bucket_bytes : {0, 1, 10000, 1 << 20})
    for (const auto& hashes : hashes_of_ranks(recipe, {1, 2, 1}, 0, bucket_bytes))
      EXPECT_EQ(hashes, expected) << bucket_bytes;
}

// Another rank's new parameters may come while the caller looks.
TEST(Ranks, show_the_parameters_of_the_last_step_at_once) {
  const Recipe recipe = small_recipe(32, 4);
  const auto alone = make_trainer(recipe, 1);
  std::vector<std::vector<float>> expected;
  const auto values_of = [](Trainer& trainer) {
    std::vector<float> values;
    for (const TensorSpan& tensor : trainer.parameters())
      values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    return values;
  };
  for (int i = 0; i < kRanksSteps; ++i) {
    alone->step();
    expected.push_back(values_of(*alone));
  }
  on_ranks(recipe, {1, 1, 1}, [&](Trainer& trainer, int) {
    for (int i = 0; i < kRanksSteps; ++i) {
      trainer.step();
      EXPECT_EQ(values_of(trainer), expected[static_cast<std::size_t>(i)]) << i;
      EXPECT_EQ(trainer.parameter_hash(), trainer.parameter_hash());
    }
  });
}

class RanksOfOptimizers : public testing::TestWithParam<std::string> {};

TEST_P(RanksOfOptimizers, any_layout_gives_the_same_hashes) {
  std::vector<std::string> overrides = {GetParam()};
  if (GetParam().find("group") != std::string::npos)
    overrides.emplace_back("optimizer.group.1.name=muon");
  const Recipe recipe = parse_recipe(to_toml(small_recipe(40, 5)), "small", overrides);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kRanksSteps);
  for (const std::vector<int>& workers : {std::vector<int>{1, 1}, {2, 1, 1}})
    for (const auto& hashes : hashes_of_ranks(recipe, workers))
      EXPECT_EQ(hashes, expected) << testing::PrintToString(workers);
}

const std::vector<std::string> kOptimizers = {
    "optimizer.name=sgd", "optimizer.clip_norm=0.05",
    R"(optimizer.group.1.parameters=["conv*.weight", "fc*.weight"])"};

std::string optimizer_name(const testing::TestParamInfo<std::string>& one) {
  constexpr const char* kNames[] = {"sgd", "clipped", "muon"};
  return kNames[one.index];
}

INSTANTIATE_TEST_SUITE_P(Each, RanksOfOptimizers, testing::ValuesIn(kOptimizers), optimizer_name);

TEST(Ranks, evaluate_each_example_once_whatever_the_batch) {
  for (const int batch : {0, 7, 64, 500}) {
    Recipe recipe = small_recipe(32, 4);
    recipe.evaluation.batch = batch;
    const auto alone = make_trainer(recipe, 1);
    step_hashes(*alone, 3);
    const EvaluationResult expected = alone->evaluate();
    on_ranks(recipe, {1, 2, 1}, [&](Trainer& trainer, int) {
      step_hashes(trainer, 3);
      const EvaluationResult result = trainer.evaluate();
      EXPECT_EQ(result.sums.examples, expected.sums.examples);
      EXPECT_EQ(result.confusion, expected.confusion);
      EXPECT_EQ(result.sums.loss, expected.sums.loss);
    });
  }
}

TEST(Ranks, make_checkpoints_that_any_number_of_them_goes_on_from) {
  const Recipe recipe = small_recipe(32, 4);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 1), 2 * kRanksSteps);
  Checkpoint middle;
  on_ranks(recipe, {1, 1, 1}, [&](Trainer& trainer, int rank) {
    step_hashes(trainer, kRanksSteps);
    Checkpoint own = trainer.checkpoint();
    if (rank == 1) middle = std::move(own);
  });
  const std::vector<std::uint64_t> rest(undisturbed.begin() + kRanksSteps, undisturbed.end());
  for (const std::vector<int>& workers : {std::vector<int>{1}, {2}, {1, 3}})
    on_ranks(recipe, workers, [&](Trainer& trainer, int) {
      trainer.restore(middle);
      EXPECT_EQ(step_hashes(trainer, kRanksSteps), rest) << testing::PrintToString(workers);
    });
}

TEST(Ranks, see_all_gradients_between_the_halves_of_a_step) {
  const Recipe recipe = small_recipe(32, 4);
  const auto halve = [](Trainer& trainer) {
    for (const TensorSpan& gradient : trainer.gradients())
      for (float& x : gradient.values) x *= 0.5f;
  };
  const auto alone = make_trainer(recipe, 1);
  std::vector<std::uint64_t> expected;
  for (int i = 0; i < kRanksSteps; ++i) expected.push_back(alone->step({.hash = true}, halve).hash);
  on_ranks(recipe, {1, 2}, [&](Trainer& trainer, int) {
    for (int i = 0; i < kRanksSteps; ++i)
      EXPECT_EQ(trainer.step({.hash = true}, halve).hash, expected[static_cast<std::size_t>(i)]);
  });
}

TEST(Ranks, all_refuse_a_step_that_diverges_and_name_the_same_operation) {
  Recipe recipe = small_recipe(32, 4);
  recipe.optimizer.learning_rate = 1e30;
  const auto of_a_run = [](Trainer& trainer) {
    for (int i = 0; i < 10; ++i) {
      const StepResult step = trainer.step({.throw_on_divergence = false});
      if (!step.non_finite.empty()) return cat("step ", step.step, ": ", step.non_finite);
    }
    return std::string("none");
  };
  const std::string expected = of_a_run(*make_trainer(recipe, 1));
  EXPECT_NE(expected, "none");
  on_ranks(recipe, {1, 1, 2},
           [&](Trainer& trainer, int) { EXPECT_EQ(of_a_run(trainer), expected); });
}

TEST(Ranks, more_than_replicas_or_workers_in_all_than_replicas_are_refused) {
  const auto refusal = [](const std::vector<int>& workers) {
    try {
      on_ranks(small_recipe(32, 2), workers, [](Trainer&, int) {});
    } catch (const UserError& error) {
      return cat(static_cast<int>(error.code()), " ", error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({1, 1, 1}),
            "2 a run of 2 replicas has at most as many ranks, not 3 (a rank runs whole replicas); "
            "start fewer, or give the recipe more replicas");
  EXPECT_EQ(refusal({2, 1}),
            "2 --workers 2 on 2 ranks: a run of 2 replicas has at most 2 workers in all, not 3; "
            "give each rank fewer, or leave --workers out");
}

}  // namespace
}  // namespace podium
