// The keys of a recipe, one by one: a function for each table.
#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <type_traits>

#include "base/numerics/view.h"
#include "data/datasets/dataset.h"
#include "nn/models.h"
#include "train/recipe/recipe_key_lists.h"

namespace podium {
namespace {

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : all_models()) names.emplace_back(model.name);
  return names;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const DatasetInfo& info : dataset_list()) names.push_back(info.name);
  names.emplace_back(kOwnData);
  for (const char* name : {kFolderData, kTarData, kTfrecordData, kTextData, kTableData,
                           kSentenceData, kPairData, kSoundData})
    names.emplace_back(name);
  return names;
}

std::vector<RecipeKey> top_level_keys() {
  return {
      {.table = "",
       .name = "name",
       .field = PODIUM_RECIPE_FIELD(name),
       .decides_result = false,
       .fallback = "file name",
       .meaning = "name used for its runs; by default the file name without `.toml`"},
      {.table = "",
       .name = "description",
       .field = PODIUM_RECIPE_FIELD(description),
       .decides_result = false,
       .meaning = "one line, shown by `podium recipes`"},
      {.table = "",
       .name = "model",
       .field = PODIUM_RECIPE_FIELD(model),
       .names = model_names,
       .required = true,
       .meaning = "the network"},
      {.table = "",
       .name = "data",
       .field = PODIUM_RECIPE_FIELD(data),
       .names = dataset_names,
       .required = true,
       .meaning = "the dataset. `own`: sets that a program passes to run(), which records this "
                  "name. `folder:PATH`: the pictures in a folder; the same as `[data]` with "
                  "`name = \"folder\"` and `path`. `tar:PATTERN`, `tfrecord:PATTERN`: those in "
                  "shards. `text:FILE`: a text, with tokens as examples. `table:FILE`: a table, "
                  "with rows. `sentences:FILE`: sentences, each of a class. `pairs:FILE`: "
                  "sentences and their translations. `sounds:FOLDER`: recordings "
                  "in a folder or archive, each of a class"},
      {.table = "",
       .name = "train_examples",
       .field = PODIUM_RECIPE_FIELD(train_examples),
       .range = between(0, 1e7),
       .unit = "examples",
       .meaning = "size of the training set; only for generated datasets; 0: the dataset's "
                  "default. For data in files, a run records their number, and fails if the "
                  "recipe states another"},
      {.table = "",
       .name = "test_examples",
       .field = PODIUM_RECIPE_FIELD(test_examples),
       .range = between(0, 1e7),
       .unit = "examples",
       .meaning = "size of the test set; only for generated datasets; 0: the dataset's default. "
                  "For data in files, as `train_examples`"},
      {.table = "",
       .name = "validation",
       .field = PODIUM_RECIPE_FIELD(validation),
       .range = between(0, kMostExamples),
       .unit = "examples",
       .meaning = "number of training examples, taken from the end, that are held out and "
                  "evaluated instead of the test set, to choose settings without the test set; 0: "
                  "none"},
      {.table = "",
       .name = "batch",
       .field = PODIUM_RECIPE_FIELD(batch),
       .range = between(1, kMostExamples),
       .required = true,
       .unit = "examples",
       .meaning = "global batch B: examples per step, over all replicas"},
      {.table = "",
       .name = "replicas",
       .field = PODIUM_RECIPE_FIELD(replicas),
       .range = between(1, 65536),
       .meaning = "R, the number of replicas; it must divide the batch. Each replica computes B/R "
                  "examples with its own batch-norm statistics, whichever worker runs it"},
      {.table = "",
       .name = "seed",
       .field = PODIUM_RECIPE_FIELD(seed),
       .range = at_least(0),
       .meaning = "seed of everything random: initial parameters, order of examples, "
                  "augmentation, dropout"},
      {.table = "",
       .name = "epochs",
       .field = PODIUM_RECIPE_FIELD(epochs),
       .range = between(0, 1e6),
       .unit = "epochs",
       .meaning =
           "length of the run. An epoch has floor(examples / batch) steps (of each bucket, where "
           "there are `data.buckets`); the remaining examples are dropped. Give exactly one "
           "of `epochs` and `steps`"},
      {.table = "",
       .name = "steps",
       .field = PODIUM_RECIPE_FIELD(steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .meaning = "length of the run, instead of `epochs`"},
      {.table = "",
       .name = "precision",
       .field = PODIUM_RECIPE_FIELD(precision),
       .choices = {"fp32", "bf16"},
       .meaning = "precision of the operands of convolutions and matrix products, and of images "
                  "between operations; sums and all else are FP32"},
      {.table = "",
       .name = "bf16_order",
       .field = PODIUM_RECIPE_FIELD(bf16_order),
       .choices = {kBf16OrderNames.begin(), kBf16OrderNames.end()},
       .decides_kind = true,
       .fallback = "what the device of the run's first start decides: `amx` on a CPU",
       .meaning = "how the products of BF16 operands are added: as AMX does, as the instruction "
                  "VDPBF16PS, or as tensor cores of compute capability 8 (`ampere`) or of 9 and "
                  "10 (`hopper`). A run records the order with which it began, and keeps it "
                  "wherever it goes on"},
      {.table = "",
       .name = "label_smoothing",
       .field = PODIUM_RECIPE_FIELD(label_smoothing),
       .range = below_one(),
       .unit = "probability",
       .meaning = "share of each label that is spread evenly over all classes"},
  };
}

// The keys of [optimizer] and of a group of parameters: `group` is its number, 0 of [optimizer].
std::vector<RecipeKey> optimizer_keys(std::size_t group) {
  const bool is_group = group != 0;
  const std::string table = is_group ? cat(kGroupTable, ".", group) : std::string("optimizer");
  const auto options = [group](Recipe& r) -> OptimizerOptions& {
    return group == 0 ? r.optimizer : r.optimizer_groups[group - 1].optimizer;
  };
  const auto field = [options](auto OptimizerOptions::*member) {
    return field_at([=](Recipe & r) -> auto& { return options(r).*member; });
  };
  using Names = std::vector<std::string>;
  const Names adam = {"adam", "adamw"};
  const Names with_momentum = is_group ? Names{"sgd", "muon"} : Names{"sgd"};
  const Names with_velocity = is_group ? Names{"sgd", "lars", "muon"} : Names{"sgd", "lars"};
  const Names with_decay = is_group ? Names{"sgd", "lars", "adam", "adamw"} : Names{};
  std::vector<RecipeKey> keys = {
      {.table = table,
       .name = "name",
       .field = field(&OptimizerOptions::name),
       .choices = is_group ? Names{"sgd", "lars", "adam", "adamw", "muon"}
                           : Names{"sgd", "lars", "adam", "adamw"},
       .meaning = cat("`sgd`: with `momentum`, plain or `nesterov`. `lars`: `sgd` with a learning "
                      "rate for each parameter, scaled by the norms of the parameter and its "
                      "gradient. `adam`: Kingma and "
                      "Ba, with bias correction. `adamw`: Adam with decoupled weight decay",
                      is_group ? ". `muon`: for matrices and convolution weights; each weight is "
                                 "rescaled to norm sqrt(rows), then moved along its "
                                 "orthogonalised momentum"
                               : "")},
      {.table = table,
       .name = "learning_rate",
       .field = field(&OptimizerOptions::learning_rate),
       .range = at_least(0),
       .meaning = "learning rate before the schedule; it multiplies the mean gradient over the "
                  "global batch"},
      {.table = table,
       .name = "momentum",
       .field = field(&OptimizerOptions::momentum),
       .range = below_one(),
       .fits = with_velocity,
       .meaning = "v = momentum v + g; for `lars`, v = momentum v + rate g"},
      {.table = table,
       .name = "nesterov",
       .field = field(&OptimizerOptions::nesterov),
       .fits = with_momentum,
       .meaning = "step along g + momentum v instead of v"},
      {.table = table,
       .name = "trust",
       .field = field(&OptimizerOptions::trust),
       .range = at_least(0),
       .fits = {"lars"},
       .meaning = "the rate of a parameter w with gradient g is learning_rate * trust * norm(w) / "
                  "(norm(g) + weight_decay * norm(w)); for parameters that do not decay, it is "
                  "learning_rate"},
      {.table = table,
       .name = "beta1",
       .field = field(&OptimizerOptions::beta1),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay rate of the mean gradient"},
      {.table = table,
       .name = "beta2",
       .field = field(&OptimizerOptions::beta2),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay rate of the mean squared gradient"},
      {.table = table,
       .name = "epsilon",
       .field = field(&OptimizerOptions::epsilon),
       .range = above(0),
       .fits = adam,
       .meaning = "added to the square root of the mean squared gradient"},
      {.table = table,
       .name = "weight_decay",
       .field = field(&OptimizerOptions::weight_decay),
       .range = at_least(0),
       .fits = with_decay,
       .meaning = "multiplied by the parameter and added to the mean gradient; for `adamw`, "
                  "multiplied by the learning rate and the parameter, and subtracted from the "
                  "parameter"},
      {.table = table,
       .name = "decay",
       .field = field(&OptimizerOptions::decay),
       .choices = {"once", "per-replica"},
       .meaning = "`once`: weight decay acts as written. `per-replica`: it acts R times as "
                  "strongly, as in estimators that added it to each replica's gradient and summed "
                  "these"},
      {.table = table,
       .name = "decay_all",
       .field = field(&OptimizerOptions::decay_all),
       .meaning = cat("apply weight decay to every parameter", is_group ? " of the group" : "",
                      " instead of only the weights of convolutions, dense layers and embeddings")},
  };
  if (is_group) {
    keys.push_back(
        {.table = table,
         .name = "epochs",
         .field = field(&OptimizerOptions::epochs),
         .range = between(0, 1e6),
         .unit = "epochs",
         .meaning = "epochs the schedule spans; these parameters are then frozen; 0: all epochs"});
    for (RecipeKey& key : keys)
      if (key.name != "epochs") key.fallback = "`[optimizer]`'s";
  } else {
    keys.push_back({.table = table,
                    .name = "clip_norm",
                    .field = PODIUM_RECIPE_FIELD(clip_norm),
                    .range = at_least(0),
                    .meaning = "if the norm of the mean gradient of all parameters together "
                               "exceeds it, all gradients are scaled down to it, before weight "
                               "decay; 0: no clipping"});
  }
  return keys;
}

// Of a group of parameters.
std::vector<RecipeKey> group_keys(std::size_t group) {
  const auto its = [group](Recipe& r) -> OptimizerGroup& { return r.optimizer_groups[group - 1]; };
  std::vector<RecipeKey> keys = {
      {.table = cat(kGroupTable, ".", group),
       .name = "parameters",
       .field = field_at([=](Recipe & r) -> auto& { return its(r).parameters; }),
       .required = true,
       .meaning = "patterns of parameter names: `*` matches any characters, `?` matches one. A "
                  "parameter "
                  "belongs to the first group with a pattern that matches its name"},
      {.table = cat(kGroupTable, ".", group),
       .name = "frozen",
       .field = field_at([=](Recipe & r) -> auto& { return its(r).frozen; }),
       .meaning =
           "do not train these parameters: they keep their initial values, without gradients or "
           "optimizer state, and the keys below do not apply. A batch normalisation whose "
           "parameters are all frozen uses its running statistics, which do not change"}};
  std::ranges::move(optimizer_keys(group), std::back_inserter(keys));
  for (RecipeKey& key : keys) key.group = group;
  return keys;
}

std::vector<RecipeKey> schedule_keys() {
  const std::vector<std::string> points = {"piecewise", "linear"}, exponential = {"exponential"};
  return {
      {.table = "schedule",
       .name = "name",
       .field = PODIUM_RECIPE_FIELD(schedule.name),
       .choices = {"constant", "piecewise", "linear", "exponential", "cosine", "polynomial"},
       .meaning = "learning rate of step s (from 0). `constant`: learning_rate. `piecewise`: "
                  "learning_rate * factors[number of boundaries <= s]. `linear`: learning_rate * "
                  "f(s), where f interpolates the points (boundaries[i], factors[i]) linearly and "
                  "is constant outside them. `exponential`: floor + learning_rate * exp(-s / "
                  "time_constant). `cosine`: floor + (learning_rate - floor) * (1 + cos(pi t)) / "
                  "2, where t rises from 0 at the end of the warm-up to 1 at the end of the run. "
                  "`polynomial`: floor + (learning_rate - floor) * (1 - t)^power, with the same t"},
      {.table = "schedule",
       .name = "boundaries",
       .field = PODIUM_RECIPE_FIELD(schedule.boundaries),
       .range = at_least(0),
       .fits = points,
       .unit = "`unit`",
       .meaning = "points in time, in increasing order"},
      {.table = "schedule",
       .name = "factors",
       .field = PODIUM_RECIPE_FIELD(schedule.factors),
       .range = at_least(0),
       .fits = points,
       .meaning = "factors of the learning rate: one more than boundaries (piecewise), or as many "
                  "(linear)"},
      {.table = "schedule",
       .name = "unit",
       .field = PODIUM_RECIPE_FIELD(schedule.unit),
       .choices = {"step", "epoch"},
       .meaning = "unit of `boundaries`, `time_constant` and `warmup`"},
      {.table = "schedule",
       .name = "time_constant",
       .field = PODIUM_RECIPE_FIELD(schedule.time_constant),
       .range = at_least(0),
       .fits = exponential,
       .unit = "`unit`",
       .meaning = "time until the rate has fallen to 1/e of its initial value"},
      {.table = "schedule",
       .name = "floor",
       .field = PODIUM_RECIPE_FIELD(schedule.floor),
       .range = at_least(0),
       .fits = {"exponential", "cosine", "polynomial"},
       .meaning = "lower limit of the learning rate"},
      {.table = "schedule",
       .name = "power",
       .field = PODIUM_RECIPE_FIELD(schedule.power),
       .range = between(1, 10),
       .fits = {"polynomial"},
       .meaning = "power of the decay"},
      {.table = "schedule",
       .name = "warmup",
       .field = PODIUM_RECIPE_FIELD(schedule.warmup),
       .range = at_least(0),
       .unit = "`unit`",
       .meaning =
           "length W of a linear warm-up, with any schedule: the learning rate of step s < W "
           "is multiplied by (s + 1) / W; 0: none"},
  };
}

std::vector<RecipeKey> init_keys() {
  return {
      {.table = "init",
       .name = "from",
       .field = PODIUM_RECIPE_FIELD(init.from),
       .decides_result = false,
       .meaning = "run folder, checkpoint folder, safetensors file or state dict of torch.save "
                  "whose tensors are the initial "
                  "values of the parameters and running statistics of equal name"},
      {.table = "init",
       .name = "hash",
       .field = PODIUM_RECIPE_FIELD(init.hash),
       .fallback = "that of `from`",
       .meaning = "hash of the names and values of these tensors; training fails if they differ"},
      {.table = "init",
       .name = "map",
       .field = PODIUM_RECIPE_FIELD(init.map),
       .meaning =
           "rules `\"old*=new*\"` that rename the tensors of `from`; the first match applies. "
           "Without a right side, the tensor is not used"},
      {.table = "init",
       .name = "fresh",
       .field = PODIUM_RECIPE_FIELD(init.fresh),
       .meaning = "patterns of names that get the initial values they have without `[init]`, such "
                  "as a new head; any other name that `from` lacks is an error"},
  };
}

std::vector<RecipeKey> evaluation_keys() {
  return {
      {.table = "evaluation",
       .name = "every_epochs",
       .field = PODIUM_RECIPE_FIELD(evaluation.every_epochs),
       .range = between(0, 1e6),
       .unit = "epochs",
       .decides_result = false,
       .meaning = "epochs between evaluations; 0: only at the end"},
      {.table = "evaluation",
       .name = "batch",
       .field = PODIUM_RECIPE_FIELD(evaluation.batch),
       .range = between(0, kMostExamples),
       .unit = "examples",
       .decides_result = false,
       .meaning = "affects speed and memory, never the result; 0: chosen so that evaluation needs "
                  "no more memory than training"},
      {.table = "evaluation",
       .name = "views",
       .field = PODIUM_RECIPE_FIELD(evaluation.views),
       .numbers = {kViewCounts.begin(), kViewCounts.end()},
       .meaning = "number of views of each image; the network's outputs for them are averaged. 1: "
                  "the image. 2: also its mirror image. 6: also both of these, shifted by one "
                  "pixel down and right, and up and left, at half the weight"},
      {.table = "evaluation",
       .name = "streams",
       .field = PODIUM_RECIPE_FIELD(evaluation.streams),
       .range = between(1, kMostExamples),
       .meaning = "only for models that carry state from step to step: the held-out set is cut "
                  "into this many parts, and each is evaluated from its beginning to its end, from "
                  "state of zeros. Fewer carry state further, more are faster"},
      {.table = "evaluation",
       .name = "translations",
       .field = PODIUM_RECIPE_FIELD(evaluation.translations),
       .range = between(0, kMostExamples),
       .decides_result = false,
       .meaning = "so many pairs of the held-out set are translated, always by the most probable "
                  "token, for BLEU and for a few translations on the run's page"},
  };
}

std::vector<RecipeKey> run_keys() {
  return {
      {.table = "run",
       .name = "checkpoint_every_steps",
       .field = PODIUM_RECIPE_FIELD(checkpoint_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "steps between checkpoints; 0: once per epoch"},
      {.table = "run",
       .name = "checkpoints_kept",
       .field = PODIUM_RECIPE_FIELD(checkpoints_kept),
       .range = between(1, 1e6),
       .decides_result = false,
       .meaning = "number of checkpoints kept; older ones are deleted"},
      {.table = "run",
       .name = "keep_best",
       .field = PODIUM_RECIPE_FIELD(keep_best),
       .decides_result = false,
       .meaning =
           "also keep the checkpoint with the best evaluation accuracy, in `checkpoints/best`; "
           "of equal ones, the earliest"},
      {.table = "run",
       .name = "hash_every_steps",
       .field = PODIUM_RECIPE_FIELD(hash_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "steps between lines of `hashes.jsonl`; 0: only at the end"},
      {.table = "run",
       .name = "audit_every_steps",
       .field = PODIUM_RECIPE_FIELD(audit_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning =
           "steps between audits: such a step is made twice and compared bit by bit, so that "
           "a device that computes wrongly is found ([trust.md](trust.md)); 0: never"},
      {.table = "run",
       .name = "audit_backend",
       .field = PODIUM_RECIPE_FIELD(audit_backend),
       .choices = {"none", "cpu", "reference"},
       .decides_result = false,
       .meaning =
           "in an audit, also compute one replica by this backend of the host, beside a GPU "
           "that has no other one to check it; it does so while training goes on, and what it "
           "finds is known at the next audit"},
      {.table = "run",
       .name = "audit_then",
       .field = PODIUM_RECIPE_FIELD(audit_then),
       .choices = {"stop", "resume", "leave-out"},
       .decides_result = false,
       .meaning =
           "after an audit that found a fault: `stop` ends the run; `resume` goes on from the "
           "last checkpoint that no audit speaks against, up to three times without a "
           "further audit in between that passed; `leave-out` does so without the ranks whose "
           "devices are wrong, where that shows"},
      {.table = "run",
       .name = "witness",
       .field = PODIUM_RECIPE_FIELD(witness),
       .decides_result = false,
       .meaning =
           "with each checkpoint, record a hash of each replica's gradients in the step after "
           "it, so that `podium verify --replicas` can prove single replicas"},
      {.table = "run",
       .name = "log_every_steps",
       .field = PODIUM_RECIPE_FIELD(log_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "steps between lines of `metrics.jsonl` and points in TensorBoard; 0: about 20 "
                  "times per epoch"},
      {.table = "run",
       .name = "histograms",
       .field = PODIUM_RECIPE_FIELD(histograms),
       .decides_result = false,
       .meaning = "write histograms of all parameters for TensorBoard at each evaluation"},
      {.table = "run",
       .name = "recompute",
       .field = PODIUM_RECIPE_FIELD(recompute),
       .choices = {"none", "blocks"},
       .decides_result = false,
       .meaning = "`blocks`: what the network computes within a block (of a gpt, llama or ResNet) "
                  "is not held for the gradients, but computed again when they need it: less "
                  "memory, about a third more work, the same bits"},
  };
}

std::vector<RecipeKey> make_keys(std::size_t groups) {
  std::vector<RecipeKey> keys = top_level_keys();
  const auto append = [&](std::vector<RecipeKey> more) {
    std::ranges::move(more, std::back_inserter(keys));
  };
  append(network_keys());
  append(data_keys());
  append(optimizer_keys(0));
  for (std::size_t group = 1; group <= groups; ++group) append(group_keys(group));
  append(schedule_keys());
  append(init_keys());
  append(normalise_keys());
  append(augment_keys());
  append(evaluation_keys());
  append(run_keys());
  return keys;
}

}  // namespace

const std::vector<RecipeKey>& recipe_keys(std::size_t groups) {
  PODIUM_CHECK(groups <= kMostOptimizerGroups, groups);
  // Made once for each number of groups: errors and checks point into them.
  static std::mutex mutex;
  static std::map<std::size_t, std::vector<RecipeKey>> made;
  const std::lock_guard lock(mutex);
  std::vector<RecipeKey>& keys = made[groups];
  if (keys.empty()) keys = make_keys(groups);
  return keys;
}

}  // namespace podium
