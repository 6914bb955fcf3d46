#include "train/recipe_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/words.h"
#include "data/dataset.h"
#include "data/views.h"
#include "nn/models.h"

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

#define FIELD(member) +[](Recipe& r) -> decltype((r.member)) { return r.member; }

std::vector<RecipeKey> make_keys() {
  const std::vector<std::string> adam = {"adam"}, sgd = {"sgd"};
  const std::vector<std::string> points = {"piecewise", "linear"}, exponential = {"exponential"};
  const std::vector<std::string> per_channel = {"per-channel"};
  return {
      {.table = "",
       .name = "name",
       .field = FIELD(name),
       .meaning = "what runs of it are called; by default the file's name without `.toml`"},
      {.table = "",
       .name = "description",
       .field = FIELD(description),
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

      {.table = "optimizer",
       .name = "name",
       .field = FIELD(optimizer.name),
       .choices = {"sgd", "adam"},
       .meaning = "`sgd`: with `momentum`, plain or `nesterov`; `adam`: Kingma and Ba, with bias "
                  "correction"},
      {.table = "optimizer",
       .name = "learning_rate",
       .field = FIELD(optimizer.learning_rate),
       .range = at_least(0),
       .meaning = "of the mean gradient over the global batch, before the schedule"},
      {.table = "optimizer",
       .name = "momentum",
       .field = FIELD(optimizer.momentum),
       .range = below_one(),
       .fits = sgd,
       .meaning = "v = momentum v + g"},
      {.table = "optimizer",
       .name = "nesterov",
       .field = FIELD(optimizer.nesterov),
       .fits = sgd,
       .meaning = "step along g + momentum v in place of v"},
      {.table = "optimizer",
       .name = "beta1",
       .field = FIELD(optimizer.beta1),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay of the mean of gradients"},
      {.table = "optimizer",
       .name = "beta2",
       .field = FIELD(optimizer.beta2),
       .range = below_one(),
       .fits = adam,
       .meaning = "decay of the mean of squared gradients"},
      {.table = "optimizer",
       .name = "epsilon",
       .field = FIELD(optimizer.epsilon),
       .range = above(0),
       .fits = adam,
       .meaning = "added to the root of that mean"},
      {.table = "optimizer",
       .name = "weight_decay",
       .field = FIELD(optimizer.weight_decay),
       .range = at_least(0),
       .meaning = "times the parameter, added to the mean gradient"},
      {.table = "optimizer",
       .name = "decay",
       .field = FIELD(optimizer.decay),
       .choices = {"once", "per-replica"},
       .meaning = "`once`: weight decay acts as written; `per-replica`: R times as strong, as in "
                  "estimators that added it inside each replica's gradient and summed those"},
      {.table = "optimizer",
       .name = "decay_all",
       .field = FIELD(optimizer.decay_all),
       .meaning = "decay acts on every parameter, not on weights of convolutions and dense layers "
                  "alone"},

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

      {.table = "evaluation",
       .name = "every_epochs",
       .field = FIELD(evaluation.every_epochs),
       .range = between(0, 1e6),
       .unit = "epochs",
       .meaning = "between evaluations; 0: at the end alone"},
      {.table = "evaluation",
       .name = "batch",
       .field = FIELD(evaluation.batch),
       .range = between(0, kMostCount),
       .unit = "examples",
       .meaning = "decides speed and memory, never the result; 0: chosen so that evaluation needs "
                  "no more memory than training"},
      {.table = "evaluation",
       .name = "views",
       .field = FIELD(evaluation.views),
       .numbers = {kViewCounts.begin(), kViewCounts.end()},
       .meaning = "of each image, whose outputs of the network are averaged: 1: itself; 2: and its "
                  "mirror image; 6: and both shifted by a pixel down and right, and up and left, "
                  "at half the weight"},

      {.table = "run",
       .name = "checkpoint_every_steps",
       .field = FIELD(checkpoint_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .meaning = "0: once an epoch"},
      {.table = "run",
       .name = "checkpoints_kept",
       .field = FIELD(checkpoints_kept),
       .range = between(1, 1e6),
       .meaning = "the newest so many"},
      {.table = "run",
       .name = "hash_every_steps",
       .field = FIELD(hash_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .meaning = "between lines of `hashes.jsonl`; 0: at the end alone"},
      {.table = "run",
       .name = "log_every_steps",
       .field = FIELD(log_every_steps),
       .range = between(0, kMostSteps),
       .unit = "steps",
       .meaning = "between lines of `metrics.jsonl` and points in TensorBoard; 0: about 20 times "
                  "an epoch"},
  };
}

#undef FIELD

std::string tidy_exponent(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::size_t digits = e + 1;
  const bool negative = text[digits] == '-';
  if (text[digits] == '-' || text[digits] == '+') ++digits;
  while (digits + 1 < text.size() && text[digits] == '0') ++digits;
  return text.substr(0, e + 1) + (negative ? "-" : "") + text.substr(digits);
}

// The shortest decimal that is nearest to this very value among those of its type.
template <typename T>
std::string shortest(T value) {
  char buffer[64];
  // What people write in full: 100000, 0.0001.
  const bool in_full = (std::trunc(value) == value && std::abs(value) < T{1e15}) ||
                       (std::abs(value) >= T{9e-5} && std::abs(value) < T{1e7});
  const auto format = in_full ? std::chars_format::fixed : std::chars_format::general;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  return tidy_exponent(std::string(buffer, end.ptr));
}

}  // namespace

std::string to_string(const NumberRange& range) {
  const bool low = std::isfinite(range.least), high = std::isfinite(range.most);
  std::string text;
  if (low) text = cat(range.least_open ? "above " : "at least ", number_text(range.least));
  if (low && high) text += " and ";
  if (high) text += cat(range.most_open ? "below " : "at most ", number_text(range.most));
  return text;
}

bool RecipeKey::fits_name(const std::string& table_name) const {
  return fits.empty() || std::find(fits.begin(), fits.end(), table_name) != fits.end();
}

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = make_keys();
  return keys;
}

const RecipeKey* find_recipe_key(const std::string& path) {
  for (const RecipeKey& key : recipe_keys()) {
    if (key.path() == path) return &key;
  }
  return nullptr;
}

const std::string& name_of_table(const Recipe& recipe, const std::string& table) {
  const RecipeKey* key = find_recipe_key(table + ".name");
  PODIUM_CHECK(key != nullptr, table);
  // The accessors hand out references to change; nothing is changed here.
  return std::get<std::string& (*)(Recipe&)>(key->field)(const_cast<Recipe&>(recipe));
}

std::string number_text(double value) { return shortest(value); }

std::string number_text(float value) {
  std::string text = shortest(value);
  // Reading goes through double; the shortest float is off by one ULP after that in rare cases.
  if (static_cast<float>(std::stod(text)) != value) text = shortest(static_cast<double>(value));
  return text;
}

std::string quoted_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr char kDigits[] = "0123456789ABCDEF";
      quoted += cat("\\u00", kDigits[byte >> 4], kDigits[byte & 15]);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string type_text(const RecipeKey& key) {
  struct Name {
    std::string operator()(std::string& (*)(Recipe&)) const { return "a string"; }
    std::string operator()(Decay& (*)(Recipe&)) const { return "a string"; }
    std::string operator()(bool& (*)(Recipe&)) const { return "true or false"; }
    std::string operator()(int& (*)(Recipe&)) const { return "an integer"; }
    std::string operator()(std::int64_t& (*)(Recipe&)) const { return "an integer"; }
    std::string operator()(std::uint64_t& (*)(Recipe&)) const { return "an integer"; }
    std::string operator()(float& (*)(Recipe&)) const { return "a number"; }
    std::string operator()(double& (*)(Recipe&)) const { return "a number"; }
    std::string operator()(std::vector<double>& (*)(Recipe&)) const {
      return "an array of numbers";
    }
  };
  return std::visit(Name{}, key.field);
}

std::string value_text(const RecipeKey& key, const Recipe& recipe) {
  struct Text {
    std::string operator()(const std::string& value) const { return quoted_text(value); }
    std::string operator()(Decay value) const {
      return quoted_text(value == Decay::kOnce ? "once" : "per-replica");
    }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int value) const { return cat(value); }
    std::string operator()(std::int64_t value) const { return cat(value); }
    std::string operator()(std::uint64_t value) const { return cat(value); }
    std::string operator()(float value) const { return number_text(value); }
    std::string operator()(double value) const { return number_text(value); }
    std::string operator()(const std::vector<double>& values) const {
      std::vector<std::string> texts;
      for (const double value : values) texts.push_back(number_text(value));
      return "[" + join_words(texts) + "]";
    }
  };
  // The accessors hand out references to change; nothing is changed here.
  auto& readable = const_cast<Recipe&>(recipe);
  return std::visit([&](auto access) { return Text{}(access(readable)); }, key.field);
}

std::string recipe_keys_markdown() {
  const Recipe defaults;
  std::string text, table = "none";
  for (const RecipeKey& key : recipe_keys()) {
    if (key.table != table) {
      table = key.table;
      text +=
          cat("\n### ", table.empty() ? "Top level" : "`[" + table + "]`",
              "\n\n| key | type | unit | default | meaning |\n| --- | --- | --- | --- | --- |\n");
    }
    std::string type = type_text(key);
    if (!key.choices.empty() && !key.required) {
      type.clear();
      for (const std::string& choice : key.choices)
        type += (type.empty() ? "`" : ", `") + choice + "`";
    } else if (key.required && !key.choices.empty()) {
      type = "a name";
    }
    if (!key.numbers.empty()) {
      type.clear();
      for (const std::int64_t number : key.numbers) type += cat(type.empty() ? "" : ", ", number);
    }
    const std::string range = to_string(key.range);
    if (!range.empty()) type += ", " + range;
    std::string fallback = key.required || key.name == "epochs" || key.name == "steps"
                               ? "none"
                               : "`" + value_text(key, defaults) + "`";
    if (key.name == "name" && table.empty()) fallback = "of the file";
    std::string meaning = key.meaning;
    if (!key.fits.empty()) meaning = "(" + join_words(key.fits) + ") " + meaning;
    text += cat("| `", key.name, "` | ", type, " | ", key.unit, " | ", fallback, " | ", meaning,
                " |\n");
  }
  return text.substr(1);
}

}  // namespace podium
