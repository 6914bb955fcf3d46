// podium predict: what a run's model sees in pictures from files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/functions.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "data/image_file.h"
#include "data/loader.h"
#include "train/run.h"

namespace podium {
namespace {

struct Arguments {
  std::string run;
  std::vector<std::string> images;
  Placement placement;
  bool json = false;
};

std::vector<double> softmax(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values;
  for (const float logit : logits) values.push_back(exp_f64(static_cast<double>(logit) - most));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

// The classes by falling probability.
std::vector<std::int64_t> ranking(const std::vector<double>& probabilities) {
  std::vector<std::int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return probabilities[static_cast<std::size_t>(a)] > probabilities[static_cast<std::size_t>(b)];
  });
  return order;
}

ExitCode predict(const Arguments& arguments) {
  LoadedRun loaded = load_run_to_predict(arguments.run, arguments.placement);
  const DatasetInfo& info = find_dataset(loaded.recipe.data);
  Table table({"IMAGE", "CLASS", "PROBABILITY", "NEXT"});
  auto json = nlohmann::ordered_json::array();
  for (const std::string& path : arguments.images) {
    auto set =
        std::make_shared<ImageSet>(read_image_file(path, info.channels, info.height, info.width));
    set->classes = info.classes;
    set->labels.assign(static_cast<std::size_t>(set->count), 0);  // the loader wants some
    const Loader loader(set, LoaderOptions{.normalise = loaded.recipe.normalise});
    constexpr std::int64_t kAtOnce = 256;
    for (std::int64_t first = 0; first < set->count; first += kAtOnce) {
      const std::int64_t n = std::min(kAtOnce, set->count - first);
      Tensor images(DType::kF32, Shape{n, info.channels, info.height, info.width});
      std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
      loader.in_order(first, n, images.f32().data(), labels.data());
      const Tensor logits = loaded.trainer->predict(images);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto classes = static_cast<std::size_t>(info.classes);
        const std::vector<double> p =
            softmax(logits.f32().subspan(static_cast<std::size_t>(i) * classes, classes));
        const std::vector<std::int64_t> order = ranking(p);
        const auto at = [&](std::size_t rank) { return p[static_cast<std::size_t>(order[rank])]; };
        const std::string name = set->count == 1 ? path : cat(path, "[", first + i, "]");
        table.add(
            {name, info.class_name(order[0]), percent(at(0)),
             order.size() < 2 ? "" : cat(info.class_name(order[1]), " (", percent(at(1)), ")")});
        json.push_back({{"image", name},
                        {"class", order[0]},
                        {"name", info.class_name(order[0])},
                        {"probability", at(0)},
                        {"probabilities", p}});
      }
    }
  }
  std::cout << (arguments.json ? json_text(json) + "\n" : table.text());
  return ExitCode::kDone;
}

}  // namespace

void add_predict_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(
      app, line, "predict", "Says what a run's model sees in pictures",
      {"podium predict runs/mnist-seed0 three.png", "podium predict runs/a *.png --json"},
      [arguments] { return predict(*arguments); });
  command->add_option("RUN", arguments->run, "The run's folder")->required();
  command
      ->add_option("IMAGE", arguments->images,
                   "PNG, PGM, PPM or IDX files of the size that the model takes")
      ->required();
  add_placement_flags(*command, arguments->placement);
  command->add_flag("--json", arguments->json, "Write a JSON array");
}

}  // namespace podium
