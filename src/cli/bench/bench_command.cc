// podium bench: what operations and recipes cost here, and how near the roof they come.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/cpu/kernels/bf16/peak.h"
#include "backend/cpu/kernels/roof.h"
#include "backend/device_roof.h"
#include "backend/operation_case.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/as_rank.h"
#include "cli/bench/bench_data.h"
#include "cli/bench/bench_exchange.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "nn/models.h"
#include "ops/op_registry.h"
#include "ops/ops.h"
#include "report/operation_times.h"
#include "train/run/rank_plan.h"
#include "train/run/run.h"

namespace podium {
namespace {

// Whether the kernel's operands are BF16, by the name of its operation.
bool has_bf16_operands(std::string_view operation) {
  return operation.find("_bf16") != std::string_view::npos;
}

struct BenchArguments {
  RecipeArguments recipe;
  Placement placement;
  std::string data_dir;
  std::vector<std::string> ops;
  std::int64_t steps = 0;
  bool json = false;
};

// What one core, or a device that knows its roof, can do at best. Bandwidth: of a copy within the
// cache, or, for a kernel that moves more than fits there, of one beyond it.
class Roof {
 public:
  explicit Roof(Device& device, const Precision& precision = {}) {
    auto* const measured = dynamic_cast<MeasuredDevice*>(&device);
    is_core_ = measured == nullptr;
    roof_ = is_core_
                ? DeviceRoof{.flops = cpu::fma_peak(),
                             .bf16_flops = cpu::bf16_peak(precision.bf16.value_or(Bf16Order::kAmx)),
                             .near_bytes = cpu::copy_bandwidth(cpu::kNearCopy),
                             .far_bytes = cpu::copy_bandwidth(cpu::kFarCopy),
                             .cache_bytes = 4 << 20}
                : measured->roof();
  }

  bool is_core() const { return is_core_; }
  const DeviceRoof& rates() const { return roof_; }
  // The least time for one call of a kernel.
  double seconds(std::string_view operation, const Cost& cost) const {
    return std::max(
        cost.flops / (has_bf16_operands(operation) ? roof_.bf16_flops : roof_.flops),
        cost.bytes / (cost.bytes > roof_.cache_bytes ? roof_.far_bytes : roof_.near_bytes));
  }
  std::string text() const {
    return cat("roof of ", is_core_ ? "a core" : "the GPU", ": ", scaled(roof_.flops, "FLOP/s"),
               " (", scaled(roof_.bf16_flops, "FLOP/s"), " in BF16), L2 ",
               scaled(roof_.near_bytes, "B/s"), ", beyond it ", scaled(roof_.far_bytes, "B/s"));
  }

 private:
  DeviceRoof roof_;
  bool is_core_ = true;
};

void add_rates(std::vector<std::string>& row, const Cost& cost, double seconds, double least) {
  row.push_back(fixed(cost.flops / seconds / 1e9, 1));
  row.push_back(fixed(cost.bytes / seconds / 1e9, 1));
  row.push_back(fixed(100 * least / seconds, 0));
}

// --- operations

struct OpTime {
  std::string op, shapes;
  Cost cost;
  double seconds = 0;  // the least of several calls
};

OpTime time_sample(Device& device, const OpDef& op, const OpSample& sample) {
  Graph graph;
  std::vector<Value> values;
  std::vector<Tensor> tensors;
  OpTime result{.op = op.name};
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    values.push_back(graph.input(cat("input", i), type, InputRole::kBatch));
    result.shapes += cat(i == 0 ? "" : " ", to_string(type.shape));
    Tensor& tensor = tensors.emplace_back(type);
    for (std::int64_t k = 0; k < tensor.elements(); ++k) {
      if (type.dtype == DType::kF32) tensor.f32()[static_cast<std::size_t>(k)] = 0.5f;
      if (type.dtype == DType::kI32) tensor.i32()[static_cast<std::size_t>(k)] = 1;
    }
  }
  const std::vector<Value> outputs = graph.add(op, sample.attributes, values, op.name);
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    graph.output(cat("output", i), outputs[i]);
    types.push_back(graph.type(outputs[i]));
  }
  result.cost = cost_of(op, sample.attributes, sample.inputs, types);
  LoadedProgram program(device, graph, tensors);
  // For 20 ms, and three times at least.
  result.seconds = std::numeric_limits<double>::infinity();
  const auto start = Clock::now();
  for (int call = 0; call < 3 || seconds_since(start) < 0.02; ++call) {
    const auto begin = Clock::now();
    program.run();
    device.synchronise();
    result.seconds = std::min(result.seconds, seconds_since(begin));
  }
  return result;
}

ExitCode bench_ops(const BenchArguments& arguments) {
  const auto device =
      make_device(arguments.placement.backend, {.threads = arguments.placement.threads});
  for (const std::string& name : arguments.ops) {
    std::vector<std::string> names;
    for (const OpDef* op : known_operations()) names.emplace_back(op->name);
    PODIUM_REQUIRE(std::find(names.begin(), names.end(), name) != names.end(), ExitCode::kUsage,
                   "unknown operation \"", name, "\"; `podium bench ops` times all of them");
  }
  const Roof roof(*device);
  Table table({"OPERATION", "SHAPES", "MICROSECONDS", "GFLOP/S", "GB/S", "% OF ROOF"});
  auto json = nlohmann::ordered_json::array();
  for (const OpDef* op : known_operations()) {
    if (!arguments.ops.empty() &&
        std::find(arguments.ops.begin(), arguments.ops.end(), op->name) == arguments.ops.end())
      continue;
    if (op->samples == nullptr) continue;
    for (const OpSample& sample : op->samples()) {
      const OpTime time = time_sample(*device, *op, sample);
      std::vector<std::string> row = {time.op, time.shapes, fixed(1e6 * time.seconds, 1)};
      add_rates(row, time.cost, time.seconds, roof.seconds(time.op, time.cost));
      table.add(std::move(row));
      json.push_back({{"op", time.op},
                      {"shapes", time.shapes},
                      {"attributes", sample.attributes.text()},
                      {"seconds", time.seconds},
                      {"flops", time.cost.flops},
                      {"bytes", time.cost.bytes},
                      {"roof_seconds", roof.seconds(time.op, time.cost)}});
    }
  }
  if (arguments.json) {
    std::cout << json_text(json) << "\n";
  } else {
    std::cout << "backend " << device->name() << ", " << device->description() << "; "
              << roof.text() << "\n"
              << table.text();
  }
  return ExitCode::kDone;
}

// --- recipes

struct StepTimes {
  double seconds = 0, input_seconds = 0, waiting_seconds = 0;
  std::int64_t items = 0;
  std::vector<double> each;  // seconds of every step, the least first

  // The time that this part of the steps, 0 to 1, stays below.
  double quantile(double part) const {
    return each[static_cast<std::size_t>(part * static_cast<double>(each.size() - 1) + 0.5)];
  }
};

StepTimes make_steps(Trainer& trainer, std::int64_t steps) {
  StepTimes times;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepResult step = trainer.step({.hash = true});
    times.seconds += step.seconds;
    times.items += step.sums.items;
    times.input_seconds += step.input_seconds;
    times.waiting_seconds += step.waiting_seconds;
    times.each.push_back(step.seconds);
  }
  std::ranges::sort(times.each);
  return times;
}

ExitCode bench_recipe(const BenchArguments& arguments) {
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  const RunData data = load_data(recipe, arguments.data_dir);
  Trainer trainer(recipe, model_of(recipe), data.train, data.held_out, arguments.placement);
  say(describe(trainer));
  const Roof roof(trainer.device(), precision_on(trainer.device(), recipe));
  // Caches and clocks warm up; and where no number is given, there are steps for ten seconds.
  constexpr double kSeconds = 10;
  const double first = make_steps(trainer, 1).seconds;
  const std::int64_t count =
      arguments.steps != 0
          ? arguments.steps
          : std::clamp<std::int64_t>(static_cast<std::int64_t>(kSeconds / first), 3, 200);
  make_steps(trainer, std::min<std::int64_t>(count / 3, 20));
  const StepTimes plain = make_steps(trainer, count);
  trainer.start_profile();
  const StepTimes profiled = make_steps(trainer, count);
  std::vector<KernelProfile> kernels = by_operation(trainer);
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });

  const auto steps = static_cast<double>(count);
  const auto workers = static_cast<double>(trainer.placement().workers);
  const double cores = workers * trainer.placement().threads;
  const double core_steps = steps * cores;
  const auto least_of = [&](const KernelProfile& kernel) {
    // A device may make all replicas' calls at once.
    const double calls = roof.is_core() ? static_cast<double>(kernel.calls) : steps;
    return calls * roof.seconds(kernel.name, {kernel.flops / calls, kernel.bytes / calls});
  };
  double in_kernels = 0, flops = 0, least = 0;
  for (const KernelProfile& kernel : kernels) {
    in_kernels += kernel.seconds;
    flops += kernel.flops;
    least += least_of(kernel);
  }
  const TaskWords words = trainer.words();
  const double items = static_cast<double>(plain.items) / plain.seconds;
  const double for_input = 100 * plain.input_seconds / plain.seconds;
  const double for_others = 100 * profiled.waiting_seconds / profiled.seconds;
  // A device computes while the host prepares the next batch, but not where each of its kernels is
  // timed: what is outside is seen in steps without that.
  const double outside = roof.is_core()
                             ? 100 * (1 - in_kernels / cores / profiled.seconds) - for_others
                             : 100 * std::max(0.0, 1 - in_kernels / cores / plain.seconds);
  const double step_seconds =
      roof.is_core() ? profiled.seconds : std::max(plain.seconds, in_kernels / cores);
  // Calls are those of all workers; times are a core's, the mean.
  Table table({"OPERATION", "CALLS/STEP", "US/STEP", "% OF STEP", "GFLOP/S", "GB/S", "% OF ROOF"});
  auto json = nlohmann::ordered_json::array();
  for (const KernelProfile& kernel : kernels) {
    const Cost cost{kernel.flops, kernel.bytes};
    std::vector<std::string> row = {kernel.name,
                                    fixed(static_cast<double>(kernel.calls) / steps, 0),
                                    fixed(1e6 * kernel.seconds / core_steps, 1),
                                    fixed(100 * kernel.seconds / cores / step_seconds, 1)};
    add_rates(row, cost, kernel.seconds, least_of(kernel));
    table.add(std::move(row));
    json.push_back({{"op", kernel.name},
                    {"calls", kernel.calls},
                    {"seconds", kernel.seconds},
                    {"flops", kernel.flops},
                    {"bytes", kernel.bytes},
                    {"roof_seconds", least_of(kernel)}});
  }
  if (arguments.json) {
    const nlohmann::ordered_json whole = {{"recipe", recipe.name},
                                          {"workers", trainer.placement().workers},
                                          {"threads", trainer.placement().threads},
                                          {"input_threads", trainer.placement().input_threads},
                                          {"backend", trainer.device().name()},
                                          {"steps", count},
                                          {words.rate_key(), items},
                                          {"steps_per_second", steps / plain.seconds},
                                          {"step_seconds",
                                           {{"tenth", plain.quantile(0.1)},
                                            {"median", plain.quantile(0.5)},
                                            {"nine_tenths", plain.quantile(0.9)}}},
                                          {"input_wait_percent", for_input},
                                          {"worker_wait_percent", for_others},
                                          {"outside_kernels_percent", outside},
                                          {"roof_flops", roof.rates().flops},
                                          {"roof_bf16_flops", roof.rates().bf16_flops},
                                          {"roof_bytes", roof.rates().near_bytes},
                                          {"roof_far_bytes", roof.rates().far_bytes},
                                          {"floor_seconds", least / core_steps},
                                          {"ops", json}};
    std::cout << json_text(whole) << "\n";
    return ExitCode::kDone;
  }
  std::cout << recipe.name << ": " << with_commas(static_cast<std::int64_t>(items)) << " "
            << words.rate_unit() << ", " << fixed(steps / plain.seconds, 1) << " steps/s with "
            << count_text(trainer.placement().workers, "worker") << " of "
            << count_text(trainer.placement().threads, "thread") << ", backend "
            << trainer.device().name() << ", " << trainer.device().description() << "\nstep time "
            << fixed(1e3 * plain.quantile(0.5), 1) << " ms (median), "
            << fixed(1e3 * plain.quantile(0.1), 1) << " (10th percentile), "
            << fixed(1e3 * plain.quantile(0.9), 1) << " (90th percentile)\nwaiting for input "
            << fixed(for_input, 1) << "%; outside kernels " << fixed(outside, 1)
            << "% of a step (input, exchange, hash, dispatch"
            << (trainer.placement().threads > 1 ? ", idle threads" : "")
            << "), waiting for other workers " << fixed(for_others, 1) << "%; in kernels "
            << scaled(flops / in_kernels, "FLOP/s") << ", " << fixed(100 * least / in_kernels, 0)
            << "% of the roof\nfloor of a " << (roof.is_core() ? "core's " : "")
            << "step, the sum of the kernels' least times: " << fixed(1e3 * least / core_steps, 1)
            << " ms, of " << fixed(1e3 * in_kernels / core_steps, 1) << " ms in kernels\n"
            << roof.text() << "\n\n"
            << table.text();
  return ExitCode::kDone;
}

}  // namespace

void add_bench_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench = add_command(app, line, "bench", "Measures the speed of operations and recipes",
                                {"podium bench ops", "podium bench recipe mnist"}, nullptr);
  CLI::App* ops = add_command(*bench, line, "ops", "Times each operation on its sample shapes",
                              {"podium bench ops", "podium bench ops conv2d matmul --json"},
                              [arguments] { return bench_ops(*arguments); });
  ops->add_option("OPERATION", arguments->ops, "Operations to time; default: all");
  CLI::App* recipe = add_command(
      *bench, line, "recipe", "Times the steps of a recipe and each kernel in them",
      {"podium bench recipe mnist", "podium bench recipe mnist --workers 1 --steps 500"},
      [arguments] { return bench_recipe(*arguments); });
  add_recipe_arguments(*recipe, arguments->recipe);
  recipe
      ->add_option("--steps", arguments->steps,
                   "Number of steps to time; default: as many as take ten seconds, 3 to 200")
      ->check(at_least(1), "POSITIVE");
  add_data_dir_flag(*recipe, arguments->data_dir);
  add_input_flags(*recipe, arguments->placement);
  auto data = std::make_shared<BenchDataArguments>();
  CLI::App* pictures = add_command(
      *bench, line, "data", "Times what a core does with the photographs of a recipe",
      {"podium bench data folder:PHOTOS", "podium bench data pictures data.path=PHOTOS --json"},
      [data] { return bench_data(*data); });
  add_recipe_arguments(*pictures, data->recipe);
  pictures
      ->add_option("--pictures", data->pictures,
                   "Number of pictures that are read into memory and timed")
      ->check(at_least(1), "POSITIVE")
      ->capture_default_str();
  add_data_dir_flag(*pictures, data->data_dir);
  pictures->add_flag("--json", data->json, "Write JSON");
  auto exchange = std::make_shared<BenchExchangeArguments>();
  exchange->sizes = {"1KB", "10KB", "100KB", "1MB", "10MB", "100MB"};
  CLI::App* sums = add_command(
      *bench, line, "exchange",
      "Under mpirun: times the sums over ranks beside MPI's own, and with RECIPE steps with either",
      {"mpirun -n 4 podium bench exchange", "mpirun -n 2 podium bench exchange cifar10-resnet32"},
      [exchange] {
        return as_rank(exchange->ranks,
                       [&](Transport& ranks) { return bench_exchange(*exchange, ranks); });
      });
  sums->add_option("RECIPE", exchange->recipe.recipe, "Recipe whose steps are timed");
  sums->add_option("OVERRIDE", exchange->recipe.overrides, "key=value: a key of the recipe")
      ->expected(0, -1);
  sums->add_option("--sizes", exchange->sizes, "Without RECIPE: bytes to sum, such as 4MB")
      ->delimiter(',')
      ->capture_default_str();
  sums->add_option("--rounds", exchange->rounds, "Number of rounds, in which all ways take turns")
      ->check(at_least(1), "POSITIVE")
      ->capture_default_str();
  sums->add_option("--steps", exchange->steps, "With RECIPE: number of steps of a round")
      ->check(at_least(2), "POSITIVE")
      ->capture_default_str();
  sums->add_option("--bucket-bytes", exchange->placement.bucket_bytes,
                   "Bytes that are exchanged at once, at least; default: by the size of the whole")
      ->check(at_least(64), "POSITIVE");
  add_data_dir_flag(*sums, exchange->data_dir);
  add_rank_flags(*sums, exchange->ranks);
  sums->add_flag("--json", exchange->json, "Write JSON");
  for (CLI::App* command : {ops, recipe}) {
    add_placement_flags(*command, arguments->placement);
    command->add_flag("--json", arguments->json, "Write JSON");
  }
}

}  // namespace podium
