// What the ranks of a run agree on beside its steps. Rank 0 has the run's folder, and decides what
// depends on it; a run of one process decides alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/transport.h"
#include "train/loop/trainer.h"
#include "train/recipe/recipe.h"

namespace podium {

// Where a run has fewer replicas than ranks.
UserError too_many_ranks(int ranks, std::int64_t replicas);

class RunRanks {
 public:
  explicit RunRanks(const Placement& placement) : transport_(placement.ranks) {}

  bool several() const { return transport_ != nullptr && transport_->ranks() > 1; }
  bool leads() const { return transport_ == nullptr || transport_->rank() == 0; }
  int rank() const { return transport_ == nullptr ? 0 : transport_->rank(); }
  std::string name(int rank) const { return transport_->name(rank); }  // "rank 3 on host b"
  // Of each rank; of a run of one process one, without a name.
  std::vector<std::string> hosts() const;
  int count() const { return transport_ == nullptr ? 1 : transport_->ranks(); }

  // The bitwise or over all ranks; all call it at the same place.
  std::uint64_t agree(std::uint64_t flags) const {
    return several() ? transport_->agree(flags) : flags;
  }
  // What rank 0 says.
  std::uint64_t decide(std::uint64_t value) const { return agree(leads() ? value : 0); }
  std::string decide(const std::string& text) const { return gather(leads() ? text : "")[0]; }
  // The texts of all ranks.
  std::vector<std::string> gather(const std::string& mine) const {
    return several() ? transport_->gather(mine) : std::vector<std::string>{mine};
  }
  // "rank 3 on host b"; empty: there is one rank.
  std::string name() const { return several() ? name(rank()) : ""; }
  // Throws the error, which all ranks have found.
  [[noreturn]] void refuse(const UserError& error) const;
  // UserError, on all ranks alike, that names rank, host and difference, where not all have the
  // same recipe, the same Podium and the same numerical contract, or where they are too many.
  void require_same_program(const Recipe& recipe) const;
  // The same for the examples.
  void require_same_data(const Trainer& trainer) const;
  // The folder of the run, once rank 0 has it: where each rank leaves why the run failed, if it can
  // see it.
  void record_in(const std::filesystem::path& folder) const;
  // For messages about a rank that is lost.
  void at(std::int64_t step, const char* doing) const {
    if (several()) transport_->at(step, doing);
  }

 private:
  Transport* transport_;
};

}  // namespace podium
