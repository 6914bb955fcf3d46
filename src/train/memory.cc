#include "train/memory.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <limits>

#include "data/dataset.h"
#include "parallel/transport.h"
#include "train/environment.h"

namespace podium {
namespace {

// Settings of a run, tried one after the other.
class Search {
 public:
  // The sets may be shorter than those of the run; `missing` is what these have more, in bytes.
  Search(const Trainer& trainer, const Model& model, const RunData& data, std::int64_t limit,
         std::int64_t missing, StopToken stop)
      : recipe_(trainer.recipe()),
        placement_(trainer.placement()),
        model_(model),
        data_(data),
        limit_(limit),
        missing_(missing),
        stop_(stop) {}

  // The first that fits: what changes no result first, then more replicas, then a smaller batch.
  std::string first_that_fits() {
    std::string changed;
    if (recipe_.evaluation.batch != 0) {
      recipe_.evaluation.batch = 0;
      changed = "evaluation.batch=0";
      if (fits()) return changed + " fits (the same result)";
      changed += " with ";
    }
    while (placement_.workers > 1) {
      --placement_.workers;
      if (fits()) return cat(changed, "--workers ", placement_.workers, " fits (the same result)");
    }
    changed += "--workers 1";
    const std::int64_t batch = recipe_.batch, own = recipe_.replicas;
    for (recipe_.replicas = own + 1; recipe_.replicas <= batch / 2; ++recipe_.replicas) {
      if (batch % recipe_.replicas == 0 && fits())
        return cat("replicas=", recipe_.replicas, " with ", changed,
                   " fits (another recipe: the batch-norm span becomes ", batch / recipe_.replicas,
                   ")");
    }
    recipe_.replicas = own;
    for (std::int64_t images = batch / own / 2; images >= 2; images /= 2) {
      recipe_.batch = images * own;
      if (fits()) return cat("batch=", recipe_.batch, " with ", changed, " fits (another recipe)");
    }
    return cat("no setting fits; the smallest found needs ", format_bytes(least_),
               ", most of it for data and parameters; raise the limit, or use a larger machine");
  }

 private:
  bool fits() {
    const std::int64_t needed =
        missing_ + Trainer(recipe_, model_, data_.train, data_.held_out, placement_, stop_)
                       .memory_use()
                       .total();
    least_ = std::min(least_, needed);
    return needed <= limit_;
  }

  Recipe recipe_;
  Placement placement_;
  const Model& model_;
  const RunData& data_;
  std::int64_t limit_, missing_;
  StopToken stop_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

void check(const Trainer& trainer, const Model& model, const RunData& data, std::int64_t limit,
           std::int64_t usable, std::int64_t missing, StopToken stop) {
  const std::int64_t total = trainer.memory_use().total() + missing;
  const bool of_machine = limit == 0;
  if (of_machine) limit = usable;
  if (total <= limit) return;
  const std::int64_t of_data = trainer.memory_use().data + missing;
  PODIUM_REQUIRE(of_data <= limit, ExitCode::kMemory, "this run needs ", format_bytes(total), ", ",
                 format_bytes(of_data), " of it for its data alone",
                 of_machine ? ", and this process may take " : "; the limit is ",
                 format_bytes(limit),
                 "; raise the limit, or take fewer examples or a larger machine");
  // Trying others would take all ranks.
  if (trainer.placement().ranks != nullptr && trainer.placement().ranks->ranks() > 1)
    throw UserError(cat("this rank needs ", format_bytes(total),
                        of_machine ? ", and this process may take " : ", the limit is ",
                        format_bytes(limit), "; give it fewer --workers, or start more ranks"),
                    ExitCode::kMemory);
  throw UserError(
      cat("this run needs ", format_bytes(total),
          of_machine ? ", and this process may take " : ", the limit is ", format_bytes(limit),
          "; ", Search(trainer, model, data, limit, missing, stop).first_that_fits()),
      ExitCode::kMemory);
}

// Blank images of a dataset.
std::shared_ptr<const ImageSet> blank_set(const DatasetInfo& info, std::int64_t count) {
  auto set = std::make_shared<ImageSet>();
  set->count = count;
  set->channels = info.channels, set->height = info.height, set->width = info.width;
  set->classes = info.classes;
  set->pixels.resize(static_cast<std::size_t>(count * set->image_bytes()));
  set->labels.resize(static_cast<std::size_t>(count));
  return set;
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 && unit > 0 ? "%.2f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

std::int64_t parse_bytes(const std::string& text) {
  const auto wrong = [&]() -> UserError {
    return UserError(cat("\"", text,
                         "\" is not an amount of memory; write bytes, or a number with KB, MB, GB, "
                         "KiB, MiB or GiB, such as 2GiB"));
  };
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    throw wrong();
  }
  const std::string unit = text.substr(text.find_first_not_of(' ', used) == std::string::npos
                                           ? text.size()
                                           : text.find_first_not_of(' ', used));
  double factor = 0;
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<const char*, double>>{{"", 1},
                                                             {"B", 1},
                                                             {"KB", 1e3},
                                                             {"MB", 1e6},
                                                             {"GB", 1e9},
                                                             {"TB", 1e12},
                                                             {"KiB", 1024.0},
                                                             {"MiB", 1048576.0},
                                                             {"GiB", 1073741824.0},
                                                             {"TiB", 1099511627776.0}}) {
    if (unit == name) factor = bytes;
  }
  if (factor == 0 || !(value * factor >= 1) || value * factor > 9e18) throw wrong();
  return static_cast<std::int64_t>(value * factor);
}

void check_memory(const Trainer& trainer, const Model& model, const RunData& data,
                  std::int64_t limit, std::int64_t usable, StopToken stop) {
  check(trainer, model, data, limit, usable, 0, stop);
}

void check_memory_before_loading(const Recipe& recipe, const Model& model,
                                 const Placement& placement, std::int64_t limit,
                                 std::int64_t usable, StopToken stop) {
  const DatasetInfo& info = find_dataset(recipe.data);
  const auto stated = [](std::int64_t asked, std::int64_t own) { return asked != 0 ? asked : own; };
  const std::int64_t train = stated(recipe.train_examples, info.train_examples);
  // A part of the training set, where the recipe holds one out.
  const std::int64_t test =
      recipe.validation != 0 ? 0 : stated(recipe.test_examples, info.test_examples);
  const std::int64_t image = info.channels * info.height * info.width +
                             static_cast<std::int64_t>(sizeof(std::int32_t));  // and its label
  if (limit == 0 && (train + test) * image <= usable) return;
  // A trainer's memory but for its data does not depend on how many there are beyond a batch.
  const std::int64_t held_out = recipe.validation != 0 ? recipe.validation : test;
  const std::int64_t most = std::max<std::int64_t>(recipe.evaluation.batch, 256);
  const RunData blank = {blank_set(info, std::min(recipe.batch, train)),
                         blank_set(info, std::min(most, held_out))};
  const Trainer trainer(recipe, model, blank.train, blank.held_out, placement, stop);
  check(trainer, model, blank, limit, usable,
        (train + test - blank.train->count - blank.held_out->count) * image, stop);
}

}  // namespace podium
