// podium plan: before anything is paid for: does a recipe fit a device, how fast, how long, how
// much.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "backend/cpu/kernels/roof.h"
#include "backend/device.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "data/image_set.h"
#include "data/loader.h"
#include "nn/models.h"
#include "plan/local_model.h"
#include "plan/run_plan.h"
#include "report/progress.h"
#include "train/environment.h"
#include "train/memory.h"
#include "train/program.h"
#include "train/run.h"
#include "train/run_plan.h"

namespace podium {
namespace {

struct PlanArguments {
  RecipeArguments recipe;
  std::string on, precision, price, deadline;
  double budget = 0, critical_batch = 0;
  bool json = false;
};

// What the plan of a recipe is made of.
struct Parts {
  Recipe recipe;
  Shape image;
  std::int64_t classes = 0, test_examples = 0;
  ProgramWork work;
  ReplicaProgram program;
  Plan compiled;  // of the replica's program, on the CPU
};

Parts parts_of(const RecipeArguments& arguments) {
  Parts parts;
  parts.recipe = read_named_recipe(arguments.recipe, arguments.overrides);
  const PlannedData planned = planned_data(parts.recipe);
  if (!planned.note.empty()) say(planned.note);
  const DataShape& data = planned.shape;
  if (has_pictures(parts.recipe)) parts.recipe.train_examples = data.training;
  const Recipe& recipe = parts.recipe;
  const ModelInfo& model = find_model(recipe.model);
  parts.image = Shape{data.channels, data.height, data.width};
  parts.classes = data.classes;
  parts.test_examples = data.held_out;
  parts.work = work_of(recipe, model.build, parts.image, parts.classes);
  parts.program = build_replica_program(
      model.build,
      {.image = parts.image, .images = recipe.batch / recipe.replicas, .classes = parts.classes},
      recipe.seed, recipe.batch, recipe.label_smoothing, false, Optimizers(recipe));
  parts.compiled = make_device("cpu")->plan(parts.program.graph, {});
  return parts;
}

// Images that one core of this machine normalises and augments in a second. Decoding of files is
// not in it.
double input_rate(const Parts& parts) {
  const Recipe& recipe = parts.recipe;
  auto set = std::make_shared<ImageSet>();
  set->channels = parts.image[0], set->height = parts.image[1], set->width = parts.image[2];
  set->classes = parts.classes;
  // A batch, or as much of it as the rate needs.
  constexpr std::int64_t kMostBytes = 64 << 20;
  set->count =
      std::min(training_examples(recipe),
               std::max<std::int64_t>(std::min(recipe.batch, kMostBytes / set->image_bytes()), 64));
  set->pixels.resize(static_cast<std::size_t>(set->count * set->image_bytes()));
  set->labels.resize(static_cast<std::size_t>(set->count));
  const Loader loader(set, {.seed = recipe.seed,
                            .batch = std::min(recipe.batch, set->count),
                            .augment = recipe.augment,
                            .normalise = recipe.normalise});
  std::vector<float> image(static_cast<std::size_t>(set->image_bytes()));
  const auto start = Clock::now();
  std::int64_t made = 0;
  while (seconds_since(start) < 0.1) {
    for (int i = 0; i < 8; ++i) loader.example(0, made++ % set->count, image.data());
  }
  return static_cast<double>(made) / seconds_since(start);
}

// "v100x8" is eight of them; a device's own name may hold an x.
std::pair<std::string, std::int64_t> parse_on(const std::string& text,
                                              const std::vector<DeviceSpec>& devices) {
  for (const DeviceSpec& device : devices)
    if (device.name == text) return {text, 0};
  const std::size_t at = text.rfind('x');
  std::int64_t count = 0;
  if (at == std::string::npos || at == 0) return {text, 0};
  const auto [rest, error] =
      std::from_chars(text.data() + at + 1, text.data() + text.size(), count);
  if (error != std::errc() || rest != text.data() + text.size()) return {text, 0};
  PODIUM_REQUIRE(count >= 1 && count <= 1'000'000, ExitCode::kUsage, "--on ", text,
                 ": the number of devices must be from 1 to 1000000");
  return {text.substr(0, at), count};
}

std::string default_precision(const DeviceSpec& device, const std::string& asked) {
  if (!asked.empty()) {
    static_cast<void>(device.peak(asked));
    return asked;
  }
  for (const char* one : {"bf16", "fp16", "tf32"})
    if (device.flops.contains(one)) return one;
  return "fp32";
}

// The best of several tries: what else runs here must not pass for a slow core.
CoreRoof measured_roof() {
  CoreRoof roof;
  for (int i = 0; i < 5; ++i) {
    roof.flops = std::max(roof.flops, cpu::fma_peak());
    roof.near_bytes = std::max(roof.near_bytes, cpu::copy_bandwidth(256 << 10));
    roof.far_bytes = std::max(roof.far_bytes, cpu::copy_bandwidth(64 << 20));
  }
  return roof;
}

// The cores of this machine, as a device.
DeviceSpec this_machine(const Environment& here, const CoreRoof& roof) {
  return {.name = "here",
          .description = cat(here.cpu, ", ", here.usable_cores, " cores, ", here.vector_target),
          .family = Family::kGpu,
          .flops = {{"fp32", roof.flops}},
          .memory_bytes = static_cast<double>(usable_memory_bytes()),
          .bandwidth = roof.far_bytes,
          .source = "measured now"};
}

std::optional<ChosenPrice> price_for(const PlanArguments& arguments, const DeviceSpec& device) {
  const std::vector<Price> prices = known_prices();
  if (!arguments.price.empty()) {
    const ChosenPrice chosen = choose_price(arguments.price, prices);
    PODIUM_REQUIRE(device.name == "here" || chosen.price.device == device.name, ExitCode::kUsage,
                   "--price ", arguments.price, " is for the device ", chosen.price.device,
                   ", not of ", device.name, "; `podium prices` lists the prices of each device");
    return chosen;
  }
  // The newest one on demand; of several machines, the cheapest for each device.
  std::optional<ChosenPrice> best;
  const auto each = [](const Price& price) {
    return price.usd_per_hour / static_cast<double>(std::max<std::int64_t>(price.count, 1));
  };
  for (const Price& price : prices) {
    if (price.device != device.name || price.kind != "on demand" || price.count == 0) continue;
    const bool newer = best && price.date.substr(0, 4) > best->price.date.substr(0, 4);
    const bool same = best && price.date.substr(0, 4) == best->price.date.substr(0, 4);
    if (!best || newer || (same && each(price) < each(best->price))) best = ChosenPrice{price, 1};
  }
  return best;
}

std::string hours(double seconds) { return std::isfinite(seconds) ? duration_text(seconds) : "-"; }

nlohmann::ordered_json json_of(const PlanRow& row) {
  return {{"devices", row.devices},
          {"same_recipe", row.same_recipe},
          {"batch", row.batch},
          {"replicas", row.replicas},
          {"epochs", row.epochs},
          {"steps_per_second", row.steps_per_second},
          {"images_per_second", row.images_per_second},
          {"efficiency", row.efficiency},
          {"step_seconds",
           {{"compute", row.step.compute},
            {"memory", row.step.memory},
            {"kernels", row.step.kernels},
            {"exchange", row.step.exchange}}},
          {"seconds", row.seconds},
          {"seconds_low", row.low},
          {"seconds_high", row.high},
          {"usd", row.usd},
          {"usd_low", row.usd_low},
          {"usd_high", row.usd_high},
          {"machines", row.machines},
          {"memory_bytes", row.memory_bytes},
          {"fits", row.fits},
          {"input_cores", row.input_cores},
          {"meets", row.meets}};
}

void print(const Parts& parts, const PlanQuestion& q, const RunPlan& plan) {
  const Recipe& recipe = parts.recipe;
  const PlanRow& first = plan.rows.front();
  std::cout << recipe.name << " on " << q.device->name << ", " << q.device->description << " ("
            << q.device->source << "), " << q.precision << "\n"
            << "memory of a device: " << format_bytes(static_cast<std::int64_t>(first.memory_bytes))
            << " of " << format_bytes(static_cast<std::int64_t>(q.device->memory_bytes)) << ": "
            << with_commas(static_cast<std::int64_t>(q.work->parameter_values))
            << " parameters with gradients, exchange and optimizer, activations of "
            << recipe.batch / recipe.replicas << " images\n";
  Table table({"DEVICES", "BATCH", "EPOCHS", "STEPS/S", "IMAGES/S", "% OF LINEAR", "TIME",
               "80% INTERVAL", "COST, USD", "80% INTERVAL", "CORES FOR INPUT", ""});
  const auto usd = [](double value) {
    const std::string text = usd_text(value);
    return text.substr(0, text.find(' '));
  };
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    std::string remark = row.fits ? "" : "does not fit";
    if (!row.same_recipe) remark += cat(remark.empty() ? "" : ", ", "another recipe");
    if (plan.cheapest == i) remark += cat(remark.empty() ? "" : ", ", "cheapest");
    if (plan.fastest == i) remark += cat(remark.empty() ? "" : ", ", "fastest");
    const bool priced = std::isfinite(row.usd);
    table.add({cat(row.devices), cat(row.batch), fixed(row.epochs, 1),
               fixed(row.steps_per_second, row.steps_per_second < 10 ? 2 : 0),
               with_commas(static_cast<std::int64_t>(row.images_per_second)),
               fixed(100 * row.efficiency, 0), hours(row.seconds),
               std::isfinite(row.low) ? cat(hours(row.low), " to ", hours(row.high)) : "-",
               priced ? usd(row.usd) : "-",
               priced ? cat(usd(row.usd_low), " to ", usd(row.usd_high)) : "-",
               row.input_cores > 0 ? fixed(row.input_cores, 2) : "-", remark});
  }
  std::cout << table.text();
  if (q.price)
    std::cout << "price: " << q.price->price.text()
              << (q.price->price.includes.empty() ? "" : ", " + q.price->price.includes) << "; "
              << q.price->price.source << "\n";
  if (!plan.bend.empty()) std::cout << plan.bend << "\n";
  if (!plan.nearest.empty()) std::cout << plan.nearest << "\n";
  if (!plan.rows.back().same_recipe)
    std::cout << "another recipe: more devices than the recipe's " << recipe.replicas
              << " replicas need more replicas, and so a larger batch with other results; "
              << (q.critical_batch > 0
                      ? cat("epochs grow as 1 + batch / ", q.critical_batch)
                      : std::string(
                            "how the number of epochs grows is not known (--critical-batch)"))
              << "\n";
  if (first.input_cores > 0)
    std::cout << "cores for input: host cores per device for normalisation and augmentation, at "
                 "the rate of a core of this machine, "
              << with_commas(static_cast<std::int64_t>(q.images_per_core))
              << " images/s; decoding of files is not included\n";
}

ExitCode plan(const PlanArguments& arguments) {
  const std::vector<DeviceSpec> devices = known_devices();
  auto [name, count] = parse_on(arguments.on, devices);
  PlanQuestion question;
  DeviceSpec device;
  CoreRoof roof;
  const Environment here = collect_environment({}, make_device("cpu")->description(), 0);
  if (name == "here") {
    roof = measured_roof();
    device = this_machine(here, roof);
  } else {
    device = find_device(name, devices);
  }
  question.precision = default_precision(device, arguments.precision);
  const Parts parts = parts_of(arguments.recipe);
  const Recipe& recipe = parts.recipe;
  question.recipe = &parts.recipe;
  question.work = &parts.work;
  question.device = &device;
  question.activation_bytes = static_cast<double>(parts.compiled.arena_bytes);
  question.test_examples = parts.test_examples;
  question.price = price_for(arguments, device);
  if (!arguments.deadline.empty()) question.deadline = parse_duration(arguments.deadline);
  if (arguments.budget > 0) {
    question.budget = arguments.budget;
    PODIUM_REQUIRE(question.price.has_value(), ExitCode::kUsage, "--budget: no price of ",
                   device.name, " is known; choose one with --price, or add it to prices/");
  }
  question.critical_batch = arguments.critical_batch;
  question.images_per_core = input_rate(parts);
  if (count != 0) {
    question.devices = {count};
  } else if (name == "here") {
    for (std::int64_t n = 1; n <= std::min<std::int64_t>(here.usable_cores, recipe.replicas);
         n *= 2)
      question.devices.push_back(n);
  } else {
    for (std::int64_t n = 1; n <= 4096; n *= 2) question.devices.push_back(n);
  }
  if (name == "here") {
    const UpdateProgram update =
        build_update_program(parts.program.layout, Optimizers(recipe), recipe.replicas, 0,
                             parts.program.layout.parameter_bytes);
    const Plan update_plan = make_device("cpu")->plan(update.graph, {});
    const double replica = program_seconds(parts.compiled.kernels, roof);
    const double updating = program_seconds(update_plan.kernels, roof);
    question.measured = [replica, updating, &recipe](std::int64_t workers) {
      return local_step_seconds(replica, updating, recipe.replicas, workers);
    };
    question.low = 0.82, question.high = 1.08;
  }
  const RunPlan made = plan_run(question);
  if (arguments.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const PlanRow& row : made.rows) rows.push_back(json_of(row));
    nlohmann::ordered_json json = {
        {"recipe", recipe.name},  {"device", device.name}, {"precision", question.precision},
        {"price", nullptr},       {"price_date", nullptr}, {"rows", rows},
        {"cheapest", nullptr},    {"fastest", nullptr},    {"bend", made.bend},
        {"nearest", made.nearest}};
    if (question.price) {
      json["price"] = question.price->price.text();
      json["price_date"] = question.price->price.date;
    }
    if (made.cheapest) json["cheapest"] = made.rows[*made.cheapest].devices;
    if (made.fastest) json["fastest"] = made.rows[*made.fastest].devices;
    std::cout << json_text(json, 2) << "\n";
  } else {
    print(parts, question, made);
  }
  return ExitCode::kDone;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = add_command(
      app, line, "plan", "Predicts the memory, time and cost of a recipe on a device",
      {"podium plan cifar10-resnet32 --on v100", "podium plan mnist --on here --deadline 5m"},
      [arguments] { return plan(*arguments); });
  add_recipe_arguments(*command, arguments->recipe);
  command
      ->add_option("--on", arguments->on,
                   "Device of devices/*.toml, or `here`; v100x8 means eight; default: 1 to 4,096 "
                   "devices, or for `here` 1 to the number of cores")
      ->required();
  command->add_option(
      "--precision", arguments->precision,
      "Precision of the device; default: the first of bf16, fp16, tf32 and fp32 that it has");
  command->add_option(
      "--price", arguments->price,
      "Price of the machine (`podium prices`); default: the newest on-demand price of the device");
  command->add_option("--deadline", arguments->deadline, "Longest time: 90m, 2h, 1d");
  command->add_option("--budget", arguments->budget, "Highest cost in USD")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--critical-batch", arguments->critical_batch,
                   "Batch size above which more images per step gain little: epochs grow as 1 + "
                   "batch / this. ResNet-50 on ImageNet: about 50000")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
