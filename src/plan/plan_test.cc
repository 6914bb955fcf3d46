#include <gtest/gtest.h>

#include <cmath>

#include "base/scratch_test_util.h"
#include "data/pictures/image_source.h"
#include "nn/models.h"
#include "plan/input_rate.h"
#include "plan/local_model.h"
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
  const InputRate drawn = measure_input_rate(recipe, stated_shape(recipe));
  EXPECT_CONTAINS(drawn.of, "drawn JPEG of 500 x 375 pixels");
  EXPECT_GT(drawn.examples_per_core, 5);
  const Recipe small = small_recipe();
  const InputRate images = measure_input_rate(small, stated_shape(small));
  EXPECT_GT(images.examples_per_core, drawn.examples_per_core);
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

TEST(LocalModel, products_add_the_time_of_moving_and_others_hide_it) {
  const CoreRoof roof{.flops = 1e9, .near_bytes = 1e9, .far_bytes = 1e8};
  const auto time = [&](const char* operation, double flop, double bytes) {
    return kernel_seconds(operation, flop, bytes, roof) - kernel_seconds(operation, 0, 0, roof);
  };
  for (const char* product : {"conv2d", "conv2d_winograd_grad_weight"})
    EXPECT_NEAR(time(product, 1e9, 1e8), time(product, 1e9, 0) + time(product, 0, 1e8), 1e-12);
  for (const char* other : {"batch_norm", "unheard_of"}) {
    EXPECT_DOUBLE_EQ(time(other, 1e9, 1e7), time(other, 1e9, 0));
    EXPECT_DOUBLE_EQ(time(other, 1e9, 1e9), time(other, 0, 1e9));
  }
  // What does not fit in a near cache comes from memory.
  EXPECT_NEAR(time("conv2d", 0, 1e7) / time("conv2d", 0, 1e6), 100, 1e-6);
  // Wide layers reach more of the roof than narrow ones.
  EXPECT_GT(time("conv2d_winograd", 1e9, 1e8), 1.4 * time("conv2d_winograd", 1e9, 1e7));
}

TEST(LocalModel, a_program_takes_as_long_as_its_kernels_and_workers_share_its_replicas) {
  const CoreRoof roof{.flops = 1e9, .near_bytes = 1e9, .far_bytes = 1e8};
  const std::vector<KernelCost> kernels = {{"conv2d a", 1e9, 0}, {"conv2d", 0, 0}, {"x b", 1e9, 0}};
  EXPECT_NEAR(program_seconds(kernels, roof),
              kernel_seconds("conv2d", 1e9, 0, roof) + kernel_seconds("x", 1e9, 0, roof), 1e-12);
  EXPECT_NEAR(local_step_seconds(1, 0, 8, 2) / local_step_seconds(1, 0, 8, 1), 0.5, 1e-12);
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
