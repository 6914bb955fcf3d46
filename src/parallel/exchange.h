// How workers add what their replicas computed, and share what they update.
//
// Replicas 0 ... R-1 are summed by the tree of base/tree.h, whatever the placement. A worker runs a
// contiguous range of replicas and holds the sums of the largest nodes of the tree that lie within
// it; the exchange joins them. Each worker does so for its shard alone: the transport moves bytes,
// podium adds them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "backend/device.h"

namespace podium {

struct ReplicaRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const ReplicaRange&) const = default;
};

// Worker `worker` of `workers`: ranges differ in size by one at most.
ReplicaRange replicas_of_worker(std::int64_t replicas, std::int64_t workers, std::int64_t worker);

// The largest nodes of the tree over [0, replicas) that lie within `range`, from left to right.
std::vector<ReplicaRange> largest_nodes(std::int64_t replicas, ReplicaRange range);

// Where a group of workers meets. Waiting workers spin for a moment, then yield.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  // Throws InternalError once a member has abandoned the barrier. `pastime` is called again and
  // again while others are awaited; it does something short and says whether it did.
  void wait(const std::function<bool()>& pastime = {});
  // A member will not come again: all who wait, and all who come later, are let go by an exception.
  void abandon() { abandoned_.store(true, std::memory_order_release); }

 private:
  void leave_if_abandoned() const;
  const int members_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};
  std::atomic<bool> abandoned_{false};
};

// The exchange between workers of one device: each adds in the others' buffers, where they lie.
class ThreadExchange {
 public:
  ThreadExchange(Device& device, std::int64_t replicas, std::int64_t workers);

  // Announces the buffer that holds the sum over a node of largest_nodes, before the barrier.
  void publish(ReplicaRange node, Buffer& buffer);
  // After the barrier: the sum over all replicas of bytes [begin, end) of FP32 values. It adds in
  // place, into buffers that were published; each worker asks for its own shard, disjoint from the
  // others'.
  void sum(std::int64_t begin, std::int64_t end);
  // Where sum() adds: once every worker has asked for its shard, the sum over all replicas of
  // everything, until the next node is published.
  View total() const { return *buffers_[0]; }
  Barrier& barrier() { return barrier_; }

 private:
  Buffer* sum_node(ReplicaRange node, std::int64_t begin, std::int64_t end);

  Device& device_;
  std::int64_t replicas_;
  Barrier barrier_;
  std::vector<ReplicaRange> nodes_;  // of all workers
  std::vector<Buffer*> buffers_;
};

}  // namespace podium
