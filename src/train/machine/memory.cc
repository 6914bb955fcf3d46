#include "train/machine/memory.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <vector>

#include "base/words.h"
#include "files/byte_text.h"
#include "train/loop/run_ranks.h"
#include "train/machine/environment.h"

namespace podium {
namespace {

// A run as it might be made.
struct Setting {
  Recipe recipe;
  std::vector<int> workers;  // of each rank
};

// What each rank may take, and where it is.
struct Limits {
  std::vector<std::int64_t> bytes;
  std::vector<std::string> hosts;
  bool of_machine;  // bytes are what a host has for all its ranks together

  bool several() const { return bytes.size() > 1; }
  // The first rank that needs more than it may take, where needs[r] is what rank r needs; -1: none.
  int exceeded(const std::vector<std::int64_t>& needs) const {
    for (std::size_t rank = 0; rank < needs.size(); ++rank)
      if (needed_with(needs, rank) > bytes[rank]) return static_cast<int>(rank);
    return -1;
  }
  // What a rank needs, with its neighbours where they share one limit.
  std::int64_t needed_with(const std::vector<std::int64_t>& needs, std::size_t rank) const {
    std::int64_t sum = needs[rank];
    for (std::size_t other = 0; of_machine && other < needs.size(); ++other)
      if (other != rank && hosts[other] == hosts[rank]) sum += needs[other];
    return sum;
  }
};

// What of a run's memory is limited: all of it, or the share of a device or of its host.
struct Share {
  std::int64_t (*of)(const MemoryUse&);
  int devices = 1;  // of a rank, each with this memory

  std::int64_t operator()(const MemoryUse& use) const { return of(use); }
  std::int64_t operator()(const RankPlan& plan) const { return of(plan.memory_of_device(devices)); }
};

// A limit of the process counts the program, too.
enum class Program { kCounts, kDoesNotCount };

// Settings of a run, tried one after the other.
class Search {
 public:
  Search(Setting setting, Share share, std::vector<std::int64_t> besides, const Model& model,
         const DataShape& data, const Placement& placement, Limits limits, StopToken stop)
      : setting_(std::move(setting)),
        share_(share),
        besides_(std::move(besides)),
        model_(model),
        data_(data),
        placement_(placement),
        limits_(std::move(limits)),
        stop_(stop) {}

  // The first that fits: what changes no result first, then more replicas, then a smaller batch.
  std::string first_that_fits() {
    Recipe& recipe = setting_.recipe;
    std::string changed;
    if (recipe.evaluation.batch != 0) {
      recipe.evaluation.batch = 0;
      changed = "evaluation.batch=0";
      if (fits()) return changed + " fits (the same result)";
      changed += " with ";
    }
    // Fewer workers than devices would leave devices idle that have memory.
    const int all = *std::ranges::max_element(setting_.workers),
              least = std::clamp(share_.devices, 1, all);
    for (int most = all - 1; most >= least; --most) {
      for (int& workers : setting_.workers) workers = std::min(workers, most);
      if (fits()) return cat(changed, "--workers ", most, " fits (the same result)");
    }
    changed += cat("--workers ", least);
    if (limits_.several() && !limits_.of_machine) {
      if (const int ranks = more_ranks_that_fit(); ranks != 0)
        return cat(changed, " on ", count_text(ranks, "rank"), " fits (the same result)");
    }
    const std::int64_t batch = recipe.batch, own = recipe.replicas;
    for (recipe.replicas = own + 1; recipe.replicas <= batch / 2; ++recipe.replicas) {
      if (batch % recipe.replicas == 0 && fits())
        return cat("replicas=", recipe.replicas, " with ", changed,
                   " fits (another recipe: the batch-norm span becomes ", batch / recipe.replicas,
                   ")");
    }
    recipe.replicas = own;
    for (std::int64_t rows = batch / own / 2; rows >= 2; rows /= 2) {
      recipe.batch = rows * own;
      if (fits()) return cat("batch=", recipe.batch, " with ", changed, " fits (another recipe)");
    }
    if (least_ == std::numeric_limits<std::int64_t>::max())
      return "no smaller setting is known; raise the limit, or use a larger machine";
    return cat("no setting fits; the smallest found needs ", format_bytes(least_),
               ", most of it for data and parameters; raise the limit, or use a larger machine");
  }

 private:
  bool fits() {
    std::vector<std::int64_t> needs;
    for (std::size_t rank = 0; rank < setting_.workers.size(); ++rank)
      needs.push_back(share_(plan_rank(setting_.recipe, model_, data_, placement_, setting_.workers,
                                       static_cast<int>(rank), stop_)) +
                      besides_[std::min(rank, besides_.size() - 1)]);
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < needs.size(); ++rank)
      most = std::max(most, limits_.needed_with(needs, rank));
    least_ = std::min(least_, most);
    return limits_.exceeded(needs) < 0;
  }

  // Ranks of one worker, each with the smallest of the limits; 0: none are enough.
  int more_ranks_that_fit() {
    const Setting own = setting_;
    const Limits limits = limits_;
    const auto replicas = static_cast<std::size_t>(setting_.recipe.replicas);
    for (std::size_t ranks = own.workers.size(); ranks < replicas;) {
      ranks = std::min(2 * ranks, replicas);
      setting_.workers.assign(ranks, 1);
      limits_.bytes.assign(ranks, *std::ranges::min_element(limits.bytes));
      if (fits()) return static_cast<int>(ranks);
    }
    setting_ = own;
    limits_ = limits;
    return 0;
  }

  Setting setting_;
  const Share share_;
  const std::vector<std::int64_t> besides_;  // what ranks hold besides; others as much as the last
  const Model& model_;
  const DataShape& data_;
  const Placement& placement_;
  Limits limits_;
  StopToken stop_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

namespace {

// That the share of no rank exceeds what it may take: `limit`, or if that is 0 what `usable` says
// that its host has for all ranks there. `where` follows the bytes that are needed, for people.
// Returns RankPlan::program_bytes.
std::int64_t check_share(Share share, Program program, const char* where, const Recipe& recipe,
                         const Model& model, const DataShape& data, const Placement& placement,
                         std::int64_t limit, std::int64_t usable, std::int64_t loaded,
                         StopToken stop) {
  const RunRanks ranks(placement);
  Limits limits{.bytes = {}, .hosts = ranks.hosts(), .of_machine = limit == 0};
  Setting setting{.recipe = recipe, .workers = {}};
  const std::int64_t own =
      placement.workers != 0 ? placement.workers : default_workers(recipe.replicas, placement);
  require_workers(own, recipe.replicas);
  for (const std::string& text : ranks.gather(std::to_string(own)))
    setting.workers.push_back(std::stoi(text));
  const RankPlan plan =
      plan_rank(recipe, model, data, placement, setting.workers, ranks.rank(), stop);
  const std::int64_t besides = limits.of_machine || program == Program::kDoesNotCount
                                   ? 0
                                   : std::max<std::int64_t>(0, plan.program_bytes - loaded),
                     needed = share(plan) + besides;
  std::vector<std::int64_t> needs, all_besides;
  for (const std::string& text :
       ranks.gather(cat(needed, " ", besides, " ", limits.of_machine ? usable : limit))) {
    std::istringstream words(text);
    words >> needs.emplace_back() >> all_besides.emplace_back() >> limits.bytes.emplace_back();
  }
  const int exceeded = limits.exceeded(needs);
  if (exceeded < 0) return plan.program_bytes;

  const auto first = static_cast<std::size_t>(exceeded);
  MemoryUse only_data;
  only_data.data = data.bytes();
  const std::vector<std::int64_t> of_data(needs.size(), share(only_data));
  const bool data_alone = limits.exceeded(of_data) >= 0;
  std::string text = cat(ranks.several() ? ranks.name(exceeded) : "this run", " needs ",
                         format_bytes(needs[first]), where);
  if (besides != 0)
    text += cat(", ", format_bytes(all_besides[first]), " of it the program itself");
  if (data_alone) text += cat(", ", format_bytes(data.bytes()), " of it for its data alone");
  const std::int64_t with_neighbours = limits.needed_with(needs, first);
  if (with_neighbours != needs[first])
    text += cat(", and all ranks on its host ", format_bytes(with_neighbours));
  text += cat(!limits.of_machine ? "; the limit is "
              : ranks.several()  ? "; they may take "
                                 : ", and this process may take ",
              format_bytes(limits.bytes[first]), "; ");
  if (data_alone) {
    text += "raise the limit, or take fewer examples or a larger machine";
  } else {
    // All ranks wait for one of them to look.
    text += ranks.decide(
        ranks.leads() ? Search(setting, share, all_besides, model, data, placement, limits, stop)
                            .first_that_fits()
                      : "");
  }
  ranks.refuse(UserError(text, ExitCode::kMemory));
}

}  // namespace

std::int64_t check_memory(const Recipe& recipe, const Model& model, const DataShape& data,
                          const Placement& placement, std::int64_t limit, std::int64_t usable,
                          StopToken stop, std::int64_t loaded) {
  const Traits traits = make_device(placement.backend, device_options(placement))->traits();
  const std::int64_t own = traits.memory_bytes;
  if (own == 0)
    return check_share({[](const MemoryUse& use) { return use.total(); }}, Program::kCounts, "",
                       recipe, model, data, placement, limit, usable, loaded, stop);
  const std::int64_t program_bytes = check_share(
      {[](const MemoryUse& use) { return use.total() - use.on_device(); }}, Program::kCounts,
      " of the host's memory", recipe, model, data, placement, limit, usable, loaded, stop);
  if (traits.compiler_checks_memory) return program_bytes;
  return check_share({[](const MemoryUse& use) { return use.on_device(); }, traits.devices},
                     Program::kDoesNotCount, " of the device's memory", recipe, model, data,
                     placement, own, usable, loaded, stop);
}

namespace {

// Empty: nothing is known.
std::string smaller_replicas(const Recipe& recipe) {
  if (recipe.batch % (2 * recipe.replicas) != 0) return "";
  return cat("A replica of half as many examples needs about half: try replicas=",
             2 * recipe.replicas, " (another result)");
}

}  // namespace

void with_memory_remedy(const Recipe& recipe, const std::function<void()>& compile) {
  try {
    compile();
  } catch (const UserError& error) {
    const std::string remedy = smaller_replicas(recipe);
    if (error.code() != ExitCode::kMemory || remedy.empty()) throw;
    throw UserError(cat(error.what(), "\n", remedy), ExitCode::kMemory);
  }
}

void compile_within_memory(Trainer& trainer, std::int64_t limit, std::int64_t usable) {
  with_memory_remedy(trainer.recipe(), [&] { trainer.compile_step(); });
  const Traits traits = trainer.device().traits();
  if (!traits.compiler_checks_memory || traits.memory_bytes != 0) return;
  const std::int64_t needed = trainer.memory_use().total(), most = limit != 0 ? limit : usable;
  if (needed <= most) return;
  const std::string remedy = smaller_replicas(trainer.recipe());
  throw UserError(
      cat("this run needs ", format_bytes(needed), ", as compiled",
          limit != 0 ? "; the limit is " : ", and this process may take ", format_bytes(most), ". ",
          remedy.empty() ? "Raise the limit, or take a larger machine" : remedy),
      ExitCode::kMemory);
}

}  // namespace podium
