#include "train/run/initial.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/numerics/hash.h"
#include "base/words.h"
#include "files/safetensors_index.h"
#include "files/torch_file.h"
#include "store/local_copy.h"
#include "train/loop/checkpoint.h"
#include "train/run/published.h"
#include "train/run/published_file.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// `old*=new*`: at most one star on each side; nothing on the right drops the tensor.
struct Rule {
  std::string from, to;
};

std::vector<Rule> rules_of(const InitOptions& options) {
  std::vector<Rule> rules;
  for (const std::string& text : options.map) {
    const std::size_t equals = text.find('=');
    rules.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return rules;
}

// The name that a rule gives; nothing where it does not match.
std::optional<std::string> renamed(const Rule& rule, const std::string& name) {
  const std::size_t star = rule.from.find('*');
  if (star == std::string::npos)
    return rule.from == name ? std::optional<std::string>(rule.to) : std::nullopt;
  const std::string before = rule.from.substr(0, star), after = rule.from.substr(star + 1);
  if (name.size() < before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  const std::string middle = name.substr(before.size(), name.size() - before.size() - after.size());
  const std::size_t place = rule.to.find('*');
  if (place == std::string::npos) return rule.to;
  return cat(rule.to.substr(0, place), middle, rule.to.substr(place + 1));
}

std::string hash_of_tensors(std::vector<NamedTensor>& tensors) {
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  std::uint64_t hash = 0;
  for (const NamedTensor& t : tensors) {
    hash = hash_append(
        hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(t.name.data()), t.name.size()}));
    const auto values = t.tensor.f32();
    hash = hash_append(hash, hash_tensor(hash_sum(values), values.size()));
  }
  return hash_text(hash);
}

std::vector<NamedTensor> tensors_of_file(const fs::path& file) {
  if (is_safetensors_index(file)) return read_safetensors_index(file);
  return is_torch_file(file) ? read_torch_file(file) : read_safetensors(file).tensors;
}

// As they lie in the source.
InitialTensors read_source(const fs::path& from) {
  InitialTensors initial;
  std::vector<NamedTensor> all;
  std::error_code error;
  fs::path file = from;
  // A folder of Hugging Face's tools; a run's folder is none.
  if (fs::is_directory(from, error) && !fs::exists(from / "recipe.toml", error))
    file = safetensors_of_folder(from).value_or(from);
  if (fs::is_regular_file(file, error)) {
    initial.source = file.string();
    all = tensors_of_file(file);
  } else if (fs::exists(from / "checkpoint.json", error)) {
    Checkpoint checkpoint = load_checkpoint(from);
    initial.source = cat(from.string(), ", step ", checkpoint.step);
    all = std::move(checkpoint.tensors);
  } else {
    PODIUM_REQUIRE(fs::exists(from, error), ExitCode::kData, "init.from = \"", from.string(),
                   "\": no such file or folder; name what to start from with --init: a run's "
                   "folder, a folder of its checkpoints, a safetensors file (or the index of "
                   "several), or one of torch.save");
    Checkpoint checkpoint = last_checkpoint(from);
    initial.source = cat(from.string(), ", step ", checkpoint.step);
    all = std::move(checkpoint.tensors);
  }
  for (NamedTensor& t : all)
    if (t.tensor.dtype() == DType::kF32 && is_of_network(t.name))
      initial.tensors.push_back(std::move(t));
  return initial;
}

std::string lines_of(const std::vector<std::string>& list) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i) text += "\n  " + list[i];
  if (list.size() > kShown) text += cat("\n  and ", list.size() - kShown, " more");
  return text;
}

}  // namespace

InitialTensors read_initial(const InitOptions& options) {
  InitialTensors initial = read_source(local_path(published_file(options.from)));
  initial.hash = hash_of_tensors(initial.tensors);
  PODIUM_REQUIRE(options.hash.empty() || options.hash == initial.hash, ExitCode::kData,
                 initial.source, ": its values have the hash ", initial.hash,
                 ", but the recipe states ", options.hash,
                 " (init.hash): they are not those that the run started from");
  std::vector<NamedTensor> kept;
  const std::vector<Rule> rules = rules_of(options);
  std::vector<bool> used(rules.size(), false);
  for (NamedTensor& t : initial.tensors) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (const auto name = renamed(rules[i], t.name)) {
        used[i] = true;
        t.name = *name;
        break;
      }
    }
    if (!t.name.empty()) kept.push_back(std::move(t));
  }
  for (std::size_t i = 0; i < rules.size(); ++i)
    PODIUM_REQUIRE(used[i], ExitCode::kUsage, "init.map: \"", options.map[i],
                   "\" renames no tensor of ", initial.source,
                   "; a tensor is renamed by the first rule that matches its name");
  std::ranges::sort(kept, {}, &NamedTensor::name);
  const auto twice = std::ranges::adjacent_find(kept, {}, &NamedTensor::name);
  PODIUM_REQUIRE(twice == kept.end(), ExitCode::kUsage, "init.map gives the name \"", twice->name,
                 "\" to two tensors of ", initial.source);
  initial.tensors = std::move(kept);
  return initial;
}

Recipe with_initial_hash(Recipe recipe, const fs::path& run) {
  if (recipe.init.from.empty() || !recipe.init.hash.empty()) return recipe;
  if (const auto text = run.empty() ? std::nullopt : read_text(run / "recipe.toml")) {
    try {
      Recipe held = parse_recipe(*text, "recipe.toml");
      const std::string hash = std::exchange(held.init.hash, "");
      if (held.init == recipe.init && !hash.empty()) {
        recipe.init.hash = hash;
        return recipe;
      }
    } catch (const UserError&) {
      // What the folder holds is for others to say.
    }
  }
  recipe.init.hash = read_initial(recipe.init).hash;
  return recipe;
}

std::string take_initial(Trainer& trainer) {
  const InitOptions& options = trainer.recipe().init;
  if (options.from.empty()) return "";
  PODIUM_CHECK(trainer.steps_done() == 0, trainer.steps_done());
  InitialTensors initial = read_initial(options);
  Checkpoint start = trainer.checkpoint();
  const Tensor* const positions = start.find("wpe.weight");
  initial.tensors =
      from_published(trainer.recipe().model, positions == nullptr ? 0 : positions->shape()[0],
                     std::move(initial.tensors));
  start.metadata.erase("parameter_hash");
  std::vector<std::string> wrong, fresh;
  std::vector<bool> taken(initial.tensors.size(), false), matched(options.fresh.size(), false);
  std::size_t count = 0;
  for (NamedTensor& own : start.tensors) {
    if (!is_of_network(own.name)) continue;
    bool is_fresh = false;
    for (std::size_t i = 0; i < options.fresh.size(); ++i) {
      if (!matches_pattern(options.fresh[i], own.name)) continue;
      is_fresh = matched[i] = true;
    }
    const auto found = std::ranges::find(initial.tensors, own.name, &NamedTensor::name);
    if (is_fresh) {
      fresh.push_back(own.name);
      if (found != initial.tensors.end())
        taken[static_cast<std::size_t>(found - initial.tensors.begin())] = true;
    } else if (found == initial.tensors.end()) {
      wrong.push_back(cat(own.name, " ", to_string(own.tensor.shape()), ": missing"));
    } else if (found->tensor.type() != own.tensor.type()) {
      wrong.push_back(cat(own.name, " ", to_string(own.tensor.shape()), ": there it is ",
                          to_string(found->tensor.shape())));
      taken[static_cast<std::size_t>(found - initial.tensors.begin())] = true;
    } else {
      std::memcpy(own.tensor.data(), found->tensor.data(),
                  static_cast<std::size_t>(own.tensor.type().bytes()));
      taken[static_cast<std::size_t>(found - initial.tensors.begin())] = true;
      ++count;
    }
  }
  std::vector<std::string> extra;
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (!taken[i])
      extra.push_back(
          cat(initial.tensors[i].name, " ", to_string(initial.tensors[i].tensor.shape())));
  PODIUM_REQUIRE(wrong.empty(), ExitCode::kData, initial.source, " does not fit model \"",
                 trainer.recipe().model,
                 "\"; rename its tensors with init.map (--init-map \"old*=new*\"), or ",
                 "start these as the recipe draws them with init.fresh (--init-fresh \"fc.*\"):",
                 lines_of(wrong), extra.empty() ? "" : cat("\nIt also has:", lines_of(extra)));
  for (std::size_t i = 0; i < matched.size(); ++i)
    PODIUM_REQUIRE(matched[i], ExitCode::kUsage, "init.fresh: \"", options.fresh[i],
                   "\" matches no parameter or running statistic of model \"",
                   trainer.recipe().model, "\" (`podium show` lists the parameters)");
  trainer.restore(start);
  const std::string bad = trainer.first_non_finite();
  PODIUM_REQUIRE(bad.empty(), ExitCode::kData, initial.source, ": \"", bad, "\" is not finite");
  return cat(count, " tensors of ", initial.source, ", hash ", initial.hash,
             fresh.empty() ? "" : cat("; drawn anew: ", join_words(fresh)),
             extra.empty() ? "" : cat("; not used: ", join_words(extra)));
}

}  // namespace podium
