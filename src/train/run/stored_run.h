// A run whose folder is published to a store (store/stored_folder.h) after each checkpoint and each
// evaluation: its folder on this machine is StoredRun::folder(), for RunOptions::out. On another
// machine, a StoredRun of the same address goes on from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "store/stored_folder.h"
#include "train/run/run.h"

namespace podium {

// An observer of the run; after those that write into its folder.
class StoredRun : public RunObserver {
 public:
  // Of s3://BUCKET/KEY. Throws as StoredFolder does.
  explicit StoredRun(const std::string& address) : stored_(address) {}

  const std::filesystem::path& folder() const { return stored_.folder(); }
  void evaluated(const Trainer&, const EvaluationResult&) override { changed_ = true; }
  void saving(std::int64_t /*step*/) override { changed_ = true; }
  bool ends_run(const Trainer&) override;
  // Call it after run() has returned or thrown, and the other observers have finished: waits until
  // the folder is published. Throws UserError(kData) if it cannot be.
  void finish() { stored_.finish(); }

 private:
  StoredFolder stored_;
  bool changed_ = false;
};

// Calls `train` with the folder of this machine for `out`, and with what publishes it, if `out` is
// an address of a store; else with `out` and an observer that does nothing. The folder is published
// also if `train` throws.
void train_into(const std::filesystem::path& out,
                const std::function<void(const std::filesystem::path&, RunObserver&)>& train);

}  // namespace podium
