// Evaluation: every example once, counted in integers. What an example gives depends on neither the
// evaluation batch nor the worker (train/loop/inference.h). The mean of the losses is summed over
// the whole set in one stated order (docs/numerics.md, image sum).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "base/clock.h"
#include "ops/reference_sums.h"
#include "train/loop/trainer_state.h"

namespace podium {

void ConfusionMatrix::add(std::int64_t label, std::int64_t guess, std::int64_t examples) {
  PODIUM_CHECK(label >= 0 && label < classes_ && guess >= -1 && guess < classes_, label, " ",
               guess);
  if (examples > 0) cells_[{label, guess}] += examples;
}

std::int64_t ConfusionMatrix::at(std::int64_t label, std::int64_t guess) const {
  const auto cell = cells_.find({label, guess});
  return cell == cells_.end() ? 0 : cell->second;
}

std::int64_t ConfusionMatrix::examples(std::int64_t label) const {
  std::int64_t sum = 0;
  for (auto cell = cells_.lower_bound({label, -1});
       cell != cells_.end() && cell->first.first == label; ++cell)
    sum += cell->second;
  return sum;
}

std::int64_t ConfusionMatrix::correct() const {
  std::int64_t sum = 0;
  for (const auto& [place, count] : cells_)
    if (place.first == place.second) sum += count;
  return sum;
}

double ConfusionMatrix::accuracy(std::int64_t label) const {
  const std::int64_t all = examples(label);
  return all == 0 ? 0 : static_cast<double>(at(label, label)) / static_cast<double>(all);
}

namespace {

// The examples that people are shown. `worst` are in the order of their losses.
void choose_shown(EvaluationResult& result, const Source& set, std::span<const float> losses,
                  std::span<const std::int32_t> guesses) {
  std::vector<ExampleGuess> mistakes;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const ExampleGuess example{.index = static_cast<std::int64_t>(i),
                               .label = set.label(static_cast<std::int64_t>(i)),
                               .guess = guesses[i],
                               .loss = losses[i]};
    if (example.index < EvaluationResult::kShown) result.first.push_back(example);
    if (example.mistaken()) mistakes.push_back(example);
  }
  // A loss that is no number is the largest.
  const auto worse = [](const ExampleGuess& a, const ExampleGuess& b) {
    const bool odd_a = std::isnan(a.loss), odd_b = std::isnan(b.loss);
    if (odd_a != odd_b) return odd_a;
    if (!odd_a && a.loss != b.loss) return a.loss > b.loss;
    return a.index < b.index;
  };
  const auto shown = std::min<std::ptrdiff_t>(std::ssize(mistakes), EvaluationResult::kShown);
  std::ranges::partial_sort(mistakes, mistakes.begin() + shown, worse);
  result.worst.assign(mistakes.begin(), mistakes.begin() + shown);
}

}  // namespace

void Trainer::State::prepare_evaluation() {
  const std::int64_t limit = workers[0].program.executable().plan().arena_bytes;
  // 256, halved until evaluation fits into the memory of training, and its images take no more than
  // this; never more than there are.
  constexpr std::int64_t kMostImageBytes = std::int64_t{48} << 20;
  evaluation_batch = std::min(
      recipe.evaluation.batch != 0 ? recipe.evaluation.batch : std::int64_t{256}, data.held_out);
  Graph graph;
  while (true) {
    graph = build_evaluation_program(model, inputs_of(evaluation_batch));
    if (recipe.evaluation.batch != 0 || evaluation_batch == 1 ||
        (device->plan(graph, {}).arena_bytes <= limit &&
         evaluation_batch * data.image_values() * kWord <= kMostImageBytes))
      break;
    evaluation_batch /= 2;
  }
  const std::vector<DeviceTensor> tensors = values();
  const std::string problem = binding_problem(graph, tensors);
  PODIUM_REQUIRE(problem.empty(), ExitCode::kUsage, "model ", recipe.model,
                 ": its parameters and running statistics in evaluation are not those that it has "
                 "in training (in evaluation it ",
                 problem,
                 "); a model must create the same ones in both, whatever Network::mode() is");
  const Graph loss = build_loss_program(evaluation_batch, data.classes, recipe.label_smoothing);
  for (Worker& worker : workers) {
    // Training waits meanwhile.
    const CompileOptions options{.worker = worker.number, .arena_of = &worker.program.executable()};
    worker.evaluation = std::make_unique<Inference>(*device, worker.number,
                                                    BoundExecutable(*device, graph, options), graph,
                                                    recipe.evaluation.views, tensors);
    for (Staging* memory : {&worker.evaluation_labels, &worker.evaluation_losses, &worker.guesses})
      *memory = Staging(*device, evaluation_batch * kWord);
    worker.evaluation_loss = BoundExecutable(*device, loss, options);
    worker.evaluation_loss.bind_input("logits", worker.evaluation->logits_view());
    worker.evaluation_loss.bind_input("labels", worker.evaluation_labels.view());
    worker.evaluation_loss.bind_output("losses", worker.evaluation_losses.view());
    worker.evaluation_loss.bind_output("guesses", worker.guesses.view());
  }
}

EvaluationResult Trainer::evaluate(const std::atomic<int>* stop) {
  State& s = *state_;
  const auto start = Clock::now();
  const std::int64_t count = s.held_out->count, classes = s.held_out->classes;
  std::vector<float> losses(static_cast<std::size_t>(count));
  std::vector<std::int32_t> guesses(losses.size(), -2);  // -2: not evaluated, which is a bug
  // This rank's share of the examples, whatever its batch: that may differ between ranks. Each
  // batch is for whichever worker is free.
  const auto first_of = [&](int rank) { return count * rank / s.ranks(); };
  const std::int64_t end = first_of(s.rank() + 1);
  std::atomic<std::int64_t> next{first_of(s.rank())};
  s.settle();
  s.threads->run_on_each([&](int index) {
    Worker& worker = s.workers[static_cast<std::size_t>(index)];
    Inference& evaluation = *worker.evaluation;
    auto* labels = worker.evaluation_labels.host<std::int32_t>();
    while (stop == nullptr || stop->load() == 0) {
      const std::int64_t first = next.fetch_add(s.evaluation_batch);
      if (first >= end) break;
      const std::int64_t n = std::min(s.evaluation_batch, end - first);
      s.held_out_loader->in_order(first, n, evaluation.images(), labels);
      std::fill(labels + n, labels + s.evaluation_batch,
                0);  // what fills up the last batch is not counted
      evaluation.run();
      worker.evaluation_labels.send();
      worker.evaluation_loss.run();
      worker.evaluation_losses.receive();
      std::copy_n(worker.evaluation_losses.host<float>(), n, losses.begin() + first);
      worker.guesses.receive();
      std::copy_n(worker.guesses.host<std::int32_t>(), n, guesses.begin() + first);
    }
  });
  EvaluationResult result{.step = s.done};
  // Where a rank was stopped, the others' work is for nothing.
  bool stopped = next < end;
  if (s.ranks() > 1) stopped = s.placement.ranks->agree(stopped ? 1 : 0) != 0;
  if (stopped) return result;
  result.examples = count;
  if (s.ranks() > 1) {
    std::vector<std::span<std::byte>> all_guesses, all_losses;
    for (int rank = 0; rank < s.ranks(); ++rank) {
      const auto from = static_cast<std::size_t>(first_of(rank));
      const std::size_t size = static_cast<std::size_t>(first_of(rank + 1)) - from;
      all_guesses.push_back(std::as_writable_bytes(std::span(guesses).subspan(from, size)));
      all_losses.push_back(std::as_writable_bytes(std::span(losses).subspan(from, size)));
    }
    s.exchange->all_gather(all_guesses);
    s.exchange->all_gather(all_losses);
  }
  result.confusion = ConfusionMatrix(classes);
  for (std::int64_t i = 0; i < count; ++i)
    result.confusion.add(s.held_out->label(i), guesses[static_cast<std::size_t>(i)]);
  result.correct = result.confusion.correct();
  result.loss =
      lane_sum(count, [&](std::int64_t i) { return losses[static_cast<std::size_t>(i)]; }) /
      static_cast<float>(count);
  choose_shown(result, *s.held_out, losses, guesses);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace podium
