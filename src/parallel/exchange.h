// How workers add what their replicas computed, and share what they update.
//
// Replicas 0 ... R-1 are summed by the tree of base/tree.h, whatever the placement. A worker runs a
// contiguous range of replicas and holds the sums of the largest nodes of the tree that lie within
// it; the exchange joins them. Each worker does so for its shard alone: between ranks a transport
// moves bytes (transport.h), podium adds them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "parallel/transport.h"

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

// The workers of all ranks, in the order of the ranks; and the part of flat memory that each of
// them sums and updates.
struct Shards {
  std::vector<int> workers;        // of each rank
  std::vector<std::int64_t> cuts;  // in bytes: worker w of all has [cuts[w], cuts[w + 1])

  int first_worker(int rank) const;
  int all_workers() const { return static_cast<int>(cuts.size()) - 1; }
  std::int64_t begin(int rank) const;
  std::int64_t end(int rank) const;
};

// Adds up what the replicas of all workers of all ranks computed, and tells the ranks what they
// updated. Workers of one rank share its device and add in place, in each other's buffers. Ranks
// send each other the sums of their largest nodes, each the part that is the other's shard.
//
//   exchange.publish(node, buffer);       // each worker, for the nodes of its replicas
//   exchange.barrier().wait();
//   exchange.sum(worker);                 // each worker; the sum of its shard is complete then
//   update(exchange.sums(begin, end));    // within its shard
//   exchange.barrier().wait();
//   exchange.share();                     // one worker: the others' updates come in
class Exchange {
 public:
  // `transport` is null where this process is the only rank.
  Exchange(Device& device, Transport* transport, std::int64_t replicas, Shards shards);

  int rank() const { return transport_ == nullptr ? 0 : transport_->rank(); }
  int ranks() const { return static_cast<int>(shards_.workers.size()); }
  ReplicaRange replicas_of(int rank) const;
  Barrier& barrier() { return barrier_; }

  // Small memory of the host that all ranks have: all[r] is filled by rank r before sum(), and
  // holds what that rank wrote after it. To be called before the first step, by all ranks alike.
  void gather_with_sums(std::span<const std::span<std::byte>> all);
  // The same, and memory of the device, from share().
  void gather_with_updates(std::span<const std::span<std::byte>> all);
  // `flat` begins where flat memory has the byte `first`: each rank's part of it, by shards.
  void share_flat(View flat, std::int64_t first);

  // Announces the buffer that holds the sum over a node of largest_nodes of worker `worker` of this
  // rank, before the barrier.
  void publish(ReplicaRange node, Buffer& buffer);
  // After the barrier, by every worker of the rank.
  void sum(int worker);
  // Where the sum over all replicas of these bytes of flat memory lies, which are within the shard
  // of this rank; where there is one rank, they may be any. Valid until the next publish().
  View sums(std::int64_t begin, std::int64_t end) const;
  // Makes sums() valid for all of flat memory on every rank; by one worker, while others wait.
  void gather_sums();
  // all[r] comes from rank r; likewise.
  void all_gather(std::span<const View> all);
  // Memory as of share_flat(), once.
  void gather_flat(View flat, std::int64_t first);
  // Sends what this rank updated of share_flat() and takes in what others did; likewise.
  void share();

 private:
  // A buffer that holds flat memory from the byte `first` on.
  struct Place {
    Buffer* buffer = nullptr;
    std::int64_t first = 0;
    View view(std::int64_t begin, std::int64_t end) const {
      return {*buffer, begin - first, end - begin};
    }
  };
  struct Node {
    ReplicaRange replicas;
    Place place;
  };
  // What goes to other ranks and comes from them at once.
  struct Round {
    std::vector<Message> out, in;
  };

  Place sum_tree(ReplicaRange node, const std::vector<Node>& leaves, std::int64_t begin,
                 std::int64_t end);
  void join_ranks(int worker);
  void gather(Round& round, std::span<const View> all);
  std::vector<View> parts_of(View flat, std::int64_t first) const;
  std::vector<View> views_of(std::span<const std::span<std::byte>> all);

  Device& device_;
  Transport* const transport_;
  const std::int64_t replicas_;
  const Shards shards_;
  Barrier barrier_;
  std::vector<Node> worker_nodes_;  // of this rank's workers
  std::vector<Node> nodes_;         // of all ranks
  // Of this rank's among nodes_: their numbers, and the worker node whose buffer holds the sum.
  std::vector<std::pair<std::size_t, std::size_t>> own_nodes_;
  std::vector<std::unique_ptr<Buffer>> staging_;  // nodes of other ranks, as much as my shard
  std::unique_ptr<Buffer> gathered_;              // gather_sums()
  bool all_sums_ = false;
  Round sums_round_, share_round_;
  std::deque<HostMemory> host_memory_;
};

}  // namespace podium
