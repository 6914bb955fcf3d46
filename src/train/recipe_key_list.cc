// The keys of a recipe, one by one: a function for each table.
#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>

#include "data/dataset.h"
#include "data/views.h"
#include "nn/models.h"
#include "train/optimizer_groups.h"
#include "train/recipe_keys.h"

namespace podium {
namespace {

constexpr double kMostCount = 1e9;
constexpr double kMostSteps = 4294967295.0;  // a step is a 32-bit counter of the random numbers

constexpr NumberRange at_least(double least) { return {.least = least}; }
constexpr NumberRange above(double least) { return {.least = least, .least_open = true}; }
constexpr NumberRange between(double least, double most) { return {.least = least, .most = most}; }
constexpr NumberRange below_one() { return {.least = 0, .most = 1, .most_open = true}; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : all_models()) names.emplace_back(model.name);
  return names;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const DatasetInfo& info : dataset_list()) names.push_back(info.name);
  return names;
}

// Where a member lies, as a field of a key.
#define FIELD(member) field_at([](Recipe & r) -> auto& { return r.member; })

template <typename Access>
RecipeField field_at(Access access) {
  using Value = std::remove_reference_t<std::invoke_result_t<Access, Recipe&>>;
  return FieldOf<Value>(std::move(access));
}

std::vector<RecipeKey> top_level_keys() {
  return {
      {.table = "",
       .name = "name",
       .field = FIELD(name),
       .decides_result = false,
       .meaning = "what runs of it are called; by default the file's name without `.toml`"},
      {.table = "",
       .name = "description",
       .field = FIELD(description),
       .decides_result = false,
       .meaning = "one line, shown by `podium recipes`"},
      {.table = "",
       .name = "model",
       .field = FIELD(model),
       .choices = model_names(),
       .required = true,
       .meaning = "the network"},
      {.table = "",
       .name = "data",
       .field = FIELD(data),
       .choices = dataset_names(),
       .required = true,
       .meaning = "the dataset"},
      {.table = "",
       .name = "train_examples",
       .field = FIELD(train_examples),
       .range = between(0, 1e7),
       .unit = "examples",
       .meaning = "size of the training set, of drawn datasets alone; 0: the dataset's own"},
      {.table = "",
       .name = "test_examples",
       .field = FIELD(test_examples),
       .range = between(0, 1e7),
       .unit = "examples",
       .meaning = "size of the test set, of drawn datasets alone; 0: the dataset's own"},
      {.table = "",
       .name = "validation",
       .field = FIELD(validation),
       .range = between(0, kMostCount),
       .unit = "examples",
       .meaning = "the last so many training examples are held out, and evaluated in place of the "
                  "test set: for choosing settings without looking at the test set; 0: none"},
      {.table = "",
       .name = "batch",
       .field = FIELD(batch),
       .range = between(1, kMostCount),
       .required = true,
       .unit = "examples",
       .meaning = "the global batch B: examples in a step, over all replicas"},
      {.table = "",
       .name = "replicas",
       .field = FIELD(replicas),
       .range = between(1, 65536),
       .meaning = "R, which divides the batch: each replica computes B/R examples with batch-norm "
                  "statistics of its own, whoever runs it"},
      {.table = "",
       .name = "seed",
       .field = FIELD(seed),
       .range = at_least(0),
       .meaning = "of all that is random: initial parameters, order, augmentation, dropout"},
      {.table = "",
       .name = "epochs",
       .field = FIELD(epochs),
       .range = between(0, 1e6),
       .unit = "epochs",
       .meaning = "length of the run; an epoch has (examples / batch) steps, its remainder is "
                  "dropped. Exactly one of `epochs` and `steps` is given"},
      {.table = "",
       .name = "steps",
       .field = FIELD(steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .meaning = "length of the run, in place of `epochs`"},
      {.table = "",
       .name = "precision",
       .field = FIELD(precision),
       .choices = {"fp32"},
       .refused = {{"bf16", "bf16 needs a GPU or a TPU, which this version does not drive yet"}},
       .meaning = "of arithmetic and sums"},
      {.table = "",
       .name = "label_smoothing",
       .field = FIELD(label_smoothing),
       .range = below_one(),
       .unit = "probability",
       .meaning = "share of each label that is spread evenly over all classes"},
  };
}

// The keys of [optimizer], and of each group of parameters that may have an optimizer of its own.
struct OptimizerTable {
  std::string table;
  std::function<OptimizerOptions&(Recipe&)> options;
  const OptimizerGroup* group = nullptr;  // null: [optimizer] itself

  RecipeField field(auto OptimizerOptions::*member) const {
    return field_at([ of = options, member ](Recipe & r) -> auto& { return of(r).*member; });
  }
};

std::vector<RecipeKey> optimizer_keys(const OptimizerTable& its) {
  const bool is_group = its.group != nullptr, muon = is_group && its.group->matrices;
  std::vector<std::string> own = {"sgd", "adam"}, with_momentum = {"sgd"};
  if (muon) own.emplace_back("muon"), with_momentum.emplace_back("muon");
  std::vector<std::string> names = own;
  if (is_group) names.insert(names.begin(), kSameOptimizer);
  // [optimizer] reads these whatever its name is; a group only with an optimizer of its own.
  using Names = std::vector<std::string>;
  const Names adam = {"adam"}, all = is_group ? own : Names{};
  const Names with_decay = is_group ? Names{"sgd", "adam"} : Names{};
  std::vector<RecipeKey> keys = {
      {.table = its.table,
       .name = "name",
       .field = its.field(&OptimizerOptions::name),
       .choices = names,
       .meaning =
           is_group
               ? cat("of ", its.group->parameters, "; `same`: [optimizer]'s",
                     muon ? "; `muon`: each weight rescaled to norm sqrt(rows), then moved along "
                            "its orthogonalised momentum"
                          : "")
               : "`sgd`: with `momentum`, plain or `nesterov`; `adam`: Kingma and Ba, with bias "
                 "correction"},
      {.table = its.table,
       .name = "learning_rate",
       .field = its.field(&OptimizerOptions::learning_rate),
       .range = at_least(0),
       .fits = all,
       .meaning = "of the mean gradient over the global batch, before the schedule"},
      {.table = its.table,
       .name = "momentum",
       .field = its.field(&OptimizerOptions::momentum),
       .range = below_one(),
       .fits = with_momentum,
       .meaning = "v = momentum v + g"},
      {.table = its.table,
       .name = "nesterov",
       .field = its.field(&OptimizerOptions::nesterov),
       .fits = with_momentum,
       .meaning = "step along g + momentum v in place of v"},
      {.table = its.table,
       .name = "beta1",
       .field = its.field(&OptimizerOptions::beta1),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay of the mean of gradients"},
      {.table = its.table,
       .name = "beta2",
       .field = its.field(&OptimizerOptions::beta2),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay of the mean of squared gradients"},
      {.table = its.table,
       .name = "epsilon",
       .field = its.field(&OptimizerOptions::epsilon),
       .range = above(0),
       .fits = adam,
       .meaning = "added to the root of that mean"},
      {.table = its.table,
       .name = "weight_decay",
       .field = its.field(&OptimizerOptions::weight_decay),
       .range = at_least(0),
       .fits = with_decay,
       .meaning = cat("times the parameter, added to the mean gradient",
                      is_group ? ", of every one of them" : "")},
  };
  if (is_group) {
    keys.push_back({.table = its.table,
                    .name = "epochs",
                    .field = its.field(&OptimizerOptions::epochs),
                    .range = between(0, 1e6),
                    .fits = all,
                    .unit = "epochs",
                    .meaning = "the schedule runs its course in the first so many epochs, and then "
                               "they stay as they are; 0: in all epochs"});
    return keys;
  }
  keys.push_back({.table = its.table,
                  .name = "decay",
                  .field = its.field(&OptimizerOptions::decay),
                  .choices = {"once", "per-replica"},
                  .meaning = "`once`: weight decay acts as written; `per-replica`: R times as "
                             "strong, as in estimators that added it inside each replica's "
                             "gradient and summed those"});
  keys.push_back({.table = its.table,
                  .name = "decay_all",
                  .field = its.field(&OptimizerOptions::decay_all),
                  .meaning = "decay acts on every parameter, not on weights of convolutions and "
                             "dense layers alone"});
  return keys;
}

std::vector<RecipeKey> schedule_keys() {
  const std::vector<std::string> points = {"piecewise", "linear"}, exponential = {"exponential"};
  return {
      {.table = "schedule",
       .name = "name",
       .field = FIELD(schedule.name),
       .choices = {"constant", "piecewise", "linear", "exponential"},
       .meaning = "learning rate of step s (from 0). `constant`: learning_rate. `piecewise`: "
                  "learning_rate * factors[number of boundaries <= s]. `linear`: learning_rate * "
                  "the line through (boundaries[i], factors[i]), constant outside. `exponential`: "
                  "floor + learning_rate * exp(-s / time_constant)"},
      {.table = "schedule",
       .name = "boundaries",
       .field = FIELD(schedule.boundaries),
       .range = at_least(0),
       .fits = points,
       .unit = "`unit`",
       .meaning = "rising points in time"},
      {.table = "schedule",
       .name = "factors",
       .field = FIELD(schedule.factors),
       .range = at_least(0),
       .fits = points,
       .meaning =
           "of the learning rate: one more than boundaries (piecewise), or as many (linear)"},
      {.table = "schedule",
       .name = "unit",
       .field = FIELD(schedule.unit),
       .choices = {"step", "epoch"},
       .meaning = "of `boundaries` and `time_constant`"},
      {.table = "schedule",
       .name = "time_constant",
       .field = FIELD(schedule.time_constant),
       .range = at_least(0),
       .fits = exponential,
       .unit = "`unit`",
       .meaning = "until the rate has fallen to 1/e of its start"},
      {.table = "schedule",
       .name = "floor",
       .field = FIELD(schedule.floor),
       .range = at_least(0),
       .fits = exponential,
       .meaning = "learning rate that is left in the end"},
  };
}

std::vector<RecipeKey> normalise_keys() {
  const std::vector<std::string> per_channel = {"per-channel"};
  return {
      {.table = "normalise",
       .name = "name",
       .field = FIELD(normalise.name),
       .choices = {"none", "per-channel", "per-image"},
       .meaning = "what the network gets for a pixel. `none`: pixel / 255. `per-channel`: (pixel / "
                  "255 - mean) / deviation, before augmentation, so that what is set to 0 there "
                  "is the mean. `per-image`: after augmentation each image's own mean is "
                  "subtracted, and it is divided by its deviation, by 1 / sqrt(values) at least"},
      {.table = "normalise",
       .name = "mean",
       .field = FIELD(normalise.mean),
       .range = between(0, 1),
       .fits = per_channel,
       .unit = "pixel / 255",
       .meaning = "one number for each channel"},
      {.table = "normalise",
       .name = "deviation",
       .field = FIELD(normalise.deviation),
       .range = {.least = 0, .most = 1, .least_open = true},
       .fits = per_channel,
       .unit = "pixel / 255",
       .meaning = "one number for each channel"},
  };
}

std::vector<RecipeKey> augment_keys() {
  return {
      {.table = "augment",
       .name = "shift",
       .field = FIELD(augment.shift),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "whole pixels down and right, each drawn from -shift to shift: the crop "
                  "of an image with so much `padding`"},
      {.table = "augment",
       .name = "padding",
       .field = FIELD(augment.padding),
       .choices = {"zero", "reflect"},
       .meaning = "what a shift moves in. `zero`: zeros. `reflect`: the image, mirrored at the "
                  "centres of its edge pixels; not where a key below warps the image"},
      {.table = "augment",
       .name = "rotate_degrees",
       .field = FIELD(augment.rotate_degrees),
       .range = between(0, 180),
       .unit = "degrees",
       .meaning = "about the centre, either way"},
      {.table = "augment",
       .name = "scale",
       .field = FIELD(augment.scale),
       .range = between(0, 0.9),
       .unit = "relative",
       .meaning = "0.1 draws a size from 0.9 to 1.1"},
      {.table = "augment",
       .name = "shear",
       .field = FIELD(augment.shear),
       .range = between(0, 2),
       .unit = "pixels per pixel",
       .meaning = "to the right for each pixel down, either way"},
      {.table = "augment",
       .name = "elastic",
       .field = FIELD(augment.elastic),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "by which the points of a coarse lattice move, a smooth spline between them"},
      {.table = "augment",
       .name = "elastic_cell",
       .field = FIELD(augment.elastic_cell),
       .range = between(1, 4096),
       .unit = "pixels",
       .meaning = "between the lattice's points"},
      {.table = "augment",
       .name = "cutout",
       .field = FIELD(augment.cutout),
       .range = between(0, 4096),
       .unit = "pixels",
       .meaning = "side of a square, anywhere within the image, that is set to 0"},
      {.table = "augment",
       .name = "flip",
       .field = FIELD(augment.flip),
       .choices = {"none", "random", "alternating"},
       .meaning = "left to right, before all else. `random`: one image in two, anew in each epoch. "
                  "`alternating`: one image in two in the first epoch, and from then on each "
                  "image the other way round than in the epoch before"},
  };
}

std::vector<RecipeKey> evaluation_keys() {
  return {
      {.table = "evaluation",
       .name = "every_epochs",
       .field = FIELD(evaluation.every_epochs),
       .range = between(0, 1e6),
       .unit = "epochs",
       .decides_result = false,
       .meaning = "between evaluations; 0: at the end alone"},
      {.table = "evaluation",
       .name = "batch",
       .field = FIELD(evaluation.batch),
       .range = between(0, kMostCount),
       .unit = "examples",
       .decides_result = false,
       .meaning = "decides speed and memory, never the result; 0: chosen so that evaluation needs "
                  "no more memory than training"},
      {.table = "evaluation",
       .name = "views",
       .field = FIELD(evaluation.views),
       .numbers = {kViewCounts.begin(), kViewCounts.end()},
       .meaning = "of each image, whose outputs of the network are averaged: 1: itself; 2: and its "
                  "mirror image; 6: and both shifted by a pixel down and right, and up and left, "
                  "at half the weight"},
  };
}

std::vector<RecipeKey> run_keys() {
  return {
      {.table = "run",
       .name = "checkpoint_every_steps",
       .field = FIELD(checkpoint_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "0: once an epoch"},
      {.table = "run",
       .name = "checkpoints_kept",
       .field = FIELD(checkpoints_kept),
       .range = between(1, 1e6),
       .decides_result = false,
       .meaning = "the newest so many"},
      {.table = "run",
       .name = "hash_every_steps",
       .field = FIELD(hash_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "between lines of `hashes.jsonl`; 0: at the end alone"},
      {.table = "run",
       .name = "log_every_steps",
       .field = FIELD(log_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .decides_result = false,
       .meaning = "between lines of `metrics.jsonl` and points in TensorBoard; 0: about 20 times "
                  "an epoch"},
  };
}

std::vector<RecipeKey> make_keys() {
  std::vector<RecipeKey> keys = top_level_keys();
  const auto append = [&](std::vector<RecipeKey> more) {
    std::ranges::move(more, std::back_inserter(keys));
  };
  append(optimizer_keys(
      {"optimizer", [](Recipe& r) -> OptimizerOptions& { return r.optimizer; }, nullptr}));
  for (const OptimizerGroup& group : kOptimizerGroups) {
    append(optimizer_keys({group.table,
                           [&group](Recipe& r) -> OptimizerOptions& { return r.*group.options; },
                           &group}));
  }
  append(schedule_keys());
  append(normalise_keys());
  append(augment_keys());
  append(evaluation_keys());
  append(run_keys());
  return keys;
}

#undef FIELD

}  // namespace

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = make_keys();
  return keys;
}

}  // namespace podium
