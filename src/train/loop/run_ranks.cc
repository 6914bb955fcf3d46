#include "train/loop/run_ranks.h"

#include <unistd.h>

#include "base/numerics/contract.h"
#include "base/version.h"
#include "base/words.h"

namespace podium {

std::vector<std::string> RunRanks::hosts() const {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < count(); ++rank)
    hosts.push_back(transport_ == nullptr ? "" : transport_->host(rank));
  return hosts;
}

UserError too_many_ranks(int ranks, std::int64_t replicas) {
  return UserError(cat("a run of ", count_text(replicas, "replica"),
                       " has at most as many ranks, not ", ranks,
                       " (a rank runs whole replicas); start fewer, or give the recipe more "
                       "replicas"));
}

void RunRanks::refuse(const UserError& error) const {
  if (several()) transport_->leave_before_refusal();
  throw error;
}

void RunRanks::require_same_program(const Recipe& recipe) const {
  if (!several()) return;
  transport_->agree_on("version of Podium", kVersion);
  transport_->agree_on("recipe", to_toml(recipe));
  transport_->agree_on("numerical contract",
                       std::to_string(numerical_contract(precision_of(recipe))));
  if (count() > recipe.replicas) refuse(too_many_ranks(count(), recipe.replicas));
}

void RunRanks::require_same_data(const Trainer& trainer) const {
  if (!several()) return;
  transport_->agree_on("kind of device", trainer.kind());
  transport_->agree_on("training set", trainer.training_identity());
  transport_->agree_on("evaluation set", trainer.evaluation_identity());
}

void RunRanks::record_in(const std::filesystem::path& folder) const {
  if (!several()) return;
  const std::string lock = decide(leads() ? cat(getpid(), "\n") : "");
  transport_->record_in(std::filesystem::absolute(folder).string(), lock);
}

}  // namespace podium
