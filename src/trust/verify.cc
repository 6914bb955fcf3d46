#include "trust/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "nn/models.h"
#include "report/history.h"
#include "report/starts.h"
#include "train/plugin/plugin.h"
#include "train/recipe/recipe.h"
#include "train/run/initial.h"
#include "train/run/run.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// Of an interval with roundings, where bits cannot be equal.
constexpr int kTrials = 2;

// The states of a run from which steps can be computed again.
class States {
 public:
  States(const fs::path& run, Trainer& trainer) : trainer_(trainer) {
    for (const CheckpointPlace& place : list_checkpoints(run)) places_[place.step] = place.folder;
    std::error_code ignored;
    if (const fs::path best = best_checkpoint(run); fs::is_directory(best, ignored)) {
      const std::int64_t step = load_checkpoint(best).step;
      places_.try_emplace(step, best);
    }
  }

  // The values that the run began with, which the recipe gives, or the run that it names.
  void add_beginning() {
    if (places_.contains(0)) return;
    take_initial(trainer_);
    beginning_ = trainer_.checkpoint();
  }

  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    if (beginning_) steps.push_back(0);
    for (const auto& [step, folder] : places_) steps.push_back(step);
    return steps;
  }
  bool has(std::int64_t step) const { return places_.contains(step); }

  // Throws if it is not of this run, or of another contract.
  Checkpoint load(std::int64_t step) const {
    if (step == 0 && beginning_) return *beginning_;
    const fs::path& folder = places_.at(step);
    Checkpoint checkpoint = load_checkpoint(folder);
    require_same_contract(checkpoint, precision_of(trainer_.recipe()));
    trainer_.require_same_data(checkpoint);
    return checkpoint;
  }

 private:
  Trainer& trainer_;
  std::map<std::int64_t, fs::path> places_;
  std::optional<Checkpoint> beginning_;
};

// Of a run without checkpoints, what its last start says.
std::string kind_of_run(const fs::path& run, const Checkpoint& any) {
  if (const auto kind = any.metadata.find(kKindKey); kind != any.metadata.end())
    return kind->second;
  const std::vector<RunStart> starts = read_starts(run);
  return starts.empty() ? "" : starts.back().kind;
}

// Of the parameters.
double square_distance(const Checkpoint& a, const Checkpoint& b, const FlatLayout& layout) {
  double sum = 0;
  for (const FlatEntry& entry : layout.parameters) {
    const auto x = a.find(entry.name)->f32(), y = b.find(entry.name)->f32();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double apart = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      sum += apart * apart;
    }
  }
  return sum;
}

// The checkpoint with each parameter moved by up to 64 units in the last place.
Checkpoint rounded(Checkpoint checkpoint, const FlatLayout& layout, std::uint64_t seed) {
  constexpr std::uint64_t kUnits = 64;
  checkpoint.metadata.erase("parameter_hash");
  std::mt19937_64 random(seed + 1);
  for (const FlatEntry& entry : layout.parameters) {
    const auto found = std::ranges::find(checkpoint.tensors, entry.name, &NamedTensor::name);
    for (float& value : found->tensor.f32()) {
      const float moved =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) +
                               static_cast<std::uint32_t>(random() % (2 * kUnits + 1)) -
                               static_cast<std::uint32_t>(kUnits));
      if (value != 0 && std::isfinite(moved)) value = moved;
    }
  }
  return checkpoint;
}

// One verification.
class Verifier {
 public:
  Verifier(const fs::path& run, const VerifyOptions& options, const VerifyObserver& observer)
      : run_(run), options_(options), observer_(observer), begin_(Clock::now()) {
    require_run(run);
    const Recipe recipe = read_run_recipe(run, options.overrides);
    const RunData data = load_data(recipe, options.data_dir);
    trainer_ = std::make_unique<Trainer>(recipe, model_of(recipe), data.train, data.held_out,
                                         options.placement, options.stop);
    trainer_->identify_data(options.stop);
    states_ = std::make_unique<States>(run, *trainer_);
    for (const auto& [step, hash] : read_hashes(run)) hashes_[step] = hash;
  }

  VerifyResult verify() {
    look_ahead();
    if (options_.replicas > 0) return verify_replicas();
    observer_.planned(result_.outlook);
    for (const Walk& walk : result_.outlook.plan.walks) follow(walk);
    result_.seconds = seconds_since(begin_);
    return std::move(result_);
  }

 private:
  // Of the step after each checkpoint that has witness of its replicas.
  VerifyResult verify_replicas() {
    const std::int64_t all = trainer_->recipe().replicas;
    const std::int64_t count = std::min(options_.replicas, all);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(all));
    std::iota(numbers.begin(), numbers.end(), 0);
    VerifyOutlook& outlook = result_.outlook;
    for (const std::int64_t from : states_->steps())
      if (states_->load(from).metadata.contains(kWitnessKey))
        outlook.plan.walks.push_back({from, from + 1});
    PODIUM_REQUIRE(!outlook.plan.walks.empty(), ExitCode::kData, run_.string(),
                   ": no checkpoint of it has witness of single replicas; train with "
                   "run.witness=true, or verify whole steps, without --replicas");
    outlook.seconds_per_step = time_a_step(outlook.plan.walks.front().from) *
                               static_cast<double>(count) / static_cast<double>(all);
    observer_.planned(outlook);
    for (const Walk& walk : outlook.plan.walks) {
      const std::int64_t from = walk.from;
      const Checkpoint checkpoint = states_->load(from);
      const auto witness = checkpoint.metadata.find(kWitnessKey);
      options_.stop.check();
      trainer_->restore(checkpoint);
      ++result_.starts;
      const std::vector<std::int64_t> drawn =
          draw(numbers, count, options_.seed + static_cast<std::uint64_t>(from));
      const std::vector<std::uint64_t> hashes = trainer_->replica_hashes(drawn);
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        ++result_.replicas;
        // Sixteen digits each, with a blank between them.
        const std::string recorded =
            witness->second.size() < static_cast<std::size_t>(17 * all - 1)
                ? ""
                : witness->second.substr(static_cast<std::size_t>(17 * drawn[i]), 16);
        if (recorded == hash_text(hashes[i])) continue;
        result_.wrong.push_back({.step = from + 1,
                                 .from = from,
                                 .recorded = recorded,
                                 .computed = hash_text(hashes[i]),
                                 .note = cat("these are the gradients of its replica ", drawn[i]),
                                 .checkpoint = 0,
                                 .tensors = {}});
      }
    }
    result_.seconds = seconds_since(begin_);
    return std::move(result_);
  }

  // What can be computed, what of it is, and how long that takes.
  void look_ahead() {
    VerifyOutlook& outlook = result_.outlook;
    std::string no_beginning;
    try {
      states_->add_beginning();
    } catch (const UserError& error) {
      no_beginning = error.what();  // of a run that began with another one's values
    }
    const std::vector<std::int64_t> starts = states_->steps();
    PODIUM_REQUIRE(
        !starts.empty(), ExitCode::kData, run_.string(),
        ": it has no checkpoint, and the values that it began with are not there: ", no_beginning);
    const Checkpoint last = states_->load(starts.back());
    outlook.kind = trainer_->kind();
    outlook.run_kind = kind_of_run(run_, last);
    if (outlook.run_kind.empty()) outlook.run_kind = outlook.kind;
    outlook.exact = outlook.kind == outlook.run_kind;
    // Of another kind, only whole intervals can be compared, at the checkpoints that end them.
    std::vector<std::int64_t> steps;
    if (outlook.exact) {
      for (const auto& [step, hash] : hashes_) {
        if (step > starts.front())
          steps.push_back(step);
        else if (step > 0)
          ++outlook.unreachable;
      }
    }
    if (steps.empty()) steps.assign(starts.begin() + 1, starts.end());
    PODIUM_REQUIRE(!steps.empty(), ExitCode::kData, run_.string(), ": ",
                   outlook.exact
                       ? "no step of it has a hash in hashes.jsonl or a checkpoint that "
                         "can be computed again"
                       : cat("it was computed as ", outlook.run_kind, ", whose bits ", outlook.kind,
                             " does not have, and without a second "
                             "checkpoint nothing can be compared within a tolerance"),
                   no_beginning.empty() ? "" : cat("; ", no_beginning));
    outlook.hashed = std::ssize(steps);
    if (options_.replicas > 0) {
      PODIUM_REQUIRE(outlook.exact, ExitCode::kData, run_.string(), ": computed as ",
                     outlook.run_kind, "; single replicas are compared bit by bit, which ",
                     outlook.kind, " cannot");
      return;
    }
    outlook.seconds_per_step = time_a_step(starts.front()) * (outlook.exact ? 1 : 1 + kTrials);
    std::int64_t count = options_.all ? outlook.hashed : options_.steps;
    if (count == 0) {
      const auto most = static_cast<std::int64_t>(
          std::min(options_.budget_seconds / outlook.seconds_per_step, 1e15));
      count = count_for(steps, starts, most);
      PODIUM_REQUIRE(
          count > 0, ExitCode::kUsage, "one drawn step of ", run_.string(), " is ",
          count_text(std::llround(mean_steps(steps, starts, 1)), "step"),
          " from the checkpoint before it, as a mean, about ",
          std::llround(mean_steps(steps, starts, 1) * outlook.seconds_per_step),
          " seconds here, which is more than the budget of ", std::llround(options_.budget_seconds),
          " seconds; give a larger --budget, or --steps, or a faster --backend. A run that keeps "
          "more checkpoints (run.checkpoints_kept) is verified faster");
    }
    outlook.plan = draw_steps(steps, starts, count, options_.seed);
  }

  // The first is slower than the others.
  double time_a_step(std::int64_t from) {
    constexpr int kTimed = 3;
    constexpr double kLongEnough = 2;
    trainer_->restore(states_->load(from));
    double best = 0;
    const auto begin = Clock::now();
    for (int i = 0; i < kTimed && trainer_->steps_done() < trainer_->total_steps(); ++i) {
      options_.stop.check();
      const double seconds = trainer_->step({.hash = true, .throw_on_divergence = false}).seconds;
      best = i == 0 ? seconds : std::min(best, seconds);
      if (seconds_since(begin) > kLongEnough) break;
    }
    return std::max(best, 1e-6);
  }

  void follow(const Walk& walk) {
    const Checkpoint start = states_->load(walk.from);
    trainer_->restore(start);
    ++result_.starts;
    if (result_.outlook.exact && !start_is_sound(walk.from)) return;
    while (trainer_->steps_done() < walk.to) {
      if (!make_step(walk)) return;
    }
    if (states_->has(walk.to)) compare_checkpoint(walk, start);
  }

  // Its parameters are those that hashes.jsonl has after that step.
  bool start_is_sound(std::int64_t step) {
    const auto recorded = hashes_.find(step);
    if (recorded == hashes_.end() || recorded->second == trainer_->state_hash()) return true;
    result_.wrong.push_back({.step = step,
                             .from = step,
                             .recorded = hash_text(recorded->second),
                             .computed = hash_text(trainer_->state_hash()),
                             .note = "the parameters in its checkpoint are not those of "
                                     "hashes.jsonl; nothing after it was computed"});
    return false;
  }

  StepResult next_step() {
    options_.stop.check();
    const StepResult step = trainer_->step({.hash = true, .throw_on_divergence = false});
    ++result_.recomputed;
    observer_.made(result_.recomputed,
                   result_.outlook.plan.steps() * (result_.outlook.exact ? 1 : 1 + kTrials));
    return step;
  }

  // False: it is wrong, and so is all after it.
  bool make_step(const Walk& walk) {
    const StepResult step = next_step();
    const auto recorded = hashes_.find(step.step);
    const bool is_finite = step.non_finite.empty();
    if (is_finite && (!result_.outlook.exact || recorded == hashes_.end())) return true;
    ++result_.compared;
    if (is_finite && recorded->second == step.hash) return true;
    WrongStep wrong{.step = step.step, .from = walk.from};
    if (recorded != hashes_.end()) wrong.recorded = hash_text(recorded->second);
    if (is_finite)
      wrong.computed = hash_text(step.hash);
    else
      wrong.note = "here, " + step.divergence();
    // The tensors are known where the next checkpoint is.
    if (is_finite) {
      const std::vector<std::int64_t> starts = states_->steps();
      const auto next = std::ranges::lower_bound(starts, step.step);
      if (next != starts.end() && walk_on(*next)) {
        wrong.checkpoint = *next;
        wrong.tensors = tensor_differences(states_->load(*next), trainer_->checkpoint());
        if (wrong.tensors.empty())
          wrong.note =
              "the checkpoint has the tensors that were computed here: the line in "
              "hashes.jsonl is wrong";
      }
    }
    result_.wrong.push_back(std::move(wrong));
    return false;
  }

  bool walk_on(std::int64_t to) {
    while (trainer_->steps_done() < to) {
      if (!next_step().non_finite.empty()) return false;
    }
    return true;
  }

  void compare_checkpoint(const Walk& walk, const Checkpoint& start) {
    const Checkpoint recorded = states_->load(walk.to), computed = trainer_->checkpoint();
    if (!result_.outlook.exact) {
      const FlatLayout& layout = trainer_->layout();
      const double way = square_distance(start, recorded, layout);
      const auto share = [&](const Checkpoint& end, const Checkpoint& other) {
        const double apart = square_distance(end, other, layout);
        return std::sqrt(way > 0 ? apart / way : apart);
      };
      double most = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        trainer_->restore(rounded(start, layout, static_cast<std::uint64_t>(trial)));
        if (!walk_on(walk.to)) {
          result_.wrong.push_back({.step = walk.to,
                                   .from = walk.from,
                                   .recorded = {},
                                   .computed = {},
                                   .note = "with other roundings at its beginning, the interval "
                                           "diverges: nothing can be compared",
                                   .checkpoint = 0,
                                   .tensors = {}});
          return;
        }
        most = std::max(most, share(computed, trainer_->checkpoint()));
      }
      result_.distances.push_back({walk.from, walk.to, share(recorded, computed), 2 * most});
      if (result_.distances.back().is_too_far()) ++result_.too_far;
      return;
    }
    std::vector<TensorDifference> tensors = tensor_differences(recorded, computed);
    if (tensors.empty()) {
      ++result_.proven_checkpoints;
    } else {
      result_.wrong.push_back({.step = walk.to,
                               .from = walk.from,
                               .recorded = {},
                               .computed = {},
                               .note = "its hash is that of the step, and its checkpoint is not",
                               .checkpoint = walk.to,
                               .tensors = std::move(tensors)});
    }
  }

  const fs::path run_;
  const VerifyOptions& options_;
  const VerifyObserver& observer_;
  const Clock::time_point begin_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<States> states_;
  std::map<std::int64_t, std::uint64_t> hashes_;
  VerifyResult result_;
};

}  // namespace

VerifyResult verify_run(const fs::path& run, const VerifyOptions& options,
                        const VerifyObserver& observer) {
  return Verifier(run, options, observer).verify();
}

}  // namespace podium
