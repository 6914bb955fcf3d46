#include "train/loop/inference.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/error.h"
#include "base/view.h"
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

std::string first_non_finite(std::span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    bool finite = true;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      finite &= (std::bit_cast<std::uint32_t>(tensor.values[i]) & 0x7f800000u) != 0x7f800000u;
    if (!finite) return tensor.name;
  }
  return "";
}

std::string binding_problem(const Graph& evaluation, std::span<const DeviceTensor> tensors) {
  std::map<std::string, const DeviceTensor*> given;
  for (const DeviceTensor& tensor : tensors) given.emplace(tensor.name, &tensor);
  for (const NamedValue& input : evaluation.inputs()) {
    const Node& node = evaluation.nodes()[static_cast<std::size_t>(input.value.node)];
    if (node.role == InputRole::kBatch) continue;
    const Shape& shape = evaluation.shape(input.value);
    const auto found = given.find(input.name);
    if (found == given.end()) return cat("needs \"", input.name, "\" as ", to_string(shape));
    if (found->second->type.shape != shape)
      return cat("needs \"", input.name, "\" as ", to_string(shape), ", not ",
                 to_string(found->second->type.shape));
    given.erase(found);
  }
  return given.empty() ? "" : cat("has no \"", given.begin()->first, "\"");
}

Inference::Inference(Device& device, int worker, BoundExecutable program, const Graph& evaluation,
                     std::int64_t views, std::span<const DeviceTensor> tensors,
                     const BatchMemory& batch)
    : program_(std::move(program)) {
  batch.bind(program_, evaluation);
  for (const NamedValue& value : evaluation.outputs()) {
    Staging& memory =
        outputs_.emplace_back(value.name, Staging(device, evaluation.type(value.value).bytes()))
            .second;
    program_.bind_output(value.name, memory.view());
  }
  for (const DeviceTensor& tensor : tensors) program_.bind_input(tensor.name, tensor.memory);
  PODIUM_REQUIRE(std::ranges::find(kViewCounts, views) != kViewCounts.end(), ExitCode::kUsage,
                 "`evaluation.views` = ", views, "; it must be 1, 2 or 6");
  if (views == 1) return;
  const auto images_field = std::ranges::find(batch.fields(), kImages, &Field::name);
  PODIUM_REQUIRE(
      images_field != batch.fields().end() && outputs_.size() == 1 && outputs_[0].first == kLogits,
      ExitCode::kUsage, "`evaluation.views` = ", views,
      ": only the logits of images are averaged over views; it must be 1");
  const auto field = static_cast<std::size_t>(images_field - batch.fields().begin());
  const TensorType images = images_field->batch(batch.rows()),
                   logits = evaluation.type(evaluation.output(kLogits));
  const Staging& logits_memory = outputs_[0].second;
  view_images_ = device.allocate(images.bytes());
  view_logits_ = device.allocate(logits.bytes());
  program_.bind_input(kImages, *view_images_);
  program_.bind_output(kLogits, *view_logits_);
  for (int i = 0; i < static_cast<int>(views); ++i) {
    BoundExecutable& maker = makers_.emplace_back(device, build_view_program(images, views, i),
                                                  CompileOptions{.worker = worker});
    maker.bind_input(kImages, batch.view(field));
    maker.bind_output("view", *view_images_);
    CompileOptions options{.worker = worker};
    if (i > 0) options.donations = {{"sum", "mean"}};
    BoundExecutable& adder = adders_.emplace_back(
        device, build_view_sum_program(logits, view_weight(views, i), i == 0), options);
    adder.bind_input(kLogits, *view_logits_);
    if (i > 0) {
      adder.bind_input("mean", logits_memory.view());
    } else {
      adder.bind_output("sum", logits_memory.view());
    }
  }
}

void Inference::run() {
  if (makers_.empty()) program_.run();
  for (std::size_t view = 0; view < makers_.size(); ++view) {
    makers_[view].run();
    program_.run();
    adders_[view].run();
  }
}

void Inference::visit_programs(
    const std::function<void(const char*, std::int64_t, const Plan&)>& visit) const {
  const auto plan = [](const BoundExecutable& program) -> const Plan& {
    return program.executable().plan();
  };
  visit("evaluation", std::max<std::int64_t>(std::ssize(makers_), 1), plan(program_));
  for (const BoundExecutable& maker : makers_) visit("view", 1, plan(maker));
  for (const BoundExecutable& adder : adders_) visit("mean of views", 1, plan(adder));
}

std::int64_t Inference::batch_bytes() const {
  std::int64_t sum = view_images_ ? view_images_->bytes() + view_logits_->bytes() : 0;
  for (const auto& [name, memory] : outputs_) sum += memory.bytes();
  return sum;
}

const Staging& Inference::output(const std::string& name) const {
  const auto found = std::ranges::find(outputs_, name, &std::pair<std::string, Staging>::first);
  PODIUM_CHECK(found != outputs_.end(), name);
  return found->second;
}

}  // namespace podium
