// Evaluation: every example once, counted in integers. What an example gives depends on neither the
// evaluation batch nor the worker; where there are several views of it, their logits are averaged
// first (data/views.h). The mean of the losses is summed over the whole set in one
// stated order (docs/numerics.md, image sum).
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.h"
#include "data/views.h"
#include "ops/reference_sums.h"
#include "train/trainer_state.h"

namespace podium {
namespace {

// The first largest value; -1 where a value is not a number.
std::int64_t argmax(const float* logits, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    if (logits[k] != logits[k]) return -1;
    if (logits[k] > logits[best]) best = k;
  }
  return best;
}

}  // namespace

void Trainer::prepare_evaluation() {
  State& s = *state_;
  const ImageSet& set = *s.held_out;
  ReplicaInputs inputs{
      .image = Shape{set.channels, set.height, set.width}, .images = 0, .classes = set.classes};
  const CompileOptions options{.threads = s.placement.threads};
  const std::int64_t limit = s.workers[0].program->arena_bytes();
  // 256, halved until evaluation needs no more memory than training; never more than there are.
  s.evaluation_batch = std::min(
      s.recipe.evaluation.batch != 0 ? s.recipe.evaluation.batch : std::int64_t{256}, set.count);
  Graph graph;
  while (true) {
    inputs.images = s.evaluation_batch;
    graph = build_evaluation_program(s.model, inputs);
    s.workers[0].evaluation = s.backend->compile(graph, options);
    if (s.recipe.evaluation.batch != 0 || s.evaluation_batch == 1 ||
        s.workers[0].evaluation->arena_bytes() <= limit)
      break;
    s.evaluation_batch /= 2;
  }
  // Parameters and statistics are bound in the order of training.
  std::vector<std::pair<std::string, Shape>> expected;
  for (const auto* entries : {&s.layout().parameters, &s.layout().statistics})
    for (const FlatEntry& entry : *entries) expected.emplace_back(entry.name, entry.shape);
  std::vector<std::pair<std::string, Shape>> found;
  for (const NamedValue& input : graph.inputs())
    if (graph.node(input.value).role != InputRole::kBatch)
      found.emplace_back(input.name, graph.shape(input.value));
  PODIUM_REQUIRE(found == expected, ExitCode::kUsage, "model ", s.recipe.model,
                 ": its parameters and running statistics in evaluation are not those that it has "
                 "in training; a model may make them in one way alone, whatever Network::mode()");
  const Graph loss = build_loss_program(s.evaluation_batch, set.classes, s.recipe.label_smoothing);
  for (Worker& worker : s.workers) {
    if (!worker.evaluation) worker.evaluation = s.backend->compile(graph, options);
    worker.evaluation_loss = s.backend->compile(loss, options);
    worker.evaluation_images =
        AlignedBytes(float_bytes(s.evaluation_batch * inputs.image.elements()));
    worker.evaluation_labels = AlignedBytes(float_bytes(s.evaluation_batch));
    worker.evaluation_logits = AlignedBytes(float_bytes(s.evaluation_batch * set.classes));
    worker.evaluation_losses = AlignedBytes(float_bytes(s.evaluation_batch));
    if (s.recipe.evaluation.views > 1) {
      worker.view_images = AlignedBytes(worker.evaluation_images.size());
      worker.view_logits = AlignedBytes(worker.evaluation_logits.size());
    }
    worker.evaluation_inputs = {worker.evaluation_images.data()};
    for (const FlatEntry& e : s.layout().parameters)
      worker.evaluation_inputs.push_back(s.parameter_data() + e.offset);
    for (const FlatEntry& e : s.layout().statistics)
      worker.evaluation_inputs.push_back(s.statistic_data() + e.offset -
                                         s.layout().parameter_floats);
  }
}

void Trainer::State::evaluate_batch(Worker& worker, std::int64_t n) {
  const std::int64_t views = recipe.evaluation.views;
  const auto floats = [](AlignedBytes& memory) { return reinterpret_cast<float*>(memory.data()); };
  float* mean = floats(worker.evaluation_logits);
  if (views == 1) {
    worker.evaluation->run(worker.evaluation_inputs, std::array<void*, 1>{mean});
    return;
  }
  const ImageSet& set = *held_out;
  std::vector<const void*> inputs = worker.evaluation_inputs;
  inputs[0] = worker.view_images.data();
  const float* images = floats(worker.evaluation_images);
  const float* logits = floats(worker.view_logits);
  for (int view = 0; view < view_count(views); ++view) {
    for (std::int64_t i = 0; i < n; ++i)
      make_view(views, view, set.channels, set.height, set.width, images + i * set.image_bytes(),
                floats(worker.view_images) + i * set.image_bytes());
    worker.evaluation->run(inputs, std::array<void*, 1>{worker.view_logits.data()});
    // The weights are powers of two: each product is exact, and one addition a view is rounded.
    const float weight = view_weight(views, view);
    for (std::int64_t i = 0; i < n * set.classes; ++i)
      mean[i] = (view == 0 ? 0.0f : mean[i]) + weight * logits[i];
  }
}

EvaluationResult Trainer::evaluate(const std::atomic<int>* stop) {
  State& s = *state_;
  const auto start = Clock::now();
  const std::int64_t count = s.held_out->count, classes = s.held_out->classes;
  std::vector<float> losses(static_cast<std::size_t>(count));
  std::vector<std::int64_t> correct(s.workers.size());
  std::atomic<std::int64_t> next{0};  // batch, for whichever worker is free
  s.threads->run([&](std::int64_t index) {
    Worker& worker = s.workers[static_cast<std::size_t>(index)];
    auto* images = reinterpret_cast<float*>(worker.evaluation_images.data());
    auto* labels = reinterpret_cast<std::int32_t*>(worker.evaluation_labels.data());
    const auto* logits = reinterpret_cast<const float*>(worker.evaluation_logits.data());
    while (stop == nullptr || stop->load() == 0) {
      const std::int64_t first = s.evaluation_batch * next++;
      if (first >= count) break;
      const std::int64_t n = std::min(s.evaluation_batch, count - first);
      s.held_out_loader->in_order(first, n, images, labels);
      std::fill(labels + n, labels + s.evaluation_batch,
                0);  // what fills up the last batch is not counted
      s.evaluate_batch(worker, n);
      worker.evaluation_loss->run(std::array<const void*, 2>{worker.evaluation_logits.data(),
                                                             worker.evaluation_labels.data()},
                                  std::array<void*, 1>{worker.evaluation_losses.data()});
      std::memcpy(losses.data() + first, worker.evaluation_losses.data(), float_bytes(n));
      for (std::int64_t i = 0; i < n; ++i)
        correct[static_cast<std::size_t>(index)] +=
            argmax(logits + i * classes, classes) == labels[i] ? 1 : 0;
    }
  });
  EvaluationResult result{.step = s.done};
  if (s.evaluation_batch * next < count) return result;
  result.examples = count;
  for (const std::int64_t c : correct) result.correct += c;
  result.loss =
      lane_sum(count, [&](std::int64_t i) { return losses[static_cast<std::size_t>(i)]; }) /
      static_cast<float>(count);
  result.seconds = seconds_since(start);
  return result;
}

Tensor Trainer::predict(const Tensor& images) {
  State& s = *state_;
  Worker& worker = s.workers[0];
  const std::int64_t count = images.shape()[0], pixels = images.shape().elements_from(1),
                     classes = s.held_out->classes;
  PODIUM_REQUIRE(
      images.shape() == (Shape{count, s.held_out->channels, s.held_out->height, s.held_out->width}),
      ExitCode::kData, "images are ", to_string(images.shape()), ", the model takes ",
      s.held_out->channels, "x", s.held_out->height, "x", s.held_out->width);
  Tensor result(DType::kF32, Shape{count, classes});
  for (std::int64_t first = 0; first < count; first += s.evaluation_batch) {
    const std::int64_t n = std::min(s.evaluation_batch, count - first);
    std::memcpy(worker.evaluation_images.data(), images.f32().data() + first * pixels,
                float_bytes(n * pixels));
    s.evaluate_batch(worker, n);
    std::memcpy(result.f32().data() + first * classes, worker.evaluation_logits.data(),
                float_bytes(n * classes));
  }
  return result;
}

}  // namespace podium
