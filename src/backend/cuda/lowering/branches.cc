#include "backend/cuda/lowering/branches.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// More would not fill a GPU better: each has kernels of many blocks.
constexpr std::size_t kMostStreams = 8;

// Steps that were found to belong together, as trees of which the root stands for all.
class Sets {
 public:
  explicit Sets(std::size_t count) : above_(count) { std::iota(above_.begin(), above_.end(), 0U); }
  std::size_t root(std::size_t i) const {
    while (above_[i] != i) i = above_[i];
    return i;
  }
  // The earlier of two roots stands for both.
  void join(std::size_t a, std::size_t b) {
    const auto [first, second] = std::minmax({root(a), root(b)});
    above_[second] = first;
  }

 private:
  std::vector<std::size_t> above_;
};

}  // namespace

int find_branches(Program& program, const std::vector<std::pair<int, int>>& donated) {
  // What slots are the same memory, and what memory is written.
  const auto memory_of = [&](Slot slot) {
    const SlotInfo& info = program.slots[static_cast<std::size_t>(slot)];
    std::pair<SlotInfo::Kind, int> memory{info.kind, info.external};
    if (info.kind == SlotInfo::Kind::kArena) memory.second = slot;
    if (info.kind != SlotInfo::Kind::kOutput) return memory;
    const auto found = std::ranges::find(donated, info.external, &std::pair<int, int>::first);
    if (found != donated.end()) memory = {SlotInfo::Kind::kInput, found->second};
    return memory;
  };
  std::map<std::pair<SlotInfo::Kind, int>, std::vector<std::size_t>> users;
  std::map<std::pair<SlotInfo::Kind, int>, bool> written;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    for (const Slot slot : program.steps[i].reads) users[memory_of(slot)].push_back(i);
    for (const Slot slot : program.steps[i].writes) {
      users[memory_of(slot)].push_back(i);
      written[memory_of(slot)] = true;
    }
  }
  Sets sets(program.steps.size());
  for (const auto& [memory, steps] : users)
    if (written.contains(memory))
      for (const std::size_t step : steps) sets.join(steps[0], step);
  std::map<std::size_t, int> number;
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    program.steps[i].branch =
        number.emplace(sets.root(i), static_cast<int>(number.size())).first->second;
  return static_cast<int>(number.size());
}

BranchStreams::BranchStreams() {
  while (own_.size() + 1 < kMostStreams) own_.push_back(runtime::make_stream());
}

BranchStreams::~BranchStreams() {
  for (const Stream stream : own_) runtime::destroy_stream(stream);
}

void BranchStreams::let_follow(Stream stream, Stream other) {
  // Kept until the recording has ended.
  events_.push_back(runtime::make_event());
  events_.back()->set(other);
  events_.back()->hold(stream);
}

void BranchStreams::fork(Stream main, int branches) {
  const std::size_t count = std::min(static_cast<std::size_t>(branches), kMostStreams);
  streams_.assign(1, main);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    streams_.push_back(own_[i]);
    let_follow(own_[i], main);
  }
}

void BranchStreams::join() {
  for (std::size_t i = 1; i < streams_.size(); ++i) let_follow(streams_[0], streams_[i]);
}

}  // namespace podium::PODIUM_CUDA_SPACE
