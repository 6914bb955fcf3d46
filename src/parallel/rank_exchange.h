// The exchange between all workers of all ranks: the sums over replicas, each worker's shard of
// them, and then the parameters that the workers have updated.
//
// Replicas are spread over all workers, rank after rank. On two levels: the workers of a rank join
// the sums over their own nodes of the tree to those over the rank's largest nodes, in place, each
// a share of the bytes; each rank then gets the other ranks' parts of its own shards, and its
// workers add the rest of the tree, each in its shard. A rank that is alone does the second half
// only, in the workers' own buffers: nothing is copied. Nothing is allocated after construction.
//
// One step, on each worker of a rank; the transport's other ends do the same:
//
//   exchange.publish(node, buffer);            // for each of largest_nodes(R, my replicas)
//   exchange.barrier().wait();
//   exchange.sum(worker);                      // exchange.total() holds the sums of my shard
//   ... update my shard of the parameters, in place ...
//   exchange.barrier().wait();
//   if (worker == 0) gather.exchange();        // a ShardGather of the parameters
//   exchange.barrier().wait();                 // all parameters are new
//
// To compute while messages travel, call the parts of sum() instead: join(), barrier, send() by one
// worker; later receive() by one, barrier, add(). For a part of the bytes at a time (a bucket),
// make one Exchange for each, on channels of their own: views of the bucket are what is published.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parallel/exchange.h"
#include "parallel/transport.h"

namespace podium {

// Which workers belong to which rank; they are numbered through.
class RankWorkers {
 public:
  // workers[r]: how many rank r has, at least one.
  explicit RankWorkers(std::vector<std::int64_t> workers);
  // Gathers the number of all ranks.
  RankWorkers(Transport& transport, std::int64_t mine);

  int ranks() const { return static_cast<int>(first_.size()) - 1; }
  std::int64_t workers() const { return first_.back(); }  // of all ranks
  std::int64_t first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  std::int64_t workers(int rank) const { return first(rank + 1) - first(rank); }
  // Of all workers of a rank.
  ReplicaRange replicas(std::int64_t replicas, int rank) const;

 private:
  std::vector<std::int64_t> first_;  // of each rank, and the number of all
};

class Exchange {
 public:
  // Bytes cuts[w] to cuts[w + 1] of what is published are the shard of worker w, counted through
  // all ranks; they are multiples of 4. The transport uses `channel`.
  Exchange(Device& device, Transport& transport, int channel, std::int64_t replicas,
           const RankWorkers& workers, std::vector<std::int64_t> cuts);

  // Announces the view that holds the sum over a node of largest_nodes of one of this rank's
  // workers, before the barrier.
  void publish(ReplicaRange node, View view);
  // After the barrier, by every worker of the rank, `worker` counted from 0 within it: the sum over
  // all replicas, for its shard. `pastime` as for Barrier::wait().
  void sum(std::int64_t worker, const std::function<bool()>& pastime = {});
  // Where sum() adds: its own rank's shards hold the sums, until the next node is published.
  View total() const;
  Barrier& barrier() { return barrier_; }

  // The parts of sum(), for ranks that are not alone.
  void join(std::int64_t worker);
  void send();
  bool has_arrived() { return transport_.arrived(channel_); }
  void receive() { transport_.wait(channel_); }
  void add(std::int64_t worker);

 private:
  // A node whose sum lies somewhere: a worker's, or one that another rank sends.
  struct Held {
    ReplicaRange node;
    View view;
    std::int64_t offset = 0;  // of the view's first byte in what is published
    bool is_local = true;
  };
  struct Sum {
    Held* held;
    bool has_local;  // of what it sums, something was published here
  };
  struct Outgoing {
    std::size_t held;  // of joined_
    std::int64_t begin, end;
  };
  Sum add_node(std::vector<Held>& nodes, ReplicaRange node, std::int64_t begin, std::int64_t end);
  View part(const Held& held, std::int64_t begin, std::int64_t end) const {
    return held.view.part(begin - held.offset, end - begin);
  }
  std::int64_t cut(std::int64_t worker) const { return cuts_[static_cast<std::size_t>(worker)]; }

  Device& device_;
  Transport& transport_;
  const int channel_;
  const std::int64_t replicas_;
  const RankWorkers workers_;
  const std::vector<std::int64_t> cuts_;
  Barrier barrier_;
  std::vector<ReplicaRange> mine_;  // the largest nodes of this rank
  std::vector<Held> published_;     // by this rank's workers
  std::vector<Held> all_;           // of all ranks; this one's are joined
  std::size_t first_of_mine_ = 0;   // in all_: where total() is
  std::vector<std::unique_ptr<Buffer>> staging_;
  std::vector<Message> out_, in_;
  std::vector<Outgoing> outgoing_;  // of which out_ is made
};

// Memory of which each worker of all ranks has written its shard: bytes cuts[w] to cuts[w + 1].
struct Sharded {
  View view;
  std::vector<std::int64_t> cuts;
};

// Gives all ranks all shards of some views, in place.
class ShardGather {
 public:
  ShardGather(Transport& transport, int channel, const RankWorkers& workers,
              std::span<const Sharded> parts);
  // By one worker of each rank, after all of the rank's have written.
  void start() { transport_.start(channel_, out_, in_); }
  void wait() { transport_.wait(channel_); }
  void exchange() {
    start();
    wait();
  }

 private:
  Transport& transport_;
  const int channel_;
  std::vector<Message> out_, in_;
};

}  // namespace podium
