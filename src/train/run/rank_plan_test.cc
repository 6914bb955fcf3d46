#include "train/run/rank_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

#include "base/numerics/philox.h"
#include "base/scratch_test_util.h"
#include "data/source/prefetch.h"
#include "nn/models.h"
#include "parallel/local_transport.h"
#include "train/run/run.h"

namespace podium {
namespace {

// What the devices of all ranks have given.
std::atomic<std::int64_t> given_bytes;

// The device that it has, which counts.
class CountingDevice : public Device {
 public:
  explicit CountingDevice(const DeviceOptions& options)
      : Device(options), device_(make_device("cpu", options)) {}
  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    given_bytes += bytes;
    return device_->allocate(bytes);
  }
  std::unique_ptr<Buffer> adopt(void* memory, std::int64_t bytes) override {
    return device_->adopt(memory, bytes);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) override {
    auto executable = device_->compile(graph, options);
    given_bytes += executable->plan().arena_bytes;
    return executable;
  }
  Plan plan(const Graph& graph, const CompileOptions& options) override {
    return device_->plan(graph, options);
  }
  void upload(View to, const void* from) override { device_->upload(to, from); }
  void download(void* to, View from) override { device_->download(to, from); }
  void copy(View to, View from) override { device_->copy(to, from); }
  void accumulate(View sum, View addend, int worker) override {
    device_->accumulate(sum, addend, worker);
  }
  void synchronise() override { device_->synchronise(); }
  bool idle(int worker) override { return device_->idle(worker); }

 private:
  const std::unique_ptr<Device> device_;
};

std::shared_ptr<const ImageSet> drawn_set(const DataShape& shape, std::int64_t count) {
  auto set = std::make_shared<ImageSet>(image_fields_of(shape.fields));
  set->count = count, set->source = "drawn";
  const PhiloxStream words(9, RandomPurpose::kInitialise, 0);
  for (std::int64_t i = 0; i < count * set->image_bytes(); ++i)
    set->pixels.push_back(static_cast<std::uint8_t>(words.word(static_cast<std::uint32_t>(i))));
  for (std::int64_t i = 0; i < count; ++i)
    set->labels.push_back(static_cast<std::uint8_t>(i % set->classes));
  return set;
}

struct Case {
  const char* name;
  std::vector<int> workers;  // of each rank
  int threads = 1, input_threads = 0;
};

std::vector<Case> cases() {
  return {{"one_worker", {1}},   {"two_threads", {1}, 2},
          {"two_workers", {2}},  {"batches_made_ahead", {2}, 1, 2},
          {"two_ranks", {1, 1}}, {"uneven_ranks", {2, 1, 1}, 1, 1}};
}

// Makes the trainer of each rank, on a thread of its own.
void on_ranks(const std::function<void(Transport*, int)>& work, std::size_t count) {
  LocalRanks ranks(static_cast<int>(count));
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        LocalTransport transport(ranks, static_cast<int>(rank));
        work(count == 1 ? nullptr : &transport, static_cast<int>(rank));
        transport.leave();
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void expect_planned_memory(const Recipe& recipe, const RunData& data, bool steps) {
  register_backend("counting", [](const DeviceOptions& options) -> std::unique_ptr<Device> {
    return std::make_unique<CountingDevice>(options);
  });
  const Model model = model_of(recipe);
  const DataShape shape = shape_of(*data.train, *data.held_out);
  for (const Case& c : cases()) {
    std::int64_t all_workers = 0;
    for (const int workers : c.workers) all_workers += workers;
    if (all_workers > recipe.replicas) continue;
    SCOPED_TRACE(cat(recipe.name, ", ", c.name));
    given_bytes = 0;
    std::vector<MemoryUse> uses(c.workers.size());
    on_ranks(
        [&](Transport* transport, int rank) {
          const auto r = static_cast<std::size_t>(rank);
          Trainer trainer(recipe, model, data.train, data.held_out,
                          {.workers = c.workers[r],
                           .threads = c.threads,
                           .input_threads = c.input_threads,
                           .backend = "counting",
                           .ranks = transport});
          if (steps) {
            trainer.step({.hash = true});
            trainer.evaluate();
            trainer.step();
          }
          uses[r] = trainer.memory_use();
        },
        c.workers.size());
    std::int64_t of_device = 0;
    for (std::size_t rank = 0; rank < c.workers.size(); ++rank) {
      const RankPlan plan =
          plan_rank(recipe, model, shape, {.threads = c.threads, .input_threads = c.input_threads},
                    c.workers, static_cast<int>(rank));
      for (const MemoryKind& kind : kMemoryKinds)
        EXPECT_EQ(plan.memory().*kind.bytes, uses[rank].*kind.bytes)
            << kind.name << " of rank " << rank;
      const std::int64_t replicas =
          plan.workers.back().replicas.end - plan.workers.front().replicas.begin;
      // Batches made ahead, which lie in memory of the host.
      const std::int64_t examples = replicas * recipe.batch / recipe.replicas,
                         busy = c.input_threads * kPrefetchedAtOnce,
                         depth = c.input_threads == 0 ? 0 : 2 + (busy + examples - 1) / examples;
      const std::int64_t ahead = depth * examples * shape.row_bytes();
      of_device += plan.memory().total() - plan.memory().checkpoint - shape.bytes() - ahead;
    }
    EXPECT_EQ(of_device, given_bytes) << "the kinds of memory are all that there is";
  }
}

void expect_planned_memory(const Recipe& recipe, bool steps) {
  const DataShape shape = stated_shape(recipe);
  expect_planned_memory(recipe, {drawn_set(shape, recipe.batch + 3), drawn_set(shape, 300)}, steps);
}

TEST(PlanOfText, has_the_memory_that_a_trainer_allocates) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + (i * i) % 23);
  put_text(folder / "text.txt", text);
  Recipe recipe = read_recipe(
      find_recipe("text"), {"network.layers=1", "network.width=16", "data.context=16", "batch=12"});
  recipe.pictures.path = (folder / "text.txt").string();
  expect_planned_memory(recipe, load_data(recipe, ""), true);
  const PlannedData planned = planned_data(recipe);
  EXPECT_EQ(planned.note, "");
  EXPECT_EQ(planned.shape.training, (1800 - 16) / 16);
  EXPECT_EQ(planned.shape.held_out, (200 - 1) / 16);
}

class PlanOfRecipe : public testing::TestWithParam<std::string> {};

TEST_P(PlanOfRecipe, has_the_memory_that_a_trainer_allocates) {
  const Recipe recipe = read_recipe(find_recipe(GetParam()));
  if (has_files(recipe)) GTEST_SKIP() << "the shape of its data stands in no table";
  expect_planned_memory(recipe, false);
}

std::string recipe_name(const testing::TestParamInfo<std::string>& one) {
  std::string name = one.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, PlanOfRecipe, testing::ValuesIn(recipe_names()), recipe_name);

// Every optional program: clipping, views, Muon beside Adam, several replicas of each worker.
TEST(Plan, has_the_memory_that_a_run_of_several_steps_allocates) {
  for (const char* more : {"", "clip_norm = 0.5\n"}) {
    const Recipe recipe = parse_recipe(
        cat("model = \"mnist\"\ndata = \"glyphs\"\nbatch = 42\nreplicas = 7\nepochs = 1\n"
            "[optimizer]\nname = \"adam\"\n",
            more,
            "[[optimizer.group]]\nparameters = [\"conv*.weight\"]\nname = \"muon\"\n"
            "[[optimizer.group]]\nparameters = [\"fc2.*\"]\nfrozen = true\n"
            "[evaluation]\nviews = 2\n"),
        "small");
    expect_planned_memory(recipe, true);
  }
}

TEST(Plan, says_how_often_each_program_runs_and_what_its_kernels_cost) {
  const Recipe recipe = read_recipe(find_recipe("glyphs"), {"replicas=4", "batch=64"});
  const RankPlan plan =
      plan_rank(recipe, find_model(recipe.model).build, stated_shape(recipe), {}, {3});
  ASSERT_EQ(plan.workers.size(), 3u);
  std::int64_t runs = 0;
  for (const WorkerPlan& worker : plan.workers) {
    const ProgramPlan& replica = worker.programs.front();
    EXPECT_EQ(replica.name, "replica");
    EXPECT_EQ(replica.step_runs, worker.replicas.size());
    runs += replica.step_runs;
    double flops = 0;
    for (const KernelCost& kernel : replica.plan.kernels) flops += kernel.flops;
    EXPECT_GT(flops, 1e6);
  }
  EXPECT_EQ(runs, recipe.replicas);
}

TEST(Plan, of_what_no_machine_has_is_made_all_the_same) {
  Recipe recipe = read_recipe(find_recipe("glyphs"), {"replicas=1"});
  recipe.batch = 1000000;
  DataShape shape = stated_shape(recipe);
  shape.training = std::int64_t{1} << 40;
  const RankPlan plan = plan_rank(recipe, find_model(recipe.model).build, shape, {}, {1});
  EXPECT_GT(plan.memory().total(), shape.training * 785);
  EXPECT_GT(plan.memory().training_activations, std::int64_t{1} << 30);
}

TEST(Plan, of_pictures_that_are_not_found_has_the_shape_that_the_recipe_states) {
  const Recipe recipe = read_recipe(find_recipe("imagenet-resnet50"), {"data.path=not-here"});
  const PlannedData planned = planned_data(recipe);
  EXPECT_EQ(planned.shape, stated_shape(recipe));
  EXPECT_EQ(planned.shape.input_bytes(), 4 * 3 * 224 * 224);
  EXPECT_EQ(planned.shape.training, 1281167);
  EXPECT_EQ(planned.shape.held_out, 50000);
  EXPECT_EQ(target_of(planned.shape.fields)->below, 1000);
  // No more than their index is in memory.
  EXPECT_LT(planned.shape.bytes(), std::int64_t{200} << 20);
  EXPECT_NE(planned.note.find("1281167"), std::string::npos) << planned.note;
}

}  // namespace
}  // namespace podium
