// The seam's promise: an executable allocates nothing when it runs.
#include <gtest/gtest.h>

#include "backend/operation_case.h"
#include "carried_test_util.h"
#include "count_allocations.h"
#include "law_util.h"
#include "nn/models.h"
#include "program_util.h"
#include "train/program/program.h"
#include "train/recipe/recipe.h"

namespace podium {
namespace {

// Of the second run and the third. The first may come upon something that is made once.
std::int64_t allocations_of_a_run(const Graph& graph, int threads, const CompileOptions& options) {
  const auto device = make_device("cpu", {.threads = threads});
  LoadedProgram program(*device, graph, values_for(graph), options);
  program.run();
  const std::int64_t before = allocations();
  program.run();
  program.run();
  return allocations() - before;
}

TEST(Allocations, are_counted) {
  const std::int64_t before = allocations();
  const std::vector<int> some(10);
  EXPECT_EQ(allocations() - before, 1);
}

std::vector<Field> fields_of(const Recipe& recipe) {
  if (!has_text(recipe))
    return recipe.data == "mnist" ? image_fields(1, 28, 28, 10) : image_fields(3, 32, 32, 10);
  const Field tokens{.name = "tokens", .dtype = DType::kI32, .shape = {19}, .below = 65};
  Field next = tokens;
  next.name = "next", next.target = true;
  return {tokens, next};
}

// Of every published recipe: what a replica computes in a step, the update and evaluation.
TEST(Allocations, there_are_none_when_a_program_runs) {
  for (const char* name : {"mnist", "cifar10-resnet32", "cifar10-davidnet", "cifar10-sprint",
                           "shakespeare-char-small", "llama-small", "ptb-lstm"}) {
    const Recipe recipe = read_recipe(find_recipe(name), {});
    const Model model = model_of(recipe);
    const BatchInputs inputs{
        .fields = fields_of(recipe), .rows = 17, .label_smoothing = recipe.label_smoothing};
    const ReplicaProgram step =
        build_replica_program(model, inputs, 3, 17 * recipe.replicas, false, Optimizers(recipe));
    const Graph evaluation = build_evaluation_program(model, inputs);
    const Graph update =
        build_update_program(step.layout, Optimizers(recipe), recipe.replicas, 0, step.layout.bytes)
            .graph;
    for (const bool fuse : {true, false}) {
      const int threads = fuse ? 3 : 1;
      const CompileOptions options{.fuse = fuse};
      const auto where = [&](const char* program) {
        return cat(name, ", ", program, ", threads ", threads, ", fuse ", fuse);
      };
      EXPECT_EQ(allocations_of_a_run(step.graph, threads, options), 0) << where("step");
      EXPECT_EQ(allocations_of_a_run(evaluation, threads, options), 0) << where("evaluation");
      EXPECT_EQ(allocations_of_a_run(update, threads, options), 0) << where("update");
    }
  }
}

// A step of training as a whole may allocate a little, as the schedule's list of scalars, but
// nothing for each example.
TEST(Allocations, of_a_step_do_not_grow_with_the_batch) {
  const auto of_a_step = [](std::int64_t batch) {
    const auto trainer = make_trainer(small_recipe(batch, 4), 2);
    step_hashes(*trainer, 2);
    const std::int64_t before = allocations();
    trainer->step({.hash = true});
    return allocations() - before;
  };
  const std::int64_t small = of_a_step(16);
  EXPECT_LE(small, 20);
  EXPECT_EQ(of_a_step(256), small);
}

// Nor for what is carried.
TEST(Allocations, of_a_step_that_carries_values_do_not_grow_with_the_batch) {
  const auto of_a_step = [](std::int64_t batch) {
    Recipe recipe = leaky_recipe();
    recipe.batch = batch;
    const auto trainer = leaky_trainer(recipe);
    step_hashes(*trainer, 2);
    const std::int64_t before = allocations();
    trainer->step({.hash = true});
    return allocations() - before;
  };
  const std::int64_t small = of_a_step(16);
  EXPECT_LE(small, 20);
  EXPECT_EQ(of_a_step(160), small);
}

}  // namespace
}  // namespace podium
