// Faults that can be switched on at their places in kernels and in the backend, one at a time: each
// must be found by what the tests do anyway (seeded_fault_test.cc). Code for GPUs has none of them.
#pragma once

#include <cstdint>

#include "backend/cuda/space.h"

// Name, and what goes wrong.
#define PODIUM_SEEDED_FAULTS(X)                                                                 \
  X(kTileReadTooEarly, "a tile of a product is read without a barrier after it was written")    \
  X(kTileWrittenTooEarly, "a tile's buffer is written while other threads still read it")       \
  X(kCopyNotWaited, "a copy to shared memory is read before it was waited for")                 \
  X(kOperandsNotWaited, "a warpgroup multiplies what its copies have not brought yet")          \
  X(kProductsNotWaited, "a warpgroup's operands are overwritten before they are multiplied")    \
  X(kTreeWithoutBarrier, "a level of a block's tree begins before the one below has ended")     \
  X(kBarrierInBranch, "a barrier lies in a branch that not all threads take")                   \
  X(kLaneMissingInMask, "the mask of a shuffle lacks lanes that take part")                     \
  X(kSharedUnwritten, "a place of shared memory is read that no thread wrote")                  \
  X(kSharedTooSmall, "a launch asks for less shared memory than its kernel uses")               \
  X(kScratchUnwritten, "a value of scratch memory is read that no kernel wrote")                \
  X(kSameValueTwice, "all threads write a result that one should write: the same value")        \
  X(kTermsReversed, "the terms of a slice are added from the last to the first")                \
  X(kRunsJoined, "the chain of a product goes on where a run ends")                             \
  X(kContracted, "one fused multiply-add where the contract has two roundings")                 \
  X(kPaddingMultiplied, "terms in the padding are multiplied as zeros instead of left out")     \
  X(kEdgeOffByOne, "the last row or column of a matrix is taken for one beyond its edge")       \
  X(kReadsBeyondEnd, "four values are read where the matrix ends before")                       \
  X(kReplicaForgotten, "a kernel reads the labels of the first replica for all of them")        \
  X(kTreeAsChain, "the replicas are added one after the other instead of as a tree")            \
  X(kHostReadsDevice, "the host reads memory of the device in place")                           \
  X(kUpdateWithoutLosses, "an update does not wait for the losses, of which one is not finite") \
  X(kUploadTooEarly, "parameters are sent ahead of the update that reads the old ones")         \
  X(kWaitsWhileRecording, "the host waits for a stream whose launches are being recorded")      \
  X(kStaleRecording, "launches are played that were recorded with other memory")                \
  X(kPeerCopyLost, "a copy to another GPU is not made")                                         \
  X(kPeerCopyShort, "a copy to another GPU lacks its last word")                                \
  X(kPeerCopyLate, "a copy to another GPU is made after what reads it has begun")               \
  X(kPeerCopyNotAwaited, "a copy from another GPU does not wait for what that one computes")    \
  X(kPeerCopyStale, "a GPU goes on with its copy after another one has written the values")

namespace podium::PODIUM_CUDA_SPACE {

enum class SeededFault : std::uint8_t {
  kNone,
#define PODIUM_SEEDED_FAULT(name, what) name,
  PODIUM_SEEDED_FAULTS(PODIUM_SEEDED_FAULT)
#undef PODIUM_SEEDED_FAULT
};

#ifdef PODIUM_CUDA_EMULATED
inline SeededFault g_seeded_fault = SeededFault::kNone;  // set by one thread, while nothing runs
inline bool seeded(SeededFault fault) { return g_seeded_fault == fault; }
#else
constexpr bool seeded(SeededFault /*fault*/) { return false; }
#endif

}  // namespace podium::PODIUM_CUDA_SPACE
