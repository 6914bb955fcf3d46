// podium plan: before anything is paid for: does a recipe fit a device, how fast, how long, how
// much.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/bf16/peak.h"
#include "backend/cpu/kernels/roof.h"
#include "backend/device.h"
#include "backend/device_roof.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/byte_text.h"
#include "nn/models.h"
#include "plan/measured.h"
#include "plan/run_plan.h"
#include "report/progress.h"
#include "train/machine/environment.h"
#include "train/machine/memory.h"
#include "train/program/program.h"
#include "train/run/rank_plan.h"
#include "train/run/run.h"

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
  std::int64_t test_examples = 0;
  DataShape data;
  ProgramWork work;
  ReplicaProgram program;
  Plan compiled;  // of the replica's program, on the CPU
};

Parts parts_of(const RecipeArguments& arguments) {
  Parts parts;
  parts.recipe = read_named_recipe(arguments.recipe, arguments.overrides);
  const PlannedData planned = planned_data(parts.recipe);
  if (!planned.note.empty()) say(planned.note);
  parts.data = planned.shape;
  const DataShape& data = parts.data;
  if (has_files(parts.recipe)) parts.recipe.train_examples = data.training;
  const Recipe& recipe = parts.recipe;
  const Model model = model_of(recipe);
  parts.test_examples = data.held_out;
  parts.work = work_of(recipe, model, data.fields);
  parts.program = build_replica_program(
      model, batch_inputs(recipe, data.fields, recipe.batch / recipe.replicas), recipe.seed,
      recipe.batch, false, Optimizers(recipe));
  parts.compiled = make_device("cpu")->plan(parts.program.graph, {});
  return parts;
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

// Of one core. The best of several tries: what else runs here must not pass for a slow core.
DeviceRoof measured_roof(const Precision& precision) {
  DeviceRoof roof;
  for (int i = 0; i < 5; ++i) {
    roof.flops = std::max(roof.flops, cpu::fma_peak());
    if (precision.bf16)
      roof.bf16_flops = std::max(roof.bf16_flops, cpu::bf16_peak(*precision.bf16));
    roof.far_bytes = std::max(roof.far_bytes, cpu::copy_bandwidth(cpu::kFarCopy));
  }
  return roof;
}

// The cores of this machine, as a device.
DeviceSpec this_machine(const Environment& here, const DeviceRoof& roof) {
  std::map<std::string, double> flops = {{"fp32", roof.flops}};
  if (roof.bf16_flops > 0) flops["bf16"] = roof.bf16_flops;
  return {.name = "here",
          .description =
              cat(here.cpu, ", ", count_text(here.usable_cores, "core"), ", ", here.vector_target),
          .family = Family::kGpu,
          .flops = std::move(flops),
          .memory_bytes = static_cast<double>(usable_memory_bytes()),
          .bandwidth = roof.far_bytes,
          .node_link = roof.far_bytes,
          .source = "measured now"};
}

// What a run with so many workers takes here, as its plan says, with the program itself.
MemoryParts memory_of_process(const Parts& parts, std::int64_t workers) {
  return_free_memory();
  const Recipe& recipe = parts.recipe;
  const RankPlan plan = plan_rank(recipe, model_of(recipe), parts.data, {.backend = "cpu"},
                                  {static_cast<int>(workers)});
  const MemoryUse use = plan.memory();
  MemoryParts memory = {{"program", static_cast<double>(plan.program_bytes)}};
  for (const MemoryKind& kind : kMemoryKinds) {
    if (kind.bytes == &MemoryUse::carried && use.carried == 0) continue;  // of few models
    memory.emplace_back(kind.name, static_cast<double>(use.*kind.bytes));
  }
  return memory;
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
  const auto is_replaced = [&](const Price& old) {
    return std::ranges::any_of(prices, [&](const Price& price) {
      return price.name() == old.name() && price.region == old.region && price.kind == old.kind &&
             price.date > old.date;
    });
  };
  for (const Price& price : prices) {
    if (price.device != device.name || price.kind != "on demand" || price.count == 0 ||
        is_replaced(price))
      continue;
    const bool newer = best && price.date.substr(0, 4) > best->price.date.substr(0, 4);
    const bool same = best && price.date.substr(0, 4) == best->price.date.substr(0, 4);
    if (!best || newer || (same && each(price) < each(best->price))) best = ChosenPrice{price, 1};
  }
  return best;
}

std::function<std::string(const std::string&)> above_zero() {
  return [](const std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && std::isfinite(value) && value > 0) return "";
    return cat("\"", text, "\" is not a number above zero");
  };
}

std::string hours(double seconds) { return std::isfinite(seconds) ? duration_text(seconds) : "-"; }

nlohmann::ordered_json json_of(const PlanRow& row, const std::string& item) {
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (const auto& [what, bytes] : row.memory) memory[what] = bytes;
  return {{"devices", row.devices},
          {"same_recipe", row.same_recipe},
          {"batch", row.batch},
          {"replicas", row.replicas},
          {"epochs", row.epochs},
          {"steps_per_second", row.steps_per_second},
          {item + "s_per_second", row.items_per_second},
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
          {"memory", memory},
          {"fits", row.fits},
          {"input_cores", row.input_cores},
          {"waits_for_input", row.waits_for_input},
          {"meets", row.meets}};
}

std::string memory_text(const PlanQuestion& q, const PlanRow& row) {
  const auto text_of = [](double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); };
  std::string text = q.measured_memory
                         ? cat("memory of a process with ", count_text(row.devices, "worker"), ": ")
                         : std::string("memory of a device: ");
  text += cat(text_of(row.memory_bytes), " of ", text_of(q.device->memory_bytes), ":");
  const char* between = " ";
  for (const auto& [what, bytes] : row.memory) {
    if (bytes == 0) continue;
    text += cat(between, what, " ", text_of(bytes));
    between = ", ";
  }
  return text + "\n";
}

void print(const Parts& parts, const PlanQuestion& q, const RunPlan& plan,
           const std::string& input) {
  const Recipe& recipe = parts.recipe;
  const PlanRow& first = plan.rows.front();
  std::cout << recipe.name << " on " << q.device->name << ", " << q.device->description << ", "
            << q.precision << "\n"
            << "source: " << q.device->source << "\n"
            << with_commas(static_cast<std::int64_t>(q.work->parameter_values)) << " parameters, "
            << count_text(recipe.replicas, "replica") << " of "
            << count_text(recipe.batch / recipe.replicas,
                          q.items_per_example == 1 ? q.item : "example")
            << "\n"
            << memory_text(q, first);
  if (q.measured_memory && plan.rows.size() > 1) std::cout << memory_text(q, plan.rows.back());
  std::string rate = q.item + "s/s";
  for (char& c : rate) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  Table table({"DEVICES", "BATCH", "EPOCHS", "STEPS/S", rate, "% OF LINEAR", "TIME", "80% INTERVAL",
               "COST, USD", "80% INTERVAL", "CORES FOR INPUT", ""});
  const auto usd = [](double value) {
    const std::string text = usd_text(value);
    return text.substr(0, text.find(' '));
  };
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    std::string remark = row.fits ? "" : "does not fit";
    if (!row.same_recipe) remark += cat(remark.empty() ? "" : ", ", "another recipe");
    if (row.waits_for_input) remark += cat(remark.empty() ? "" : ", ", "waits for input");
    if (plan.cheapest == i) remark += cat(remark.empty() ? "" : ", ", "cheapest");
    if (plan.fastest == i) remark += cat(remark.empty() ? "" : ", ", "fastest");
    const bool priced = std::isfinite(row.usd);
    table.add({cat(row.devices), cat(row.batch), fixed(row.epochs, 1),
               fixed(row.steps_per_second, row.steps_per_second < 10 ? 2 : 0),
               with_commas(static_cast<std::int64_t>(row.items_per_second)),
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
    std::cout << "cores for input: host cores per device, at the rate of a core of this machine: "
              << with_commas(static_cast<std::int64_t>(q.examples_per_core)) << " examples/s, "
              << input << "\n";
  if (first.input_cores > 0 && q.device->host_cores > 0 && !q.measured)
    std::cout
        << "its host has " << fixed(q.device->host_cores, 1) << " cores for each device"
        << (std::ranges::any_of(plan.rows, &PlanRow::waits_for_input)
                ? "; where more are needed, the device waits for input and is slower than planned\n"
                : "\n");
}

ExitCode plan(const PlanArguments& arguments) {
  const std::vector<DeviceSpec> devices = known_devices();
  auto [name, count] = parse_on(arguments.on, devices);
  PlanQuestion question;
  DeviceSpec device;
  const Parts parts = parts_of(arguments.recipe);
  const Recipe& recipe = parts.recipe;
  const Environment here = collect_environment({}, make_device("cpu")->description(), 0);
  if (name == "here") {
    device = this_machine(here, measured_roof(precision_of(recipe)));
  } else {
    device = find_device(name, devices);
  }
  question.precision = default_precision(device, arguments.precision);
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
  question.item = unit_of(parts.data.fields);
  question.items_per_example = static_cast<double>(parts.program.items * recipe.replicas) /
                               static_cast<double>(recipe.batch);
  const std::int64_t most = std::min<std::int64_t>(here.usable_cores, recipe.replicas);
  if (count != 0) {
    PODIUM_REQUIRE(name != "here" || count <= most, ExitCode::kUsage, "--on ", arguments.on,
                   ": this machine runs at most ", count_text(most, "worker"),
                   " of this recipe, which has ", count_text(recipe.replicas, "replica"),
                   ", on its ", count_text(here.usable_cores, "core"));
    question.devices = {count};
  } else if (name == "here") {
    for (std::int64_t n = 1; n <= most; n *= 2) question.devices.push_back(n);
  } else {
    for (std::int64_t n = 1; n <= 4096; n *= 2) question.devices.push_back(n);
  }
  // Before there are data in memory, which count already.
  std::map<std::int64_t, MemoryParts> memory;
  if (name == "here")
    for (const std::int64_t workers : question.devices)
      memory[workers] = memory_of_process(parts, workers);
  const MeasuredData measured = data_to_measure(recipe, parts.data);
  question.examples_per_core = examples_per_core(measured, recipe);
  if (name == "here") {
    question.measured = [&](std::int64_t workers) {
      return step_seconds_here(measured, recipe, workers);
    };
    question.low = 0.95, question.high = 1.1;
    question.measured_memory = [&](std::int64_t workers) { return memory.at(workers); };
  }
  const RunPlan made = plan_run(question);
  if (arguments.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const PlanRow& row : made.rows) rows.push_back(json_of(row, question.item));
    nlohmann::ordered_json json = {{"recipe", recipe.name},
                                   {"device", device.name},
                                   {"precision", question.precision},
                                   {"examples_per_core", question.examples_per_core},
                                   {"input", measured.of},
                                   {"price", nullptr},
                                   {"price_date", nullptr},
                                   {"rows", rows},
                                   {"cheapest", nullptr},
                                   {"fastest", nullptr},
                                   {"bend", made.bend},
                                   {"nearest", made.nearest}};
    if (question.price) {
      json["price"] = question.price->price.text();
      json["price_date"] = question.price->price.date;
    }
    if (made.cheapest) json["cheapest"] = made.rows[*made.cheapest].devices;
    if (made.fastest) json["fastest"] = made.rows[*made.fastest].devices;
    std::cout << json_text(json, 2) << "\n";
  } else {
    print(parts, question, made, measured.of);
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
      ->check(above_zero(), "POSITIVE");
  command
      ->add_option("--critical-batch", arguments->critical_batch,
                   "Batch size above which more examples per step gain little: epochs grow as 1 + "
                   "batch / this. ResNet-50 on ImageNet: about 50000")
      ->check(above_zero(), "POSITIVE");
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
