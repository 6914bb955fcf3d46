// Proves steps of a run by computing them again, here: `podium verify`. The hash of every step that
// is computed is compared with the recorded one, and every checkpoint that is reached with the
// recorded one, tensor by tensor. docs/trust.md says what this proves and what not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/stop.h"
#include "train/loop/trainer.h"
#include "trust/tensor_difference.h"
#include "trust/verify_plan.h"

namespace podium {

struct VerifyOptions {
  std::string data_dir;
  Placement placement;
  std::vector<std::string> overrides;  // of the recipe: where the data are now
  std::int64_t replicas = 0;           // of each witnessed step, instead of whole steps; 0: steps
  bool all = false;                    // every step; otherwise so many drawn ones,
  std::int64_t steps = 0;
  double budget_seconds = 0;  // or, where that is 0, as many as can be computed in this time
  std::uint64_t seed = 0;     // of the drawing
  StopToken stop;
};

// What is known before the work begins.
struct VerifyOutlook {
  std::int64_t hashed = 0;       // steps that have a hash and can be computed again
  std::int64_t unreachable = 0;  // that have one, but come before the first state that is known
  std::string kind, run_kind;    // Trainer::kind(), of this device and of the run
  bool exact = true;             // they are one: bits are compared
  VerifyPlan plan;
  double seconds_per_step = 0;
  double seconds() const { return static_cast<double>(plan.steps()) * seconds_per_step; }
};

struct WrongStep {
  std::int64_t step = 0, from = 0;  // computed from the state after step `from`
  // By the lines of hashes.jsonl, and here. Empty where the step's checkpoint alone is wrong.
  std::string recorded, computed;
  std::string note;             // what else is known
  std::int64_t checkpoint = 0;  // the tensors are those after this step; 0: none were compared
  std::vector<TensorDifference> tensors;
};

// Between two checkpoints, of another kind: how far the parameters computed here end from the
// recorded ones, over the way that these went. It may be twice as much as what 64 roundings of each
// parameter at the beginning change at the end, at most, in two trials here.
struct Distance {
  std::int64_t from = 0, to = 0;
  double share = 0, allowed = 0;
  bool is_too_far() const { return !(share <= allowed); }
};

struct VerifyResult {
  VerifyOutlook outlook;
  std::int64_t recomputed = 0;          // steps
  std::int64_t compared = 0;            // hashes of these
  std::int64_t starts = 0;              // checkpoints from which steps were computed
  std::int64_t proven_checkpoints = 0;  // that were reached and are equal in every tensor
  std::vector<WrongStep> wrong;
  std::vector<Distance> distances;  // not exact
  std::int64_t replicas = 0;        // that were computed alone
  std::int64_t too_far = 0;         // of these
  double seconds = 0;
  bool equal() const { return wrong.empty() && too_far == 0; }
};

struct VerifyObserver {
  std::function<void(const VerifyOutlook&)> planned;              // called once, before the work
  std::function<void(std::int64_t done, std::int64_t all)> made;  // called after each step
};

// With VerifyOptions::replicas, so many drawn replicas of the step after each checkpoint are
// computed instead, at their share of its cost, where the run has witness of them (run.witness).
//
// Throws UserError: kData if the run, its data or its checkpoints are not there, are damaged or are
// those of another contract; kUsage if nothing can be computed within the options. Throws Stopped
// if `stop` requests it.
VerifyResult verify_run(const std::filesystem::path& run, const VerifyOptions& options,
                        const VerifyObserver& observer);

}  // namespace podium
