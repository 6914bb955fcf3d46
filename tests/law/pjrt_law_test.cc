// The law on devices of a PJRT plugin, which are a kind of their own: the same hashes for any
// number of its devices, and for a run that goes on on another number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "backend/pjrt/cpu_plugin_test_util.h"
#include "backend/pjrt/pjrt_device.h"
#include "base/scratch_test_util.h"
#include "base/trace.h"
#include "data/datasets/dataset.h"
#include "law_util.h"
#include "train/loop/checkpoint.h"
#include "train/machine/memory.h"
#include "train/run/rank_plan.h"

namespace podium {
namespace {

constexpr int kSteps = 3;

class PjrtLaw : public testing::Test {
 protected:
  // Trainers of one test share what they compile.
  void SetUp() override {
    setenv("PODIUM_PJRT_CACHE", programs_.path().c_str(), 1);
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  }

 private:
  TestFolder programs_;
};

// With all kinds of memory that a step has, and compiled in a fraction of the time of mnist's: for
// tests of many programs.
Value light_model(Network& net, Value x, std::int64_t classes) {
  x = net.conv2d("conv1", x, {.channels = 6, .kernel = 3, .stride = 2});
  x = net.flatten(net.relu(net.batch_norm("bn1", x)));
  return net.dense("fc1", net.dropout("dropout", x, 0.5f), {.units = classes});
}

std::unique_ptr<Trainer> on_devices(const Recipe& recipe, int devices, std::int64_t workers,
                                    const Model& model = light_model) {
  setenv("PODIUM_PJRT_OPTIONS", cat("cpu_device_count=", devices).c_str(), 1);
  const RunData& data = small_data();
  return std::make_unique<Trainer>(recipe, model, data.train, data.held_out,
                                   Placement{.workers = workers, .backend = "pjrt"});
}

// Whether a trainer's steps are programs that run on all its devices at once.
bool makes_whole_steps(const Recipe& recipe, std::int64_t workers) {
  Trace trace;
  const RunData& data = small_data();
  Trainer trainer(recipe, light_model, data.train, data.held_out,
                  Placement{.workers = workers, .backend = "pjrt", .trace = &trace});
  trainer.step();
  return trace.events(0, "").find("whole step") != std::string::npos;
}

// Of gradients that are clipped, for which all devices need the norm of all.
TEST_F(PjrtLaw, any_number_of_devices_gives_the_same_hashes) {
  Recipe recipe = small_recipe(64, 8);
  recipe.clip_norm = 0.5f;
  const auto one = on_devices(recipe, 1, 1);
  auto expected = step_hashes(*one, kSteps);
  EXPECT_NE(expected.front(), expected.back());
  const Checkpoint checkpoint = one->checkpoint();
  expected.push_back(step_hashes(*one, 1).front());
  for (const int devices : {2, 4, 8}) {
    const auto several = on_devices(recipe, devices, devices);
    EXPECT_EQ(step_hashes(*several, kSteps + 1), expected) << devices;
    // What each device has of the optimizer's state comes together in a checkpoint.
    const Checkpoint theirs = several->checkpoint();
    several->restore(checkpoint);
    EXPECT_EQ(step_hashes(*several, 1).front(), expected.back()) << devices << ", resumed";
    one->restore(theirs);
    several->restore(theirs);
    EXPECT_EQ(step_hashes(*several, 1), step_hashes(*one, 1)) << devices;
  }
  EXPECT_EQ(step_hashes(*on_devices(recipe, 1, 3), kSteps + 1), expected)
      << "3 workers of one device";
}

// Devices with three replicas each send three sums, with two each their sum. Four workers of six
// replicas have unequal numbers of them, and make their steps in many programs.
TEST_F(PjrtLaw, any_division_of_replicas_gives_the_same_hashes) {
  const Recipe recipe = small_recipe(48, 6);
  const auto expected = step_hashes(*on_devices(recipe, 4, 4), kSteps);
  for (const std::int64_t workers : {2, 3})
    EXPECT_EQ(step_hashes(*on_devices(recipe, 4, workers), kSteps), expected) << workers;
  EXPECT_TRUE(makes_whole_steps(recipe, 3));
  EXPECT_FALSE(makes_whole_steps(recipe, 4));
}

// How many of them begin only when the one before has its gradients.
std::int64_t replicas_in_turn(const Recipe& recipe, int devices) {
  std::istringstream text(whole_step_text(recipe, light_model, stated_shape(recipe),
                                          Placement{.workers = devices, .backend = "pjrt"},
                                          make_absent_pjrt_device({}, devices)));
  std::int64_t count = 0;
  for (std::string line; std::getline(text, line);)
    count += line.find("optimization_barrier") != std::string::npos ? 1 : 0;
  return count;
}

TEST_F(PjrtLaw, replicas_in_turn_have_the_bits_of_replicas_side_by_side) {
  const Recipe recipe = small_recipe(64, 8);
  const auto expected = step_hashes(*on_devices(recipe, 1, 1), kSteps);
  setenv("PODIUM_PJRT_REPLICAS", "in-turn", 1);
  for (const int devices : {1, 2})
    EXPECT_EQ(step_hashes(*on_devices(recipe, devices, devices), kSteps), expected) << devices;
  EXPECT_EQ(replicas_in_turn(recipe, 1), 7);
  EXPECT_EQ(replicas_in_turn(recipe, 2), 3);
  setenv("PODIUM_PJRT_REPLICAS", "side-by-side", 1);
  EXPECT_EQ(replicas_in_turn(recipe, 1), 0);
  unsetenv("PODIUM_PJRT_REPLICAS");
  EXPECT_EQ(replicas_in_turn(recipe, 1), 7) << "of devices that are not XLA's CPU";
}

TEST_F(PjrtLaw, the_memory_of_a_step_is_that_of_the_compiled_program) {
  const auto trainer = on_devices(small_recipe(64, 8), 2, 2);
  const MemoryUse planned = trainer->memory_use();
  compile_within_memory(*trainer, 0);
  const MemoryUse compiled = trainer->memory_use();
  EXPECT_NE(compiled.training_activations, planned.training_activations);
  EXPECT_GT(compiled.training_activations, 2 * trainer->layout().bytes) << "gradients at least";
  EXPECT_EQ(compiled.gradients, 0);
  compile_within_memory(*trainer, compiled.total());
  try {
    compile_within_memory(*trainer, compiled.total() - 1);
    ADD_FAILURE() << "a step that takes more than the limit was accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    EXPECT_NE(std::string(error.what()).find("try replicas=16"), std::string::npos) << error.what();
  }
  trainer->step();
  EXPECT_EQ(trainer->memory_use(), compiled);
}

// A step is one program of the plugin; one in two halves is many.
std::vector<std::uint64_t> hashes_in_halves(Trainer& trainer, int steps) {
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < steps; ++i) {
    trainer.compute_gradients();
    hashes.push_back(trainer.apply_update({.hash = true}).hash);
  }
  return hashes;
}

TEST_F(PjrtLaw, a_step_as_one_program_has_the_bits_of_its_parts) {
  for (const int workers : {1, 3}) {
    const Recipe recipe = small_recipe(48, 3);
    const Model model = find_model(recipe.model).build;
    const auto whole = on_devices(recipe, 3, workers, model),
               parts = on_devices(recipe, 3, workers, model);
    EXPECT_EQ(step_hashes(*whole, kSteps), hashes_in_halves(*parts, kSteps)) << workers;
    // One after the other, in one trainer.
    const StepResult a = whole->step({.hash = true});
    parts->compute_gradients();
    const StepResult b = parts->apply_update({.hash = true});
    EXPECT_EQ(a.sums.loss, b.sums.loss);
    EXPECT_EQ(a.sums.count(kCorrectCount), b.sums.count(kCorrectCount));
    EXPECT_EQ(step_hashes(*parts, 2), hashes_in_halves(*whole, 2)) << workers;
    const EvaluationResult ours = whole->evaluate(), theirs = parts->evaluate();
    EXPECT_EQ(ours.sums.loss, theirs.sums.loss);
    EXPECT_EQ(ours.sums.count(kCorrectCount), theirs.sums.count(kCorrectCount));
    EXPECT_EQ(step_hashes(*whole, 1), step_hashes(*parts, 1)) << "after an evaluation";
  }
}

// Of two workers: many programs on one device, one on two.
void expect_equal_steps(const Recipe& recipe, const Model& model) {
  EXPECT_EQ(step_hashes(*on_devices(recipe, 2, 2, model), kSteps),
            step_hashes(*on_devices(recipe, 1, 2, model), kSteps));
}

TEST_F(PjrtLaw, a_cifar_network_has_the_same_bits_as_one_program) {
  const Recipe recipe = parse_recipe(to_toml(small_recipe(2, 2)), "small",
                                     {"model=davidnet", "optimizer.name=sgd",
                                      "optimizer.momentum=0.9", "optimizer.weight_decay=0.0005"});
  expect_equal_steps(recipe, find_model(recipe.model).build);
}

TEST_F(PjrtLaw, a_matrix_optimizer_has_the_same_bits_as_one_program) {
  const Recipe recipe =
      parse_recipe(to_toml(small_recipe(32, 2)), "small",
                   {R"(optimizer.group.1.parameters=["conv*.weight", "fc*.weight"])",
                    "optimizer.group.1.name=muon"});
  expect_equal_steps(recipe, light_model);
}

TEST_F(PjrtLaw, batches_made_ahead_and_steps_made_again_have_the_same_hashes) {
  const Recipe recipe = small_recipe(32, 2);
  const auto expected = step_hashes(*on_devices(recipe, 2, 1), 5);
  Trace trace;
  const RunData& data = small_data();
  Trainer trainer(recipe, light_model, data.train, data.held_out,
                  Placement{.workers = 2, .input_threads = 2, .backend = "pjrt", .trace = &trace});
  const Checkpoint start = trainer.checkpoint();
  EXPECT_EQ(step_hashes(trainer, 3), std::vector(expected.begin(), expected.begin() + 3));
  const Checkpoint middle = trainer.checkpoint();
  trainer.restore(start);
  EXPECT_EQ(step_hashes(trainer, 2), std::vector(expected.begin(), expected.begin() + 2));
  trainer.restore(middle);
  EXPECT_EQ(step_hashes(trainer, 2), std::vector(expected.begin() + 3, expected.end()));
  EXPECT_NE(trace.events(0, "").find("whole step"), std::string::npos);
  EXPECT_EQ(trace.events(0, "").find("update bucket"), std::string::npos);
}

TEST_F(PjrtLaw, clipped_gradients_have_the_same_norm_and_bits_in_one_program) {
  Recipe recipe = small_recipe(48, 2);
  recipe.clip_norm = 0.5f;
  const auto whole = on_devices(recipe, 2, 2), parts = on_devices(recipe, 2, 2);
  for (int i = 0; i < 2; ++i) {
    const StepResult step = whole->step({.hash = true});
    EXPECT_GT(step.gradient_norm, recipe.clip_norm) << "nothing was clipped";
    parts->compute_gradients();
    const StepResult expected = parts->apply_update({.hash = true});
    EXPECT_EQ(step.gradient_norm, expected.gradient_norm);
    EXPECT_EQ(step.hash, expected.hash);
  }
  EXPECT_EQ(whole->parameter_hash(), parts->parameter_hash());
  EXPECT_TRUE(makes_whole_steps(recipe, 2));
}

TEST_F(PjrtLaw, clipped_gradients_and_matrix_optimizers_give_the_same_hashes) {
  Recipe recipe = parse_recipe(to_toml(small_recipe(51, 3)), "small",
                               {R"(optimizer.group.1.parameters=["conv*.weight", "fc*.weight"])",
                                "optimizer.group.1.name=muon", "optimizer.clip_norm=0.5"});
  const auto expected = step_hashes(*on_devices(recipe, 1, 1), kSteps);
  EXPECT_EQ(step_hashes(*on_devices(recipe, 3, 3), kSteps), expected);
}

TEST_F(PjrtLaw, a_norm_within_its_limit_changes_nothing) {
  Recipe recipe = small_recipe(48, 2);
  const auto expected = step_hashes(*on_devices(recipe, 1, 1), 2);
  recipe.clip_norm = 1e6f;
  EXPECT_EQ(step_hashes(*on_devices(recipe, 1, 1), 2), expected);
}

TEST_F(PjrtLaw, a_norm_that_is_not_finite_is_divergence_and_updates_nothing) {
  Recipe recipe = small_recipe(48, 2);
  recipe.clip_norm = 1;
  const auto whole = on_devices(recipe, 2, 2), parts = on_devices(recipe, 1, 2);
  for (Trainer* const trainer : {whole.get(), parts.get()})
    for (const TensorSpan& parameter : trainer->parameters())
      if (parameter.name == "fc1.weight") parameter.values[0] = 1e25f;
  const std::uint64_t before = whole->parameter_hash();
  const StepResult result = whole->step({.throw_on_divergence = false}),
                   expected = parts->step({.throw_on_divergence = false});
  EXPECT_TRUE(std::isfinite(result.sums.loss)) << result.sums.loss;
  EXPECT_EQ(result.sums.loss, expected.sums.loss);
  EXPECT_FALSE(std::isfinite(result.gradient_norm)) << result.gradient_norm;
  EXPECT_EQ(result.non_finite, expected.non_finite);
  EXPECT_NE(result.non_finite, "");
  EXPECT_EQ(whole->parameter_hash(), before);
  EXPECT_EQ(whole->steps_done(), 0);
}

TEST_F(PjrtLaw, a_loss_that_is_not_finite_is_traced_to_its_operation) {
  const Recipe recipe = small_recipe(64, 2);
  const auto trainer = on_devices(recipe, 2, 2);
  trainer->step();
  for (const TensorSpan& parameter : trainer->parameters())
    if (parameter.name == "conv1.weight") std::ranges::fill(parameter.values, 1e38f);
  const std::uint64_t before = trainer->parameter_hash();
  const StepResult result = trainer->step({.throw_on_divergence = false});
  EXPECT_NE(result.non_finite.find("conv1"), std::string::npos) << result.non_finite;
  EXPECT_EQ(trainer->parameter_hash(), before) << "a refused step has changed parameters";
}

// Compilers may change how they add up, and what a collective does to the bits of floats.
TEST_F(PjrtLaw, collectives_of_a_step_carry_integers_and_add_nothing) {
  const Recipe recipe = small_recipe(48, 6);
  const std::string text =
      whole_step_text(recipe, light_model, stated_shape(recipe),
                      Placement{.workers = 2, .backend = "pjrt"}, make_absent_pjrt_device({}, 2));
  std::istringstream lines(text);
  std::string collectives;
  for (std::string line; std::getline(lines, line);) {
    const bool is_one = line.find("replica_groups") != std::string::npos;
    if (is_one) collectives += line.find("xui32>) -> tensor<") == std::string::npos ? "float " : "";
    if (is_one) collectives += line.substr(line.find('"'), line.find('(') - line.find('"')) + " ";
  }
  EXPECT_EQ(collectives, "\"stablehlo.all_to_all\" \"stablehlo.all_gather\" ");
}

TEST_F(PjrtLaw, without_a_number_of_workers_there_are_as_many_as_devices) {
  EXPECT_EQ(on_devices(small_recipe(64, 8), 3, 0)->placement().workers, 3);
  EXPECT_EQ(on_devices(small_recipe(64, 2), 3, 0)->placement().workers, 2);
}

}  // namespace
}  // namespace podium
