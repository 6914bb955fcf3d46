#include <gtest/gtest.h>

#include <cmath>

#include "base/scratch_test_util.h"
#include "data/pictures/image_source.h"
#include "nn/models.h"
#include "plan/measured.h"
#include "plan/run_plan.h"
#include "plan/step_model.h"

namespace podium {
namespace {

Recipe small_recipe() {
  return parse_recipe(
      "model = \"resnet32\"\ndata = \"cifar10\"\nbatch = 512\nreplicas = 8\nepochs = 10\n"
      "[optimizer]\nname = \"sgd\"\nlearning_rate = 0.1\nmomentum = 0.9\n",
      "r");
}

struct Question {
  Recipe recipe = small_recipe();
  ProgramWork work = work_of(recipe, find_model(recipe.model).build, image_fields(3, 32, 32, 10));
  std::vector<DeviceSpec> devices = known_devices();
  PlanQuestion question;

  explicit Question(const std::string& device = "v100", const std::string& precision = "fp16") {
    question.recipe = &recipe;
    question.work = &work;
    question.device = &find_device(device, devices);
    question.precision = precision;
    question.devices = {1, 2, 4, 8};
    question.activation_bytes = 1e8;
    question.test_examples = 10000;
  }
};

TEST(StepModel, work_grows_with_images_and_weights_do_not) {
  const Question q;
  double flops = 0, fixed = 0;
  for (const OpWork& op : q.work.ops) {
    flops += op.flops;
    fixed += op.fixed_bytes;
    EXPECT_GE(op.bytes, 0) << op.name;
  }
  // A forward pass has 69 M multiply-adds (He et al. 2015); training three times that.
  EXPECT_NEAR(flops / 1e6, 6 * 69, 10);
  EXPECT_GT(q.work.parameter_values, 4.5e5);
  // Each weight is read twice, and its gradient written once.
  EXPECT_NEAR(fixed, 3 * 4 * q.work.parameter_values, 4 * q.work.parameter_values);
  EXPECT_EQ(q.work.optimizer_states, 1u);
}

TEST(StepModel, a_device_that_is_better_in_all_is_never_slower) {
  const Question q;
  DeviceSpec better = *q.question.device;
  for (auto& [precision, value] : better.flops) value *= 2;
  better.bandwidth *= 2, better.node_link *= 2, better.network_link *= 2, better.latency /= 2;
  for (const std::int64_t n : {1, 8, 64, 4096}) {
    const auto time = [&](const DeviceSpec& device) {
      return step_time(q.work, device, "fp16", n, 1, 64, Efficiency{}).total();
    };
    EXPECT_LT(time(better), time(*q.question.device)) << n;
  }
}

TEST(StepModel, the_exchange_of_one_device_is_nothing_and_grows_between_nodes) {
  const Question q;
  const auto exchange = [&](std::int64_t n) {
    return step_time(q.work, *q.question.device, "fp16", n, 1, 64, Efficiency{}).exchange;
  };
  EXPECT_EQ(exchange(1), 0);
  EXPECT_GT(exchange(8), 0);
  EXPECT_GT(exchange(16), exchange(8));
}

TEST(RunPlan, beyond_the_replicas_the_recipe_is_another_one) {
  Question q;
  q.question.devices = {8, 16};
  q.question.critical_batch = 1024;
  const RunPlan plan = plan_run(q.question);
  EXPECT_TRUE(plan.rows[0].same_recipe);
  EXPECT_DOUBLE_EQ(plan.rows[0].epochs, 10);
  EXPECT_FALSE(plan.rows[1].same_recipe);
  EXPECT_EQ(plan.rows[1].batch, 1024);
  EXPECT_NEAR(plan.rows[1].epochs, 10 * 2 / 1.5, 1e-9);
  q.question.critical_batch = 0;
  EXPECT_TRUE(std::isnan(plan_run(q.question).rows[1].seconds));
}

TEST(RunPlan, fewer_workers_than_replicas_take_turns) {
  Question q;
  q.question.devices = {1, 3, 4};
  const RunPlan plan = plan_run(q.question);
  // Three devices: one has three of eight replicas.
  EXPECT_NEAR(plan.rows[1].step.compute / plan.rows[0].step.compute, 3.0 / 8, 1e-9);
  EXPECT_NEAR(plan.rows[2].step.compute / plan.rows[0].step.compute, 2.0 / 8, 1e-9);
}

TEST(RunPlan, the_cheapest_and_the_fastest_keep_deadline_and_budget) {
  Question q;
  q.question.price = choose_price("aws/p3.2xlarge@2018", known_prices());
  const RunPlan free = plan_run(q.question);
  ASSERT_TRUE(free.cheapest && free.fastest);
  EXPECT_EQ(*free.cheapest, 0u);
  EXPECT_EQ(*free.fastest, 3u);
  EXPECT_NEAR(free.rows[3].usd, 8 * 3.06 * free.rows[3].seconds / 3600, 1e-9);
  EXPECT_LT(free.rows[0].usd_low, free.rows[0].usd);
  q.question.deadline = free.rows[2].seconds * 1.001;
  EXPECT_EQ(*plan_run(q.question).cheapest, 2u);
  q.question.budget = free.rows[0].usd / 2;
  const RunPlan none = plan_run(q.question);
  EXPECT_FALSE(none.cheapest || none.fastest);
  EXPECT_CONTAINS(none.nearest, "no number of devices meets that; the nearest is");
}

TEST(RunPlan, what_does_not_fit_in_memory_meets_nothing) {
  Question q;
  q.question.activation_bytes = 1e12;
  const RunPlan plan = plan_run(q.question);
  EXPECT_FALSE(plan.rows[0].fits);
  EXPECT_FALSE(plan.fastest.has_value());
  EXPECT_CONTAINS(plan.nearest, "no number of devices fits");
}

TEST(RunPlan, a_time_that_is_not_known_is_no_lack_of_memory) {
  Question q;
  q.question.devices = {16};
  q.question.deadline = 1;
  EXPECT_CONTAINS(plan_run(q.question).nearest, "the time is not known");
  q.question.devices = {1};
  EXPECT_CONTAINS(plan_run(q.question).nearest, "the nearest is 1 device with");
}

TEST(RunPlan, a_host_that_is_too_slow_for_its_devices_is_pointed_out) {
  Question q;
  DeviceSpec device = *q.question.device;
  device.host_cores = 2;
  q.question.device = &device;
  const double rate = plan_run(q.question).rows[0].items_per_second;
  q.question.examples_per_core = rate / 8;
  const PlanRow slow = plan_run(q.question).rows[0];
  EXPECT_NEAR(slow.input_cores, 8, 1e-6);
  EXPECT_TRUE(slow.waits_for_input);
  EXPECT_DOUBLE_EQ(slow.items_per_second, rate) << "the rate is that of another machine's core";
  q.question.examples_per_core = rate;
  EXPECT_FALSE(plan_run(q.question).rows[0].waits_for_input);
  device.host_cores = 0;
  q.question.examples_per_core = 1;
  EXPECT_FALSE(plan_run(q.question).rows[0].waits_for_input) << "nobody knows";
}

TEST(RunPlan, memory_is_the_sum_of_its_parts_or_what_is_measured) {
  Question q;
  const PlanRow row = plan_run(q.question).rows[1];
  double sum = 0;
  for (const auto& [what, bytes] : row.memory) sum += bytes;
  EXPECT_DOUBLE_EQ(row.memory_bytes, sum);
  EXPECT_DOUBLE_EQ(sum, 4 * q.work.parameter_values * 3.5 + 1e8 / 2);  // half of the momentum
  q.question.measured_memory = [](std::int64_t workers) {
    return MemoryParts{{"program", 10}, {"batches", 2.0 * static_cast<double>(workers)}};
  };
  EXPECT_DOUBLE_EQ(plan_run(q.question).rows[1].memory_bytes, 14);
}

TEST(InputRate, a_core_decodes_a_drawn_photograph_where_there_are_none) {
  const Recipe recipe = read_recipe(find_recipe("imagenet-resnet50"), {"data.path=not-here"});
  const MeasuredData drawn = data_to_measure(recipe, stated_shape(recipe));
  EXPECT_CONTAINS(drawn.of, "drawn JPEG of 500 x 375 pixels");
  const double photographs = examples_per_core(drawn, recipe);
  EXPECT_GT(photographs, 5);
  const Recipe small = small_recipe();
  EXPECT_GT(examples_per_core(data_to_measure(small, stated_shape(small)), small), photographs);
}

TEST(Measured, a_step_of_twice_the_work_takes_longer) {
  const auto seconds = [](const std::vector<std::string>& overrides) {
    const Recipe recipe = read_recipe(find_recipe("mnist"), overrides);
    return step_seconds_here(data_to_measure(recipe, stated_shape(recipe)), recipe, 1);
  };
  EXPECT_GT(seconds({"batch=512"}), seconds({"batch=64"}));
}

TEST(RunPlan, where_it_is_measured_a_step_is_not_made_that_does_not_fit) {
  Question q;
  q.question.devices = {1, 2};
  q.question.measured = [](std::int64_t workers) {
    EXPECT_EQ(workers, 1);
    return 0.25;
  };
  q.question.measured_memory = [&](std::int64_t workers) {
    return MemoryParts{{"all", workers == 1 ? 1 : 2 * q.question.device->memory_bytes}};
  };
  const RunPlan plan = plan_run(q.question);
  EXPECT_DOUBLE_EQ(plan.rows[0].steps_per_second, 4);
  EXPECT_FALSE(plan.rows[1].fits);
  EXPECT_TRUE(std::isfinite(plan.rows[1].seconds));
}

TEST(RunPlan, scaling_bends_where_operations_are_short_or_the_exchange_is_long) {
  Question q;
  q.question.devices = {1, 8, 64, 512, 4096};
  EXPECT_CONTAINS(plan_run(q.question).bend, "scaling falls below 80%");
}

TEST(RunPlan, durations_are_read_with_their_units) {
  EXPECT_DOUBLE_EQ(parse_duration("90m"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("1.5h"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("30"), 30);
  for (const char* wrong : {"", "h", "-1h", "0", "2 weeks", "inf"})
    EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { parse_duration(wrong); }), "is not a time");
}

// ResNet-32 for CIFAR-10 (He et al. 2015) has 69 million multiply-adds in its forward pass.
TEST(Plan, flops_are_those_of_papers_whatever_algorithm_was_chosen) {
  const Graph forward = build_evaluation_program(
      find_model("resnet32").build, {.fields = image_fields(3, 32, 32, 10), .rows = 1});
  EXPECT_NEAR(direct_flops(forward), 2 * 69e6, 3e6);
  const ReplicaProgram step =
      build_replica_program(find_model("resnet32").build,
                            {.fields = image_fields(3, 32, 32, 10), .rows = 64}, 0, 64, false);
  // Forward, and twice that backward, but for the images' gradient.
  EXPECT_NEAR(direct_flops(step.graph), 3 * 64 * 2 * 69e6, 64 * 2 * 5e6);
}

}  // namespace
}  // namespace podium
