// What a run resolved before step 1, as text for people.
#include <algorithm>

#include "base/error.h"
#include "base/words.h"
#include "files/byte_text.h"
#include "train/loop/run_ranks.h"
#include "train/machine/memory.h"
#include "train/run/run.h"

namespace podium {
namespace {

// What an optimizer does as it acts on the mean gradient, and on which parameters.
std::string describe_optimizer(const Trainer& trainer, const Optimizers& optimizers,
                               std::size_t index) {
  const Recipe& r = trainer.recipe();
  const OptimizerOptions& own = optimizers.options[index];
  double peak = 0;
  std::int64_t peak_step = 0;
  // Of a very long run, some steps only: schedules are smooth, or constant for long.
  const std::int64_t stride = trainer.total_steps() / 1'000'000 + 1;
  for (std::int64_t step = 0; step < trainer.total_steps(); step += stride) {
    const double rate =
        learning_rate_at(own, r.schedule, {step, trainer.steps_per_epoch(), trainer.total_steps()});
    if (rate > peak) peak = rate, peak_step = step;
  }
  const bool per_replica = own.decay == Decay::kPerReplica;
  const double decay = own.weight_decay * (per_replica ? static_cast<double>(r.replicas) : 1.0);
  std::string of;
  if (!optimizers.groups.empty()) {
    std::int64_t values = 0, tensors = 0;
    for (const FlatEntry& entry : trainer.layout().parameters) {
      if (!entry.trained || entry.optimizer != index) continue;
      ++tensors, values += entry.elements();
    }
    of = cat(" of ", count_text(tensors, "tensor"), " (", count_text(values, "value"), ")");
  }
  return cat(
      own.name, of, ", peak learning rate ", peak, " at step ", peak_step,
      own.epochs == 0 ? "" : cat(", 0 after ", own.epochs, own.epochs == 1 ? " epoch" : " epochs"),
      ", weight decay ", decay, is_decoupled(own) ? ", decoupled" : " on the mean gradient",
      decay == 0 || is_decoupled(own) ? ""
      : per_replica
          ? cat(" (", own.weight_decay, " in each of ", count_text(r.replicas, "replica"), ")")
          : std::string(" (once)"));
}

// What groups of parameters freeze.
std::string describe_frozen(const Trainer& trainer, const Optimizers& optimizers) {
  std::int64_t tensors = 0, values = 0, statistics = 0;
  for (const FlatEntry& entry : trainer.layout().parameters)
    if (optimizers.freezes(entry.name)) ++tensors, values += entry.elements();
  for (const FlatEntry& entry : trainer.layout().statistics) statistics += entry.trained ? 0 : 1;
  if (tensors == 0) return "";
  return cat(count_text(tensors, "tensor"), " (", count_text(values, "value"), ") and ",
             count_text(statistics, "running statistic"));
}

}  // namespace

namespace {

// What a row of a batch is called: what people count, unless a row has many of them.
std::string example_word(const Trainer& trainer) {
  return trainer.items_per_step() == trainer.recipe().batch ? trainer.words().item : "example";
}

}  // namespace

std::string describe(const Trainer& trainer) {
  const Recipe& r = trainer.recipe();
  const MemoryUse m = trainer.memory_use();
  std::int64_t parameters = 0;
  for (const FlatEntry& entry : trainer.layout().parameters) parameters += entry.elements();
  const std::vector<Field> fields = trainer.evaluation_set().fields();
  const Field* const target = target_of(fields);
  std::string text;
  text += cat("recipe        ", r.name, ": model ", r.model, ", data ", r.data,
              has_pictures(r) ? cat(" with ", target->below, " classes") : "", ", seed ", r.seed,
              ", ", count_text(trainer.total_steps(), "step"), ", ", trainer.steps_per_epoch(),
              " per epoch\n");
  text += cat("data          ", trainer.training_data(), "\n");
  text += cat("evaluated on  ", trainer.evaluation_data(), "\n");
  text += cat("batch         B = ", r.batch, ", R = ", count_text(r.replicas, "replica"), " of ",
              count_text(r.batch / r.replicas, example_word(trainer)), "; batch-norm span ",
              r.batch / r.replicas, "\n");
  std::vector<std::string> lengths;
  for (const std::int64_t length : trainer.training_set().bucket_lengths())
    lengths.push_back(cat(length));
  if (!lengths.empty())
    text += cat("lengths       of a batch's examples: ", join_words(lengths), "\n");
  const std::int64_t items = trainer.items_per_step();
  const bool is_weighted =
      std::ranges::find(trainer.counts(), kWeightCount) != trainer.counts().end();
  text += cat("gradient      of the mean loss over all ", lengths.empty() ? "" : "of at most ",
              items, " ", items == r.batch ? "example" : trainer.words().item, "s (each has ",
              is_weighted ? "its weight / the sum of all weights" : cat("weight 1/", items),
              "), summed over replicas by the tree",
              r.clip_norm == 0 ? "" : cat(", scaled down where their norm exceeds ", r.clip_norm),
              "\n");
  const Optimizers optimizers(r);
  for (std::size_t i = 0; i < optimizers.options.size(); ++i)
    text += cat("optimizer     ", describe_optimizer(trainer, optimizers, i), "\n");
  if (const std::string frozen = describe_frozen(trainer, optimizers); !frozen.empty())
    text += cat("frozen        ", frozen, "\n");
  text += cat("precision     ", r.precision, "\n");
  const int ranks = RunRanks(trainer.placement()).count();
  text += cat("placement     ", ranks == 1 ? "" : cat(ranks, " ranks, rank 0 of "),
              count_text(trainer.placement().workers, "worker"), " of ",
              count_text(trainer.placement().threads, "thread"), ", backend ",
              trainer.device().name(), " (", trainer.device().description(), ")",
              trainer.placement().input_threads == 0
                  ? ""
                  : ", batches prepared in advance by " +
                        count_text(trainer.placement().input_threads, "thread"),
              "\n");
  const std::string carrier = ranks == 1 ? "" : trainer.placement().ranks->carrier();
  if (!carrier.empty()) text += cat("messages      ", carrier, "\n");
  text +=
      cat("memory        ", format_bytes(m.total()), ": parameters ", format_bytes(m.parameters),
          " (", count_text(parameters, "value"), "), statistics ", format_bytes(m.statistics),
          m.carried == 0 ? "" : cat(", carried ", format_bytes(m.carried)), ", optimizer ",
          format_bytes(m.optimizer),
          m.gradients == 0 ? "" : cat(", gradients ", format_bytes(m.gradients)),
          ranks == 1 ? "" : cat(", exchange ", format_bytes(m.exchange)), ", activations ",
          format_bytes(m.training_activations), " in training",
          m.gradients == 0 ? " (as compiled, with gradients)" : "", " and ",
          m.evaluation_activations == 0 ? "" : cat(format_bytes(m.evaluation_activations), " in "),
          "evaluation (batch ", trainer.evaluation_batch(), "), batches ", format_bytes(m.batches),
          ", checkpoint ", format_bytes(m.checkpoint), ", data ", format_bytes(m.data), "\n");
  return text;
}

}  // namespace podium
