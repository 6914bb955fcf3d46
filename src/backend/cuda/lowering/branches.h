// Parts of a program that have nothing to do with each other, such as the updates of an optimizer's
// tensors: where launches are recorded, they run side by side.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/lowering/lowering.h"
#include "backend/cuda/runtime.h"

namespace podium::PODIUM_CUDA_SPACE {

// Numbers the branches of a program in its steps, and returns how many there are. `donated`:
// numbers of outputs and of the inputs whose memory they have.
int find_branches(Program& program, const std::vector<std::pair<int, int>>& donated);

// The streams of branches, for launches that are being recorded on a main stream. It outlives the
// recording of them.
class BranchStreams {
 public:
  BranchStreams();
  ~BranchStreams();
  BranchStreams(const BranchStreams&) = delete;
  BranchStreams& operator=(const BranchStreams&) = delete;

  // As many branches as are given from here on follow what `main` has.
  void fork(Stream main, int branches);
  Stream of(int branch) const {
    return streams_[static_cast<std::size_t>(branch) % streams_.size()];
  }
  // `main` goes on when all branches have ended.
  void join();

 private:
  void let_follow(Stream stream, Stream other);

  std::vector<Stream> streams_;  // of the branches: the main one first
  std::vector<Stream> own_;
  std::vector<std::unique_ptr<runtime::Event>> events_;
};

}  // namespace podium::PODIUM_CUDA_SPACE
