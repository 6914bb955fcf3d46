// Evaluation: every example once, counted in integers. What an example gives depends on neither the
// evaluation batch nor the worker (train/inference.h). The mean of the losses is summed over the
// whole set in one stated order (docs/numerics.md, image sum).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/clock.h"
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

std::int64_t ConfusionMatrix::examples(std::int64_t label) const {
  std::int64_t sum = 0;
  for (std::int64_t guess = -1; guess < classes_; ++guess) sum += at(label, guess);
  return sum;
}

std::int64_t ConfusionMatrix::correct() const {
  std::int64_t sum = 0;
  for (std::int64_t label = 0; label < classes_; ++label) sum += at(label, label);
  return sum;
}

double ConfusionMatrix::accuracy(std::int64_t label) const {
  const std::int64_t all = examples(label);
  return all == 0 ? 0 : static_cast<double>(at(label, label)) / static_cast<double>(all);
}

void ConfusionMatrix::add(const ConfusionMatrix& other) {
  PODIUM_CHECK(classes_ == other.classes_, classes_, " ", other.classes_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

void Trainer::State::prepare_evaluation() {
  const CompileOptions options{.threads = placement.threads};
  const std::int64_t limit = workers[0].program.executable().arena_bytes();
  // 256, halved until evaluation needs no more memory than training; never more than there are.
  evaluation_batch = std::min(
      recipe.evaluation.batch != 0 ? recipe.evaluation.batch : std::int64_t{256}, held_out->count);
  Graph graph;
  BoundExecutable first;
  while (true) {
    graph = build_evaluation_program(model, inputs_of(evaluation_batch));
    first = BoundExecutable(*backend, graph, options);
    if (recipe.evaluation.batch != 0 || evaluation_batch == 1 ||
        first.executable().arena_bytes() <= limit)
      break;
    evaluation_batch /= 2;
  }
  const std::vector<TensorView> tensors = value_views();
  const std::string problem = binding_problem(graph, tensors);
  PODIUM_REQUIRE(problem.empty(), ExitCode::kUsage, "model ", recipe.model,
                 ": its parameters and running statistics in evaluation are not those that it has "
                 "in training (in evaluation it ",
                 problem, "); a model makes the same ones in both, whatever Network::mode() is");
  const Graph loss =
      build_loss_program(evaluation_batch, held_out->classes, recipe.label_smoothing);
  for (Worker& worker : workers) {
    worker.evaluation = std::make_unique<Inference>(
        first ? std::exchange(first, {}) : BoundExecutable(*backend, graph, options), graph,
        recipe.evaluation.views, tensors);
    worker.evaluation_labels = AlignedBytes(float_bytes(evaluation_batch));
    worker.evaluation_losses = AlignedBytes(float_bytes(evaluation_batch));
    worker.evaluation_loss = BoundExecutable(*backend, loss, options);
    worker.evaluation_loss.bind_input("logits", worker.evaluation->logits());
    worker.evaluation_loss.bind_input("labels", worker.evaluation_labels.data());
    worker.evaluation_loss.bind_output("losses", worker.evaluation_losses.data());
  }
}

EvaluationResult Trainer::evaluate(const std::atomic<int>* stop) {
  State& s = *state_;
  const auto start = Clock::now();
  const std::int64_t count = s.held_out->count, classes = s.held_out->classes;
  std::vector<float> losses(static_cast<std::size_t>(count));
  std::vector<ConfusionMatrix> counts(s.workers.size(), ConfusionMatrix(classes));
  std::atomic<std::int64_t> next{0};  // batch, for whichever worker is free
  s.threads->run_on_each([&](int index) {
    Worker& worker = s.workers[static_cast<std::size_t>(index)];
    Inference& evaluation = *worker.evaluation;
    auto* labels = reinterpret_cast<std::int32_t*>(worker.evaluation_labels.data());
    while (stop == nullptr || stop->load() == 0) {
      const std::int64_t first = s.evaluation_batch * next++;
      if (first >= count) break;
      const std::int64_t n = std::min(s.evaluation_batch, count - first);
      s.held_out_loader->in_order(first, n, evaluation.images(), labels);
      std::fill(labels + n, labels + s.evaluation_batch,
                0);  // what fills up the last batch is not counted
      evaluation.run(n);
      worker.evaluation_loss.run();
      std::memcpy(losses.data() + first, worker.evaluation_losses.data(), float_bytes(n));
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t guess = argmax(evaluation.logits() + i * classes, classes);
        ++counts[static_cast<std::size_t>(index)].at(labels[i], guess);
      }
    }
  });
  EvaluationResult result{.step = s.done};
  if (s.evaluation_batch * next < count) return result;
  result.examples = count;
  result.confusion = ConfusionMatrix(classes);
  for (const ConfusionMatrix& own : counts) result.confusion.add(own);
  result.correct = result.confusion.correct();
  result.loss =
      lane_sum(count, [&](std::int64_t i) { return losses[static_cast<std::size_t>(i)]; }) /
      static_cast<float>(count);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace podium
