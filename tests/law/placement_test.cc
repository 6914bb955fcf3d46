// G1: the hash of all parameters is equal after every step, whatever the placement.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "backend/cpu/kernels/targets.h"
#include "law_util.h"

namespace podium {
namespace {

constexpr int kSteps = 6;

TEST(Placement, any_number_of_workers_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kSteps);
  for (const std::int64_t workers : {2, 3, 5, 8})
    EXPECT_EQ(step_hashes(*make_trainer(recipe, workers), kSteps), expected) << workers;
}

TEST(Placement, trees_that_are_no_powers_of_two_give_the_same_hashes) {
  for (const std::int64_t replicas : {1, 3, 7}) {
    const Recipe recipe = small_recipe(replicas * 17, replicas);
    const auto expected = step_hashes(*make_trainer(recipe, 1), kSteps);
    for (std::int64_t workers = 2; workers <= replicas; ++workers) {
      EXPECT_EQ(step_hashes(*make_trainer(recipe, workers), kSteps), expected)
          << replicas << " replicas, " << workers << " workers";
    }
  }
}

TEST(Placement, several_threads_in_a_worker_give_the_same_hashes) {
  for (const std::int64_t replicas : {1, 4}) {
    const Recipe recipe = small_recipe(64, replicas);
    const auto expected = step_hashes(*make_trainer(recipe, 1), kSteps);
    for (const int threads : {2, 3})
      EXPECT_EQ(step_hashes(*make_trainer(recipe, 1, threads), kSteps), expected);
    if (replicas > 1) {
      EXPECT_EQ(step_hashes(*make_trainer(recipe, 2, 2), kSteps), expected);
    }
  }
}

TEST(Placement, a_loaded_machine_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kSteps);
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    load.emplace_back([&] {
      volatile std::uint64_t counter = 0;
      while (!stop) counter = counter + 1;
    });
  }
  EXPECT_EQ(step_hashes(*make_trainer(recipe, 3), kSteps), expected);
  stop = true;
  for (std::thread& thread : load) thread.join();
}

TEST(Placement, every_vector_target_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(96, 3);
  std::vector<std::vector<std::uint64_t>> hashes;
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    hashes.push_back(step_hashes(*make_trainer(recipe, 2), kSteps));
    EXPECT_EQ(hashes.back(), hashes.front()) << target;
  }
  cpu::set_vector_target(cpu::vector_targets().front());
}

TEST(Placement, the_reference_backend_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(64, 2);
  EXPECT_EQ(step_hashes(*make_trainer(recipe, 2, 1, "reference"), 3),
            step_hashes(*make_trainer(recipe, 1), 3));
}

// G4: every example counts once, in integers, whatever the evaluation batch and the placement.
TEST(Evaluation, any_batch_and_placement_counts_the_same) {
  Recipe recipe = small_recipe(128, 8);
  recipe.evaluation.batch = 100;
  const auto trainer = make_trainer(recipe, 2);
  step_hashes(*trainer, 20);
  const Checkpoint trained = trainer->checkpoint();
  const EvaluationResult expected = trainer->evaluate();
  EXPECT_EQ(expected.examples, small_data().held_out->count);
  EXPECT_GT(expected.correct, expected.examples / 5);
  EXPECT_EQ(expected.confusion.correct(), expected.correct);
  for (const std::int64_t batch : {1, 7, 100, 10000}) {
    for (const std::int64_t workers : {1, 3}) {
      recipe.evaluation.batch = batch;
      const auto other = make_trainer(recipe, workers);
      other->restore(trained);
      const EvaluationResult result = other->evaluate();
      EXPECT_EQ(result.correct, expected.correct) << batch;
      EXPECT_EQ(result.loss, expected.loss) << batch;
      EXPECT_EQ(result.confusion, expected.confusion) << batch;
    }
  }
}

// G2 in one process: a state that went through a checkpoint continues with the same bits under
// another placement.
TEST(Resume, a_restored_run_continues_with_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 2), 2 * kSteps);
  const auto first = make_trainer(recipe, 3);
  step_hashes(*first, kSteps);
  const auto second = make_trainer(recipe, 5);
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, kSteps),
            std::vector(undisturbed.begin() + kSteps, undisturbed.end()));
}

}  // namespace
}  // namespace podium
