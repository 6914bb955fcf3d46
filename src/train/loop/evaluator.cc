// Evaluation: every example once, counted in integers. What an example gives depends on neither the
// evaluation batch nor the worker (train/loop/inference.h). The mean of the losses is summed over
// the whole set in one stated order (docs/numerics.md, evaluation).
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/spread.h"
#include "ops/reference_sums.h"
#include "train/loop/trainer_state.h"

namespace podium {

double EvaluationResult::value_of(const std::string& name) const {
  const auto found = std::ranges::find(metrics, name, &MetricValue::name);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

double EvaluationResult::metric() const {
  return main_metric() == nullptr ? std::numeric_limits<double>::quiet_NaN() : main_metric()->value;
}

namespace {

// What was predicted of each example, as words of 32 bits: f32 or i32, as the target is.
struct Predictions {
  DType dtype = DType::kI32;
  std::vector<std::int32_t> targets, predicted;
  double mean = 0, deviation = 1;  // of a target that is normalised
  double number(std::int32_t word) const {
    return dtype == DType::kI32
               ? word
               : mean + deviation * static_cast<double>(std::bit_cast<float>(word));
  }
  std::vector<float> floats(std::span<const std::int32_t> words) const {
    std::vector<float> values;
    for (const std::int32_t word : words) values.push_back(static_cast<float>(number(word)));
    return values;
  }
};

// The examples that people are shown. `worst` are in the order of their losses: the mistakes, where
// there are classes.
void choose_shown(EvaluationResult& result, std::span<const float> losses,
                  const Predictions& predictions, std::span<const std::int64_t> weights) {
  std::vector<ExamplePrediction> mistakes;
  const std::int64_t count = std::ssize(losses), some = std::min(count, EvaluationResult::kShown);
  std::int64_t next_shown = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!weights.empty() && weights[i] == 0) continue;
    const ExamplePrediction example{.index = static_cast<std::int64_t>(i),
                                    .target = predictions.number(predictions.targets[i]),
                                    .predicted = predictions.number(predictions.predicted[i]),
                                    .loss = losses[i]};
    if (example.index >= next_shown && std::ssize(result.first) < some) {
      result.first.push_back(example);
      if (std::ssize(result.first) < some)
        next_shown = spread_over(count, some, std::ssize(result.first));
    }
    if (predictions.targets[i] != predictions.predicted[i]) mistakes.push_back(example);
  }
  // A loss that is no number is the largest.
  const auto worse = [](const ExamplePrediction& a, const ExamplePrediction& b) {
    const bool odd_a = std::isnan(a.loss), odd_b = std::isnan(b.loss);
    if (odd_a != odd_b) return odd_a;
    if (!odd_a && a.loss != b.loss) return a.loss > b.loss;
    return a.index < b.index;
  };
  std::ranges::sort(mistakes, worse);
  std::map<double, std::int64_t> of_class;  // mistakes so far, by target
  std::vector<std::pair<std::int64_t, std::size_t>> turns;
  for (std::size_t i = 0; i < mistakes.size(); ++i)
    turns.emplace_back(predictions.dtype == DType::kI32 ? of_class[mistakes[i].target]++ : 0, i);
  const auto shown = std::min<std::ptrdiff_t>(std::ssize(turns), EvaluationResult::kShown);
  std::ranges::partial_sort(turns, turns.begin() + shown);
  for (std::ptrdiff_t i = 0; i < shown; ++i)
    result.worst.push_back(mistakes[turns[static_cast<std::size_t>(i)].second]);
}

// -1: one is negative.
std::int64_t sum_of_weights(std::span<const std::int32_t> weights) {
  std::int64_t sum = 0;
  for (const std::int32_t weight : weights) {
    if (weight < 0) return -1;
    sum += weight;
  }
  return sum;
}

// `weights` are those of the examples.
std::int64_t weight_of_set(std::span<const std::int64_t> weights) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    PODIUM_REQUIRE(weights[i] >= 0, ExitCode::kData, "example ", i,
                   " of the held-out set has a negative weight; weights must be whole numbers, not "
                   "negative");
    sum += weights[i];
  }
  PODIUM_REQUIRE(sum > 0, ExitCode::kData,
                 "all examples of the held-out set have the weight 0, so there is nothing to "
                 "evaluate; hold out others");
  return sum;
}

// Those of the examples that count.
Predictions counted(const Predictions& all, std::span<const std::int64_t> weights) {
  Predictions some = all;
  some.targets.clear(), some.predicted.clear();
  for (std::size_t i = 0; i < all.targets.size(); ++i) {
    if (weights[i] == 0) continue;
    some.targets.push_back(all.targets[i]);
    some.predicted.push_back(all.predicted[i]);
  }
  return some;
}

void add_metrics(EvaluationResult& result, const std::vector<Metric>& metrics,
                 const Predictions& predictions) {
  for (const Metric& metric : metrics) {
    double value = 0;
    if (metric.of) {
      value = metric.of(result.sums);
    } else if (predictions.dtype == DType::kF32 && !predictions.predicted.empty()) {
      value = metric.of_predictions(predictions.floats(predictions.predicted),
                                    predictions.floats(predictions.targets));
    } else {
      continue;
    }
    result.metrics.push_back({metric.name, metric.unit, metric.more_is_better, value});
  }
}

}  // namespace

void Trainer::State::prepare_evaluation() {
  const std::int64_t limit = workers[0].runs.back().program.executable().plan().arena_bytes;
  // 256, halved until evaluation fits into the memory of training, and so do its outputs, which are
  // kept besides, and what the network reads takes no more than this; never more than there are. Of
  // streams, a share for each worker.
  constexpr std::int64_t kMostInputBytes = std::int64_t{48} << 20;
  const std::int64_t all = shards.all_workers(),
                     most = program.carried.empty() ? data.held_out
                                                    : (recipe.evaluation.streams + all - 1) / all;
  evaluation_batch =
      std::min(recipe.evaluation.batch != 0 ? recipe.evaluation.batch : std::int64_t{256}, most);
  // Of one view the losses are outputs of the network's own program.
  const bool views = recipe.evaluation.views != 1;
  Graph graph, loss;
  while (true) {
    graph = build_evaluation_program(model, inputs_of(evaluation_batch), !views);
    if (views) loss = build_loss_program(model, inputs_of(evaluation_batch), graph);
    std::int64_t outputs = 0;
    for (const NamedValue& output : graph.outputs()) outputs += graph.type(output.value).bytes();
    if (recipe.evaluation.batch != 0 || evaluation_batch == 1 ||
        (outputs <= limit && device->plan(graph, {}).arena_bytes <= limit &&
         (!views || device->plan(loss, {}).arena_bytes <= limit) &&
         evaluation_batch * data.input_bytes() <= kMostInputBytes))
      break;
    evaluation_batch /= 2;
  }
  require_same_carried(graph);
  const std::vector<DeviceTensor> tensors = values();
  const std::string problem = binding_problem(graph, tensors);
  PODIUM_REQUIRE(problem.empty(), ExitCode::kUsage, "model ", recipe.model,
                 ": its parameters and running statistics in evaluation are not those that it has "
                 "in training (in evaluation it ",
                 problem,
                 "); a model must create the same ones in both, whatever Network::mode() is");
  for (Worker& worker : workers) {
    // Training waits meanwhile.
    const CompileOptions options{.worker = worker.number,
                                 .arena_of = &worker.runs.back().program.executable()};
    worker.evaluation_batch = BatchMemory(*device, data.fields, evaluation_batch);
    worker.evaluation = std::make_unique<Inference>(
        *device, worker.number, BoundExecutable(*device, graph, options), graph,
        recipe.evaluation.views, tensors, worker.evaluation_batch);
    if (!views) continue;
    worker.evaluation_loss = BoundExecutable(*device, loss, options);
    worker.evaluation_batch.bind(worker.evaluation_loss, loss);
    for (const NamedValue& output : graph.outputs())
      worker.evaluation_loss.bind_input(kOutputPrefix + output.name,
                                        worker.evaluation->output_view(output.name));
    for (const NamedValue& output : loss.outputs()) {
      const Staging& memory =
          worker.scores.emplace_back(output.name, Staging(*device, loss.type(output.value).bytes()))
              .second;
      worker.evaluation_loss.bind_output(output.name, memory.view());
    }
  }
}

const Staging* Worker::score(std::string_view name) const {
  for (const auto& [own, memory] : scores)
    if (own == name) return &memory;
  return evaluation->find_output(name);
}

EvaluationResult Trainer::evaluate(const std::atomic<int>* stop) {
  State& s = *state_;
  const auto start = Clock::now();
  const std::int64_t count = s.held_out->examples();
  const std::vector<Field>& fields = s.data.fields;
  const Field* const target = target_of(fields);
  const std::size_t target_field =
      target == nullptr ? 0 : static_cast<std::size_t>(target - fields.data());
  // Of each example, its items summed.
  std::vector<float> losses(static_cast<std::size_t>(count));
  const bool weighted = s.program.is_weighted();
  std::vector<std::int64_t> weights(weighted ? losses.size() : 0);
  Predictions predictions;
  if (s.workers[0].score("predictions") != nullptr && target != nullptr &&
      target->shape.elements() == 1) {
    predictions.dtype = target->dtype;
    if (target->deviation.size() == 1)
      predictions.mean = target->mean[0], predictions.deviation = target->deviation[0];
    predictions.targets.resize(losses.size());
    predictions.predicted.resize(losses.size());
  }
  const bool predicts = !predictions.targets.empty();
  // The set is cut into streams, each read in order, side by side with others. Where nothing is
  // carried, each example is a stream. A rank has a share of them, whatever its batch: that may
  // differ between ranks. Each batch is for whichever worker is free.
  const std::int64_t streams = s.program.carried.empty() ? count : s.recipe.evaluation.streams;
  const auto first_example = [&](std::int64_t stream) { return count * stream / streams; };
  const auto first_stream = [&](int rank) { return streams * rank / s.ranks(); };
  const auto first_of = [&](int rank) { return first_example(first_stream(rank)); };
  const std::int64_t end = first_stream(s.rank() + 1);
  std::atomic<std::int64_t> next{first_stream(s.rank())};
  std::atomic<bool> stopped_within{false};  // streams
  const auto is_stopped = [&] { return stop != nullptr && stop->load() != 0; };
  const std::int64_t items =
      s.workers[0].score("losses")->bytes() / kWord / s.evaluation_batch;  // of an example
  s.settle();
  s.threads->run_on_each([&](int index) {
    Worker& worker = s.workers[static_cast<std::size_t>(index)];
    const BatchMemory& batch = worker.evaluation_batch;
    std::vector<std::int64_t> examples;  // of the batch's rows; -1: the row's stream has ended
    const Staging &own_losses = *worker.score("losses"),
                  *const own_weights = worker.score("weights"),
                  *const predicted = worker.score("predictions");
    // What the network makes of them.
    const auto keep = [&] {
      own_losses.receive();
      if (weighted) own_weights->receive();
      if (predicts) predicted->receive();
      for (std::size_t row = 0; row < examples.size(); ++row) {
        if (examples[row] < 0) continue;
        const auto example = static_cast<std::size_t>(examples[row]);
        const auto first = static_cast<std::int64_t>(row) * items;
        const float* const own = own_losses.host<float>() + first;
        losses[example] =
            items == 1 ? *own : lane_sum(items, [&](std::int64_t k) { return own[k]; });
        if (weighted)
          weights[example] = sum_of_weights(
              {own_weights->host<std::int32_t>() + first, static_cast<std::size_t>(items)});
        if (!predicts) continue;
        predictions.predicted[example] = predicted->host<std::int32_t>()[row];
        predictions.targets[example] = batch.host().at<std::int32_t>(target_field)[row];
      }
    };
    while (!is_stopped()) {
      const std::int64_t first = next.fetch_add(s.evaluation_batch);
      if (first >= end) break;
      const std::int64_t rows = std::min(s.evaluation_batch, end - first);
      worker.evaluation->begin();
      // Streams differ in their lengths by one example at most.
      const std::int64_t length = (count + streams - 1) / streams;
      for (std::int64_t at = 0; at < length; ++at) {
        if (at > 0 && is_stopped()) {
          stopped_within = true;
          return;
        }
        examples.clear();
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t example = first_example(first + row) + at;
          const bool goes_on = example < first_example(first + row + 1);
          examples.push_back(goes_on ? example : -1);
          if (goes_on) s.held_out_loader->example(example, row, batch.host());
        }
        batch.clear_integers(rows);  // what fills up the last batch is not counted
        batch.send();
        worker.evaluation->run();
        if (worker.evaluation_loss) worker.evaluation_loss.run();
        keep();
      }
    }
  });
  EvaluationResult result{.step = s.done};
  // Where a rank was stopped, the others' work is for nothing.
  bool stopped = next < end || stopped_within;
  if (s.ranks() > 1) stopped = s.placement.ranks->agree(stopped ? 1 : 0) != 0;
  if (stopped) return result;
  if (s.ranks() > 1) {
    const auto gather = [&](auto& values) {
      std::vector<std::span<std::byte>> parts;
      for (int rank = 0; rank < s.ranks(); ++rank) {
        const auto from = static_cast<std::size_t>(first_of(rank));
        const std::size_t size = static_cast<std::size_t>(first_of(rank + 1)) - from;
        parts.push_back(std::as_writable_bytes(std::span(values).subspan(from, size)));
      }
      s.exchange->all_gather(parts);
    };
    gather(losses);
    if (weighted) gather(weights);
    if (predicts) gather(predictions.predicted);
    if (predicts) gather(predictions.targets);
  }
  result.sums = {.examples = count, .items = count * items, .weight = count * items};
  if (weighted) {
    result.sums.weight = weight_of_set(weights);
    result.sums.counts[kWeightCount] = result.sums.weight;
  }
  result.sums.loss =
      lane_sum(count, [&](std::int64_t i) { return losses[static_cast<std::size_t>(i)]; }) /
      static_cast<float>(result.sums.weight);
  if (predicts && predictions.dtype == DType::kI32) {
    result.confusion = ConfusionMatrix(target->below);
    for (std::size_t i = 0; i < losses.size(); ++i)
      result.confusion.add(predictions.targets[i], predictions.predicted[i],
                           weighted ? weights[i] : 1);
    result.sums.counts[kCorrectCount] = result.confusion.correct();
  }
  add_metrics(result, metrics_of(s.model, fields),
              weighted ? counted(predictions, weights) : predictions);
  if (predicts) choose_shown(result, losses, predictions, weights);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace podium
