// Checks the planner against published results: MLPerf Training's ResNet-50, DAWNBench, vendors'
// throughput. Fits the few numbers that data sheets do not say, and reports three errors (step
// time, time to accuracy, dollars) on devices that were left out of the fit, beside two baselines.
//
//   planner_check [FOLDER]   # of the CSV files; default: $PODIUM_FACTS, [../]shared/facts
//
// docs/results/planner.md holds what it printed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "nn/models.h"
#include "plan/run_plan.h"
#include "plan/step_model.h"
#include "report/comparison.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// --- the published rows

using Row = std::map<std::string, std::string>;

std::vector<Row> read_csv(const fs::path& file) {
  std::ifstream in(file);
  PODIUM_REQUIRE(in.good(), ExitCode::kData, file.string(),
                 ": cannot be read; name the folder of the published facts as an argument or in "
                 "$PODIUM_FACTS");
  const auto fields = [](const std::string& line) {
    std::vector<std::string> parts;
    std::istringstream text(line);
    for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
    return parts;
  };
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> heads = fields(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> parts = fields(line);
    Row row;
    for (std::size_t i = 0; i < heads.size() && i < parts.size(); ++i) row[heads[i]] = parts[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

double number(const std::string& text) { return text.empty() ? kNoValue : std::atof(text.c_str()); }

struct Result {
  std::string device, system, round;
  std::int64_t devices = 0;
  double images = 0;  // a device
  double rate = 0;    // images/s a device, as published
  double epochs = kNoValue, minutes = kNoValue;
  double batch() const { return images * static_cast<double>(devices); }
};

// Which of devices/*.toml an MLPerf accelerator is; empty: none (CPUs, IPUs, Gaudi 1).
std::string device_of(const std::string& accelerator) {
  std::string a;
  for (const char c : accelerator)
    a += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto has = [&](const char* part) { return a.find(part) != std::string::npos; };
  if (has("CPU") || has("IPU")) return "";
  if (has("GAUDI2")) return "gaudi2";
  if (has("GAUDI")) return "";
  if (has("910 PRO A")) return "ascend-910-pro-a";
  if (has("910")) return "ascend-910";
  if (has("L4")) return "l4";
  if (has("A40")) return "a40";
  if (has("H100")) return has("PCIE") ? "h100-pcie" : "h100";
  if (has("A100"))
    return std::string(has("PCIE") ? "a100-pcie-" : "a100-") + (has("80GB") ? "80" : "40");
  if (has("TPU") && has("V2")) return "tpu-v2";
  if (has("TPU") && has("V3")) return "tpu-v3";
  if (has("V100S-PCIE")) return "";
  if (has("V100")) return has("450W") ? "v100-sxm3" : "v100";
  return "";
}

std::vector<Result> mlperf(const fs::path& folder) {
  std::vector<Result> results;
  for (const Row& row : read_csv(folder / "mlperf_resnet50.csv")) {
    const auto at = [&](const char* key) {
      const auto found = row.find(key);
      return found == row.end() ? std::string() : found->second;
    };
    Result r{.device = device_of(at("accelerator")), .system = at("system"), .round = at("round")};
    r.devices = std::atoll(at("devices").c_str());
    const double batch = number(at("log_gbs"));
    if (r.device.empty() || !(batch > 0) || at("division") == "open") continue;
    // The logs of NVIDIA's first round state the batch of one device.
    const bool of_one = r.round == "v0.5" && r.system.find("ngc") != std::string::npos;
    r.images = of_one ? batch : batch / static_cast<double>(r.devices);
    r.rate = number(at("img_s_per_device"));
    r.epochs = number(at("epochs"));
    r.minutes = number(at("score_min"));
    results.push_back(std::move(r));
  }
  return results;
}

// --- the model

// ResNet-50 v1.5 (stride in the 3x3 convolution).
Value resnet50(Network& net, Value x, std::int64_t classes) {
  const auto unit = [&](const std::string& name, Value in, std::int64_t channels,
                        std::int64_t kernel, std::int64_t stride) {
    return net.batch_norm(
        name + ".bn",
        net.conv2d(name, in, {.channels = channels, .kernel = kernel, .stride = stride}));
  };
  x = net.max_pool(net.relu(unit("stem", x, 64, 7, 2)), 2);
  std::int64_t stage = 0;
  for (const auto& [blocks, width] : {std::pair{3, 64}, {4, 128}, {6, 256}, {3, 512}}) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = cat("stage", stage, ".", block);
      const std::int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      Value y = net.relu(unit(name + ".a", x, width, 1, 1));
      y = net.relu(unit(name + ".b", y, width, 3, stride));
      y = unit(name + ".c", y, 4 * width, 1, 1);
      if (block == 0) x = unit(name + ".skip", x, 4 * width, 1, stride);
      x = net.relu(net.add(x, y));
    }
    ++stage;
  }
  return net.dense("fc", net.global_avg_pool(x), {.units = classes, .bias = true});
}

Recipe plain_recipe(const std::string& model) {
  Recipe recipe;
  recipe.name = model, recipe.model = model, recipe.data = "own";
  recipe.batch = 256, recipe.epochs = 90;
  recipe.optimizer.name = "sgd";
  recipe.optimizer.momentum = 0.9f;
  return recipe;
}

// Halves or whole FP32, as the device's fastest.
std::string precision_of(const DeviceSpec& device) {
  for (const char* one : {"fp16", "bf16"})
    if (device.flops.contains(one)) return one;
  return "fp32";
}

class Check {
 public:
  explicit Check(const fs::path& folder)
      : devices_(known_devices()),
        work_(work_of(plain_recipe("resnet50"), resnet50, image_fields(3, 224, 224, 1000))),
        results_(mlperf(folder)),
        folder_(folder) {
    for (const Result& r : results_) names_.insert(r.device);
  }

  void run() {
    double flops = 0, bytes = 0;
    for (const OpWork& op : work_.ops) flops += op.flops, bytes += op.bytes;
    fmt::print(
        "ResNet-50: {:.1f} GFLOP and {:.0f} MB (16 bit) an image, {:.1f} M parameters, {} "
        "operations\n",
        flops / 1e9, bytes / 2e6, work_.parameter_values / 1e6, work_.ops.size());
    fmt::print("{} published results, {} devices\n\n", results_.size(), names_.size());
    const std::vector<double> all = fit_speed(results_);
    print_parameters(all);
    left_out_devices();
    other_sizes();
    accuracy_and_dollars();
    dawnbench(all);
    claims(all);
    vendors(all);
  }

 private:
  static constexpr std::size_t kParameters = 7;

  static Efficiency efficiency_of(const std::vector<double>& logs) {
    Efficiency e;
    e.products = {std::exp(logs[0]), std::exp(logs[1])};
    e.kernel_us = {std::exp(logs[2]), std::exp(logs[3])};
    e.memory = std::exp(logs[4]);
    e.link = std::exp(logs[5]);
    e.latency = std::exp(logs[6]);
    return e;
  }

  double rate_of(const Result& r, const Efficiency& e) const {
    const DeviceSpec& device = find_device(r.device, devices_);
    return r.images /
           step_time(work_, device, precision_of(device), r.devices, 1, r.images, e).total();
  }

  // Mean size of the logarithm of predicted over published. Devices weigh by the root of their
  // rows, and numbers stay near what is plausible, so that few rows of one device move nothing far.
  std::vector<double> fit_speed(const std::vector<Result>& rows) const {
    std::map<std::string, double> count;
    for (const Result& r : rows) count[r.device] += 1;
    const std::vector<double> plausible = {std::log(0.45), std::log(0.65), std::log(4.0),
                                           std::log(2.5),  std::log(0.8),  std::log(0.5),
                                           std::log(40.0)};
    const auto loss = [&](const std::vector<double>& logs) {
      const Efficiency e = efficiency_of(logs);
      double sum = 0, weights = 0;
      for (const Result& r : rows) {
        const double weight = 1 / std::sqrt(count.at(r.device));
        sum += weight * std::abs(std::log(rate_of(r, e) / r.rate));
        weights += weight;
      }
      double prior = 0;
      for (std::size_t i = 0; i < kParameters; ++i)
        prior += (logs[i] - plausible[i]) * (logs[i] - plausible[i]);
      return sum / weights + 2e-3 * prior;
    };
    // One number after the other, by steps that become smaller.
    std::vector<double> best = plausible;
    double least = loss(best);
    for (double step = 0.4; step > 0.005; step *= 0.5) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < kParameters; ++i) {
          for (const double sign : {-1.0, 1.0}) {
            std::vector<double> tried = best;
            tried[i] += sign * step;
            const double value = loss(tried);
            if (value < least - 1e-7) best = tried, least = value, moved = true;
          }
        }
      }
    }
    return best;
  }

  static void print_parameters(const std::vector<double>& logs) {
    const Efficiency e = efficiency_of(logs);
    fmt::print(
        "fitted to all: products {:.3f} of the peak on GPUs, {:.3f} on matrix devices; "
        "an operation takes {:.2f} us and {:.2f} us at least; memory {:.3f} and links {:.3f} "
        "of their bandwidth; a level of the exchange {:.0f} latencies\n\n",
        e.products[0], e.products[1], e.kernel_us[0], e.kernel_us[1], e.memory, e.link, e.latency);
  }

  std::vector<Result> rows_if(const std::function<bool(const Result&)>& wanted) const {
    std::vector<Result> rows;
    for (const Result& r : results_)
      if (wanted(r)) rows.push_back(r);
    return rows;
  }

  static double median_size(const std::vector<double>& logs) {
    std::vector<double> sizes;
    for (const double l : logs) sizes.push_back(std::abs(std::exp(l) - 1));
    return spread_of(sizes).median;
  }

  // Errors of devices that were left out; and of a constant part of the peak, from the others.
  void left_out_devices() {
    fmt::print("step time on a device that was left out of the fit, median error:\n");
    fmt::print("{:18} {:>5} {:>8} {:>8} {:>22}\n", "device", "rows", "model", "signed",
               "constant efficiency");
    std::vector<double> every, baseline_all;
    std::map<std::string, std::vector<double>> of;
    for (const std::string& name : names_) {
      const auto others = rows_if([&](const Result& r) { return r.device != name; });
      const Efficiency e = efficiency_of(fit_speed(others));
      std::vector<double> part;
      for (const Result& r : others) part.push_back(r.rate / peak_of(r.device));
      const double constant = spread_of(part).median;
      std::vector<double> errors, baseline;
      for (const Result& r : rows_if([&](const Result& one) { return one.device == name; })) {
        errors.push_back(
            std::log(r.rate / rate_of(r, e)));  // of step time: predicted over published
        baseline.push_back(std::log(r.rate / (constant * peak_of(name))));
        rates_[r.system + r.round] = rate_of(r, e);
      }
      of[name] = errors;
      every.insert(every.end(), errors.begin(), errors.end());
      baseline_all.insert(baseline_all.end(), baseline.begin(), baseline.end());
      fmt::print("{:18} {:5} {:7.1f}% {:+7.1f}% {:21.1f}%\n", name, errors.size(),
                 100 * median_size(errors), 100 * (std::exp(spread_of(errors).median) - 1),
                 100 * median_size(baseline));
    }
    std::vector<double> medians;
    for (const auto& [name, errors] : of) medians.push_back(median_size(errors));
    fmt::print(
        "median of all {} rows {:.1f}%, of the devices' medians {:.1f}%; constant efficiency "
        "{:.1f}%\n",
        every.size(), 100 * median_size(every), 100 * spread_of(medians).median,
        100 * median_size(baseline_all));
    // The interval of a device comes from the errors of the others.
    std::size_t inside = 0;
    for (const auto& [left_out, errors] : of) {
      const std::string& name = left_out;
      const auto [low, high] =
          interval([&](const std::string& other) { return other != name; }, of);
      for (const double error : errors) inside += -error >= low && -error <= high ? 1 : 0;
    }
    const auto [low, high] = interval([](const std::string&) { return true; }, of);
    fmt::print(
        "80% interval of step time: {:.2f} to {:.2f} times the prediction; from the other "
        "devices, {:.0f}% of the rows lie in it\n\n",
        std::exp(low), std::exp(high),
        100 * static_cast<double>(inside) / static_cast<double>(every.size()));
  }

  // Each device weighs the same: its errors are thinned to as many.
  static std::pair<double, double> interval(const std::function<bool(const std::string&)>& wanted,
                                            const std::map<std::string, std::vector<double>>& of) {
    std::vector<std::pair<double, double>> weighted;  // published over predicted, weight
    double total = 0;
    for (const auto& [name, errors] : of) {
      if (!wanted(name)) continue;
      for (const double error : errors) {
        const double weight = 1 / std::sqrt(static_cast<double>(errors.size()));
        weighted.emplace_back(-error, weight);
        total += weight;
      }
    }
    std::ranges::sort(weighted);
    const auto at = [&](double part) {
      double sum = 0;
      for (const auto& [value, weight] : weighted) {
        sum += weight;
        if (sum >= part * total) return value;
      }
      return weighted.back().first;
    };
    return {at(0.1), at(0.9)};
  }

  double peak_of(const std::string& name) const {
    const DeviceSpec& device = find_device(name, devices_);
    return device.peak(precision_of(device));
  }

  // A device that is in the fit, at sizes that are not: the model times what its other sizes say.
  void other_sizes() {
    std::vector<double> errors, linear;
    for (const std::string& name : names_) {
      std::set<std::int64_t> sizes;
      for (const Result& r : results_)
        if (r.device == name) sizes.insert(r.devices);
      if (sizes.size() < 2) continue;
      for (const std::int64_t size : sizes) {
        const auto others =
            rows_if([&](const Result& r) { return r.device != name || r.devices != size; });
        const Efficiency e = efficiency_of(fit_speed(others));
        std::vector<double> factors, rates;
        std::int64_t least = 0;
        for (const Result& r : others) {
          if (r.device != name) continue;
          factors.push_back(r.rate / rate_of(r, e));
          if (rates.empty() || r.devices < least) rates.clear(), least = r.devices;
          if (r.devices == least) rates.push_back(r.rate);
        }
        const double factor = spread_of(factors).median, alike = spread_of(rates).median;
        for (const Result& r : results_) {
          if (r.device != name || r.devices != size) continue;
          errors.push_back(std::log(r.rate / (factor * rate_of(r, e))));
          linear.push_back(std::log(r.rate / alike));
        }
      }
    }
    fmt::print(
        "other sizes of a device that is in the fit, {} rows: median error {:.1f}%; linear "
        "scaling from its smallest size {:.1f}%\n\n",
        errors.size(), 100 * median_size(errors), 100 * median_size(linear));
  }

  // Epochs to the target: those of the recipe at small batches, times 1 + batch / critical. The
  // rounds had other targets and rules.
  struct EpochFit {
    std::map<std::string, double> small;  // by group of rounds
    double critical = 0;
    double at(const std::string& group, double batch) const {
      return small.at(group) * (1 + batch / critical);
    }
  };
  static std::string group_of(const Result& r) {
    return r.round == "v0.5" || r.round == "v0.6" ? r.round : "v0.7 to v3.0";
  }
  static EpochFit fit_epochs(const std::vector<Result>& rows) {
    EpochFit best;
    double least = std::numeric_limits<double>::infinity();
    for (double critical = 10'000; critical < 500'000; critical *= 1.03) {
      std::map<std::string, std::vector<double>> small;
      for (const Result& r : rows)
        if (r.epochs > 0) small[group_of(r)].push_back(r.epochs / (1 + r.batch() / critical));
      EpochFit fit{.small = {}, .critical = critical};
      for (const auto& [group, values] : small) fit.small[group] = spread_of(values).median;
      double sum = 0;
      for (const Result& r : rows)
        if (r.epochs > 0) {
          const double error = std::log(fit.at(group_of(r), r.batch()) / r.epochs);
          sum += error * error;
        }
      if (sum < least) best = fit, least = sum;
    }
    return best;
  }

  void accuracy_and_dollars() {
    const EpochFit all = fit_epochs(results_);
    fmt::print("epochs to the target: critical batch {:.0f}", all.critical);
    for (const auto& [group, small] : all.small) fmt::print("; {} {:.1f}", group, small);
    fmt::print("\n");
    std::vector<double> epochs, minutes, without, dollars;
    for (const Result& r : results_) {
      if (!(r.epochs > 0)) continue;
      const EpochFit fit =
          fit_epochs(rows_if([&](const Result& one) { return one.device != r.device; }));
      if (!fit.small.contains(group_of(r))) continue;
      const double predicted = fit.at(group_of(r), r.batch());
      const double rate = rates_.at(r.system + r.round) * static_cast<double>(r.devices);
      const double time = predicted * 1'281'167 / rate / 60;
      epochs.push_back(std::log(predicted / r.epochs));
      minutes.push_back(std::log(time / r.minutes));
      without.push_back(std::log(fit.small.at(group_of(r)) * 1'281'167 / rate / 60 / r.minutes));
      for (const Price& price : known_prices())
        if (price.device == r.device && price.kind == "on demand" && price.count > 0) {
          dollars.push_back(minutes.back());
          break;
        }
    }
    fmt::print("epochs, device left out, {} rows: median error {:.1f}%\n", epochs.size(),
               100 * median_size(epochs));
    fmt::print(
        "time to accuracy, device left out: median error {:.1f}%; without the growth of "
        "epochs with the batch {:.1f}%\n",
        100 * median_size(minutes), 100 * median_size(without));
    fmt::print(
        "dollars of the {} rows whose device has a price in prices/: median error {:.1f}% "
        "(that of time, since the price is given)\n\n",
        dollars.size(), 100 * median_size(dollars));
  }

  // Times and prices as entered there. Most are no plain ResNet-50 run: schedules, image sizes and
  // frameworks differ, and the plan is of 90 epochs.
  void dawnbench(const std::vector<double>& logs) {
    const Efficiency e = efficiency_of(logs);
    fmt::print(
        "DAWNBench, ImageNet to 93% top-5, planned with 90 epochs at 256 images a device:\n");
    std::vector<double> dollars;
    for (const Row& row : read_csv(folder_ / "dawnbench.csv")) {
      if (row.at("task") != "imagenet resnet-50") continue;
      const std::string& hardware = row.at("hardware");
      const std::string name = hardware.find("TPU") != std::string::npos    ? "tpu-v2"
                               : hardware.find("V100") != std::string::npos ? "v100"
                                                                            : "";
      const double price = number(row.at("usd_per_hour")), hours = number(row.at("hours"));
      if (name.empty() || !(price > 0)) continue;
      Result r{.device = name, .system = "", .round = ""};
      r.devices = std::atoll(row.at("devices").c_str());
      r.images = name == "tpu-v2" ? 256 : std::min(256.0, 32768.0 / static_cast<double>(r.devices));
      const double planned =
          90 * 1'281'167 / (rate_of(r, e) * static_cast<double>(r.devices)) / 3600;
      const bool google = hardware.find("fast.ai") == std::string::npos && name == "tpu-v2";
      if (google) dollars.push_back(std::log(planned / hours));
      fmt::print("  {:42} {:8.3f} h, {:8.2f} USD; planned {:8.3f} h, {:8.2f} USD{}\n", hardware,
                 hours, hours * price, planned, planned * price,
                 google ? "" : " (another schedule or other image sizes)");
    }
    fmt::print("median error of dollars over the {} plain runs {:.0f}%\n\n", dollars.size(),
               100 * median_size(dollars));
  }

  void claims(const std::vector<double>& logs) {
    const Efficiency e = efficiency_of(logs);
    const auto rate = [&](const char* name, std::int64_t devices, double images) {
      Result r{.device = name, .system = "", .round = "", .devices = devices, .images = images};
      return rate_of(r, e) * static_cast<double>(devices);
    };
    const double pod = rate("tpu-v2", 256, 64), one = rate("v100", 1, 208);
    const double eight = rate("v100", 8, 208);
    fmt::print("claims, and what the model says:\n");
    fmt::print(
        "  256 chips of TPU v2 are 200 times one V100 (a protocol of its own; 126 times by "
        "throughput in MLPerf's logs of that season): {:.0f} times\n",
        pod / one);
    fmt::print("  the same are 27 times a host of 8 V100: {:.1f} times\n", pod / eight);
    const ProgramWork small = work_of(plain_recipe("resnet32"), find_model("resnet32").build,
                                      image_fields(3, 32, 32, 10));
    const auto small_rate = [&](const char* name, std::int64_t devices, double images) {
      const DeviceSpec& device = find_device(name, devices_);
      return static_cast<double>(devices) * images /
             step_time(small, device, precision_of(device), devices, 1, images, e).total();
    };
    fmt::print(
        "  a TPU v2 board of 4 chips is twice a V100 on ResNet-32, 1024 images a step: {:.2f} "
        "times; at 128 images {:.2f}\n\n",
        small_rate("tpu-v2", 4, 256) / small_rate("v100", 1, 1024),
        small_rate("tpu-v2", 4, 32) / small_rate("v100", 1, 128));
  }

  void vendors(const std::vector<double>& logs) {
    const Efficiency e = efficiency_of(logs);
    fmt::print("vendors' ResNet-50 throughput, images/s a device, 256 images (16 bit) or 128:\n");
    std::vector<double> half, whole;
    for (const Row& row : read_csv(folder_ / "throughput.csv")) {
      if (row.at("model").find("resnet-50") == std::string::npos) continue;
      const std::string& on = row.at("device");
      const std::string name = on.starts_with("A100-40") || on == "A100" ? "a100-40"
                               : on.starts_with("A100-80")               ? "a100-80"
                               : on.starts_with("V100")                  ? "v100"
                               : on == "P100"                            ? "p100"
                               : on == "K80"                             ? "k80"
                               : on.starts_with("TPU v2")                ? "tpu-v2"
                                                                         : "";
      if (name.empty()) continue;
      const std::string& stated = row.at("precision");
      const DeviceSpec& device = find_device(name, devices_);
      const std::string precision = stated == "mixed" ? "fp16" : stated;
      const std::int64_t devices = std::atoll(row.at("devices").c_str());
      const double images = precision == "fp32" || precision == "tf32" ? 128 : 256;
      const double planned =
          images / step_time(work_, device, precision, devices, 1, images, e).total();
      const double published = number(row.at("images_per_s")) / static_cast<double>(devices);
      (precision == "fp16" || precision == "bf16" ? half : whole)
          .push_back(std::log(planned / published));
      fmt::print("  {:8} {:8} x {:<3} {:5} published {:6.0f} planned {:6.0f}\n",
                 row.at("framework"), on, devices, precision, published, planned);
    }
    fmt::print("median error: 16 bit {:.0f}%, FP32 and TF32 {:.0f}%\n", 100 * median_size(half),
               100 * median_size(whole));
  }

  std::vector<DeviceSpec> devices_;
  ProgramWork work_;
  std::vector<Result> results_;
  std::set<std::string> names_;
  std::map<std::string, double> rates_;  // predicted, with the device left out
  fs::path folder_;
};

fs::path facts_folder(int argc, char** argv) {
  if (argc > 1) return argv[1];
  if (const char* named = std::getenv("PODIUM_FACTS"); named != nullptr && *named != '\0')
    return named;
  for (const char* folder : {"shared/facts", "../shared/facts"})
    if (fs::is_directory(folder)) return folder;
  throw UserError(
      "no published facts were found; name their folder as an argument or in "
      "$PODIUM_FACTS");
}

}  // namespace
}  // namespace podium

int main(int argc, char** argv) {
  try {
    podium::Check(podium::facts_folder(argc, argv)).run();
    return 0;
  } catch (const podium::UserError& error) {
    std::cerr << "planner_check: " << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
