#include "train/loop/views.h"

#include <algorithm>

#include "base/error.h"
#include "base/numerics/view.h"
#include "ops/ops.h"

namespace podium {
namespace {

constexpr const char *kImages = "images", *kLogits = "logits";

// Input images, output view.
Graph build_view_program(const TensorType& images, std::int64_t views, int index) {
  Graph graph;
  const Value all = graph.input(kImages, images, InputRole::kBatch);
  graph.output("view", view(graph, all, views, index, "view"));
  return graph;
}

// Inputs logits, those of a view, and mean, so far; of the first view, logits alone. Output sum:
// mean + weight * logits.
Graph build_view_sum_program(const TensorType& logits, float weight, bool first) {
  Graph graph;
  const Value own = graph.input(kLogits, logits, InputRole::kParameter);
  const Value mean =
      first ? fill(graph, logits.shape, 0.0f) : graph.input("mean", logits, InputRole::kParameter);
  graph.output("sum", add(graph, mean, scale(graph, own, weight, "views"), "views"));
  return graph;
}

}  // namespace

Views::Views(Device& device, int worker, BoundExecutable& program, const Graph& evaluation,
             std::int64_t views, std::span<const std::pair<std::string, Staging>> outputs,
             const BatchMemory& batch) {
  PODIUM_REQUIRE(std::ranges::find(kViewCounts, views) != kViewCounts.end(), ExitCode::kUsage,
                 "`evaluation.views` = ", views, "; it must be 1, 2 or 6");
  const auto images_field = std::ranges::find(batch.fields(), kImages, &Field::name);
  PODIUM_REQUIRE(
      images_field != batch.fields().end() && outputs.size() == 1 && outputs[0].first == kLogits,
      ExitCode::kUsage, "`evaluation.views` = ", views,
      ": only the logits of images are averaged over views; it must be 1");
  const auto field = static_cast<std::size_t>(images_field - batch.fields().begin());
  const TensorType images = images_field->batch(batch.rows()),
                   logits = evaluation.type(evaluation.output(kLogits));
  const Staging& mean = outputs[0].second;
  images_ = device.allocate(images.bytes());
  logits_ = device.allocate(logits.bytes());
  program.bind_input(kImages, *images_);
  program.bind_output(kLogits, *logits_);
  for (int i = 0; i < static_cast<int>(views); ++i) {
    BoundExecutable& maker = makers_.emplace_back(device, build_view_program(images, views, i),
                                                  CompileOptions{.worker = worker});
    maker.bind_input(kImages, batch.view(field));
    maker.bind_output("view", *images_);
    CompileOptions options{.worker = worker};
    if (i > 0) options.donations = {{"sum", "mean"}};
    BoundExecutable& adder = adders_.emplace_back(
        device, build_view_sum_program(logits, view_weight(views, i), i == 0), options);
    adder.bind_input(kLogits, *logits_);
    if (i > 0) {
      adder.bind_input("mean", mean.view());
    } else {
      adder.bind_output("sum", mean.view());
    }
  }
}

void Views::run(BoundExecutable& program) {
  for (std::size_t view = 0; view < makers_.size(); ++view) {
    makers_[view].run();
    program.run();
    adders_[view].run();
  }
}

void Views::visit_programs(
    const std::function<void(const char*, std::int64_t, const Plan&)>& visit) const {
  for (const BoundExecutable& maker : makers_) visit("view", 1, maker.executable().plan());
  for (const BoundExecutable& adder : adders_) visit("mean of views", 1, adder.executable().plan());
}

}  // namespace podium
