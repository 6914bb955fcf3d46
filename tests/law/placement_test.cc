// G1: the hash of all parameters is equal after every step, whatever the placement.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "backend/cpu/kernels/targets.h"
#include "data/source/own_files.h"
#include "law_util.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

constexpr int kPlacementSteps = 6;

TEST(Placement, any_number_of_workers_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kPlacementSteps);
  for (const std::int64_t workers : {2, 3, 5, 8})
    EXPECT_EQ(step_hashes(*make_trainer(recipe, workers), kPlacementSteps), expected) << workers;
}

// Two workers, as many as replicas, and threads: the hashes of one worker.
void expect_any_placement(const std::function<std::unique_ptr<Trainer>(std::int64_t, int)>& trainer,
                          int steps) {
  const auto expected = step_hashes(*trainer(1, 1), steps);
  EXPECT_NE(expected.front(), expected.back());
  for (const auto& [workers, threads] :
       std::vector<std::pair<std::int64_t, int>>{{2, 1}, {3, 1}, {1, 3}, {2, 2}})
    EXPECT_EQ(step_hashes(*trainer(workers, threads), steps), expected)
        << workers << " workers of " << threads << " threads";
}

struct OptimizerCase {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const OptimizerCase& one, std::ostream* out) { *out << one.name; }

class PlacementOfOptimizers : public testing::TestWithParam<OptimizerCase> {};

TEST_P(PlacementOfOptimizers, any_gives_the_same_hashes) {
  const Recipe recipe = parse_recipe(to_toml(small_recipe(51, 3)), "small", GetParam().overrides);
  expect_any_placement(
      [&](std::int64_t workers, int threads) { return make_trainer(recipe, workers, threads); },
      kPlacementSteps);
}

std::vector<OptimizerCase> optimizer_cases() {
  const std::string kMatrices = R"(optimizer.group.1.parameters=["conv*.weight", "fc*.weight"])";
  const std::string kBiases = R"(optimizer.group.2.parameters=["*.bias"])";
  return {
      {"sgd", {"optimizer.name=sgd", "optimizer.weight_decay=0.01"}},
      {"sgd_with_momentum",
       {"optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true",
        "optimizer.decay=per-replica", "optimizer.weight_decay=0.01"}},
      {"lars",
       {"optimizer.name=lars", "optimizer.momentum=0.9", "optimizer.weight_decay=0.01",
        "schedule.name=polynomial", "schedule.warmup=3"}},
      {"adam", {"optimizer.weight_decay=0.01"}},
      {"adam_bf16", {"precision=bf16"}},
      {"adamw",
       {"optimizer.name=adamw", "optimizer.weight_decay=0.01", "optimizer.decay_all=true",
        "schedule.name=cosine", "schedule.warmup=3"}},
      {"muon",
       {kMatrices, "optimizer.group.1.name=muon", "optimizer.group.1.momentum=0.6",
        "optimizer.group.1.nesterov=true"}},
      {"muon_adamw_and_sgd",
       {kMatrices, "optimizer.group.1.name=muon", kBiases, "optimizer.group.2.name=sgd",
        "optimizer.name=adamw"}},
  };
}
INSTANTIATE_TEST_SUITE_P(Each, PlacementOfOptimizers, testing::ValuesIn(optimizer_cases()),
                         [](const auto& tested) { return tested.param.name; });

// Noise in the shape of a dataset, for tests that need neither its files nor a model that learns.
std::shared_ptr<const ImageSet> random_images(const Recipe& recipe, std::int64_t count) {
  const DataShape shape = stated_shape(recipe);
  auto set = std::make_shared<ImageSet>(image_fields_of(shape.fields));
  set->count = count;
  set->classes = std::max<std::int64_t>(set->classes, 10);
  set->source = "random images";
  std::minstd_rand draw(7);
  for (std::int64_t i = 0; i < count * set->image_bytes(); ++i)
    set->pixels.push_back(static_cast<std::uint8_t>(draw() >> 8));
  for (std::int64_t i = 0; i < count; ++i)
    set->labels.push_back(
        static_cast<std::uint8_t>(static_cast<std::int64_t>(draw()) % set->classes));
  return set;
}

class PlacementOfRecipes : public testing::TestWithParam<std::string> {};

// The network, the optimizers, the schedule and the augmentation of each, on few and small images.
TEST_P(PlacementOfRecipes, any_gives_the_same_hashes_on_random_images) {
  Recipe recipe = read_recipe(find_recipe(GetParam()));
  recipe.batch = 9, recipe.replicas = 3;
  recipe.pictures.size = std::min<std::int64_t>(recipe.pictures.size, 32);
  const auto images = random_images(recipe, 45);
  const auto held_out = random_images(recipe, 10);
  expect_any_placement(
      [&](std::int64_t workers, int threads) {
        return std::make_unique<Trainer>(
            recipe, find_model(recipe.model).build, images, held_out,
            Placement{.workers = workers, .threads = threads, .backend = law_backend()});
      },
      2);
}

// Without those of ResNet-50, whose 26 million parameters take half a minute each: ResNet-18 stands
// for the network, and small networks stand for its optimizers and its frozen layers. Text,
// tables and sentences are in text_test.cc and rows_test.cc.
std::vector<std::string> quick_recipes() {
  std::vector<std::string> names = recipe_names();
  std::erase_if(names, [](const std::string& name) {
    const Recipe recipe = read_recipe(find_recipe(name));
    return own_file(recipe.data) != nullptr || recipe.model.starts_with("resnet50");
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Each, PlacementOfRecipes, testing::ValuesIn(quick_recipes()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Placement, trees_that_are_no_powers_of_two_give_the_same_hashes) {
  for (const std::int64_t replicas : {1, 3, 7}) {
    const Recipe recipe = small_recipe(replicas * 17, replicas);
    const auto expected = step_hashes(*make_trainer(recipe, 1), kPlacementSteps);
    for (std::int64_t workers = 2; workers <= replicas; ++workers) {
      EXPECT_EQ(step_hashes(*make_trainer(recipe, workers), kPlacementSteps), expected)
          << replicas << " replicas, " << workers << " workers";
    }
  }
}

TEST(Placement, several_threads_in_a_worker_give_the_same_hashes) {
  for (const std::int64_t replicas : {1, 4}) {
    const Recipe recipe = small_recipe(64, replicas);
    const auto expected = step_hashes(*make_trainer(recipe, 1), kPlacementSteps);
    for (const int threads : {2, 3})
      EXPECT_EQ(step_hashes(*make_trainer(recipe, 1, threads), kPlacementSteps), expected);
    if (replicas > 1) {
      EXPECT_EQ(step_hashes(*make_trainer(recipe, 2, 2), kPlacementSteps), expected);
    }
  }
}

TEST(Placement, a_loaded_machine_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(128, 8);
  const auto expected = step_hashes(*make_trainer(recipe, 1), kPlacementSteps);
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    load.emplace_back([&] {
      volatile std::uint64_t counter = 0;
      while (!stop) counter = counter + 1;
    });
  }
  EXPECT_EQ(step_hashes(*make_trainer(recipe, 3), kPlacementSteps), expected);
  stop = true;
  for (std::thread& thread : load) thread.join();
}

TEST(Placement, every_vector_target_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(96, 3);
  std::vector<std::vector<std::uint64_t>> hashes;
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    hashes.push_back(step_hashes(*make_trainer(recipe, 2), kPlacementSteps));
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
  EXPECT_EQ(expected.sums.examples, small_data().held_out->examples());
  EXPECT_GT(expected.sums.count(kCorrectCount), expected.sums.examples / 5);
  EXPECT_EQ(expected.confusion.correct(), expected.sums.count(kCorrectCount));
  for (const std::int64_t batch : {1, 7, 100, 10000}) {
    for (const std::int64_t workers : {1, 3}) {
      recipe.evaluation.batch = batch;
      const auto other = make_trainer(recipe, workers);
      other->restore(trained);
      const EvaluationResult result = other->evaluate();
      EXPECT_EQ(result.sums.count(kCorrectCount), expected.sums.count(kCorrectCount)) << batch;
      EXPECT_EQ(result.sums.loss, expected.sums.loss) << batch;
      EXPECT_EQ(result.confusion, expected.confusion) << batch;
    }
  }
}

// G2 in one process: a state that went through a checkpoint continues with the same bits under
// another placement.
TEST(Resume, a_restored_run_continues_with_the_same_hashes) {
  // As few steps as a device needs that launches, records and then plays them.
  constexpr int kBefore = 3, kAfter = 3;
  const Recipe recipe = small_recipe(30, 5);
  const auto undisturbed = step_hashes(*make_trainer(recipe, 2), kBefore + kAfter);
  const auto first = make_trainer(recipe, 3);
  step_hashes(*first, kBefore);
  const auto second = make_trainer(recipe, 5);
  second->restore(first->checkpoint());
  EXPECT_EQ(step_hashes(*second, kAfter),
            std::vector(undisturbed.begin() + kBefore, undisturbed.end()));
}

// All replicas in one program, which measures the norm and is told whether to scale.
TEST(Placement, a_gpu_takes_steps_with_a_limited_norm_whole) {
  constexpr int kSteps = 4;
  register_cuda_emulated_backend();
  for (const float limit : {0.5f, 1e6f}) {
    Recipe recipe = small_recipe(16, 4);
    recipe.clip_norm = limit;
    const auto expected = step_hashes(*make_trainer(recipe, 1, 1, "cpu"), kSteps);
    EXPECT_NE(expected.front(), expected.back());
    Trace trace;
    const RunData& data = small_data();
    Trainer trainer(recipe, find_model(recipe.model).build, data.train, data.held_out,
                    Placement{.workers = 1, .backend = "cuda-emulated", .trace = &trace});
    EXPECT_EQ(step_hashes(trainer, kSteps), expected) << limit;
    EXPECT_NE(trace.events(0, "").find("whole step"), std::string::npos);
  }
}

}  // namespace
}  // namespace podium
