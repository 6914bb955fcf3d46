// How workers add what their replicas computed, and share what they update.
//
// Replicas 0 ... R-1 are summed by the tree of base/numerics/tree.h, whatever the placement. A
// worker runs a contiguous range of replicas and holds the sums of the largest nodes of the tree
// that lie within it; the exchange joins them. Each worker does so for its shard alone: between
// ranks a transport moves bytes (transport.h), podium adds them.
//
// Flat memory is cut into buckets, in the order in which a replica's program finishes them, and
// each bucket into shards. While the last replica of each worker is still computing, the buckets
// that are ready travel to the other ranks; while the next batch is made, updated parameters do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "base/trace.h"
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

// The least size of a bucket of the exchange where nobody asks for another, or for `asked` bytes
// (0: nobody does), with so many bytes of flat memory: small enough that most of the exchange lies
// within the backward pass, large enough that a message costs more than its latency.
std::int64_t bucket_size(std::int64_t flat_bytes, std::int64_t asked = 0);

// Where a group of workers meets.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  // Throws InternalError once a member has abandoned the barrier. `pastime` is called again and
  // again while others are awaited; it does something short and says whether it did.
  void wait(const std::function<bool()>& pastime = {});
  // The same, until `count` has reached `goal`.
  void wait_for(const std::atomic<int>& count, int goal);
  // A member will not come again: all who wait, and all who come later, are let go by an exception.
  void abandon() { abandoned_.store(true, std::memory_order_release); }

 private:
  template <typename Done, typename Pastime>
  void wait_until(const Done& done, const Pastime& pastime) const;
  void leave_if_abandoned() const;
  const int members_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};
  std::atomic<bool> abandoned_{false};
};

// The workers of all ranks, in the order of the ranks; and the parts of flat memory that each of
// them sums and updates.
struct Shards {
  std::vector<int> workers;  // of each rank
  // Of each bucket, in bytes: worker w of all has [cuts[bucket][w], cuts[bucket][w + 1]). The first
  // bucket is the end of flat memory, the last is its beginning, and nothing lies between two.
  std::vector<std::vector<std::int64_t>> cuts;

  int ranks() const { return static_cast<int>(workers.size()); }
  int buckets() const { return static_cast<int>(cuts.size()); }
  int first_worker(int rank) const;
  int all_workers() const { return first_worker(ranks()); }
  ReplicaRange replicas_of(int rank, std::int64_t replicas) const;
  std::int64_t begin(int bucket, int rank) const;
  std::int64_t end(int bucket, int rank) const;
  std::int64_t bytes() const { return cuts.front().back(); }  // of all flat memory
};

// Adds up what the replicas of all workers of all ranks computed, and tells the ranks what they
// updated. Workers of one rank share its device and add in place, in each other's buffers. Ranks
// send each other the sums of their largest nodes, each the part that is the other's shard.
//
//   exchange.begin_step();                           // one worker, before the others go on
//   exchange.publish(node, buffer);                  // each worker, for the nodes of its replicas
//   for each bucket: exchange.complete(worker, b);   // as soon as it is in all of its nodes
//   exchange.barrier().wait();                       // (of one rank with several GPUs, sums are
//                                                    // made in complete() already)
//   for each bucket: exchange.sum(worker, b);        // the sum of its shard is complete then
//                    update(exchange.sums(begin, end));
//                    exchange.updated(b);            // and travels to the other ranks
//   ... make the next batch ...
//   exchange.finish_updates();                       // the others' have come
class Exchange {
 public:
  static constexpr int kMostBuckets = 64;
  // What all ranks tell each other at once.
  struct Round {
    std::vector<Message> out, in;
  };

  // `transport` is null where this process is the only rank.
  // `trace` may be null.
  Exchange(Device& device, Transport* transport, std::int64_t replicas, Shards shards,
           Trace* trace = nullptr);

  int rank() const { return transport_ == nullptr ? 0 : transport_->rank(); }
  int ranks() const { return shards_.ranks(); }
  int buckets() const { return shards_.buckets(); }
  Barrier& barrier() { return barrier_; }

  // Small memory of the host that all ranks have: all[r] is what rank r has written there before
  // complete() of the first bucket; here after sum() of that. To be called before the first step,
  // by all ranks alike.
  void gather_with_sums(std::span<const std::span<std::byte>> all);
  // `flat` begins where flat memory has the byte `first`: what each rank updates of it goes to all.
  // Likewise.
  void share_flat(View flat, std::int64_t first);

  void begin_step();
  // Announces the buffer that holds, or will hold, the sum over a node of largest_nodes of worker
  // `worker` of this rank.
  void publish(ReplicaRange node, Buffer& buffer);
  // The sums over all nodes of this worker are ready in this bucket. Buckets come in their order.
  // Where workers have devices that compute by themselves, this waits until all have said so, and
  // makes the additions that can be made within the rank.
  void complete(int worker, int bucket);
  // After the barrier, by every worker of the rank.
  void sum(int worker, int bucket);
  // Where the sum over all replicas of these bytes of flat memory lies, which are within one bucket
  // and the shard of this rank; where there is one rank, they may be any. Valid until the next
  // publish().
  View sums(std::int64_t begin, std::int64_t end) const;
  // A worker has updated its shard of the bucket.
  void updated(int bucket);
  // Until what other ranks have updated has come. Does nothing the second time; by any worker.
  void finish_updates();

  // The following wait for the other ranks; by one worker, while the others of this rank wait.

  // Makes sums() valid for all of flat memory on every rank.
  void gather_sums();
  // Memory of the host: all[r] comes from rank r.
  void all_gather(std::span<const std::span<std::byte>> all);
  // Memory as of share_flat(), once.
  void gather_flat(View flat, std::int64_t first);
  // Of memory of the device, for sums.
  std::int64_t buffer_bytes() const;
  // As the first rank has it.
  void broadcast(View view);
  // The same for several at once, prepared by add().
  void exchange(const Round& round);
  void add(Round& round, std::span<const View> all) const;
  void add(Round& round, std::span<const std::span<std::byte>> all);

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
  struct Bucket {
    std::int64_t begin = 0, end = 0;
    std::vector<Node> nodes;                             // of all ranks
    Round sums, updates;                                 // its messages
    std::atomic<int> arrived{0}, joined{0}, updated{0};  // workers of this rank
    std::atomic<int> sent{0};                            // 1: its sums are on their way
    bool received = false;                               // sums have; under mutex_
    bool sharing = false;                                // updates travel; under mutex_
    int lane = 0;                                        // of trace_
    Clock::time_point sums_start, updates_start;
  };
  struct alignas(64) WorkerState {
    int next_to_join = 0;  // bucket
  };

  Place sum_tree(ReplicaRange node, const std::vector<Node>& leaves, int worker, std::int64_t begin,
                 std::int64_t end);
  void join(int worker);
  void sum_shard(int worker, int bucket);
  void send_sums(Bucket& bucket, int number);
  Bucket& bucket(int number) { return *buckets_[static_cast<std::size_t>(number)]; }
  int own_workers() const { return shards_.workers[static_cast<std::size_t>(rank())]; }
  std::vector<View> parts_of(View flat, std::int64_t first, int bucket) const;

  Device& device_;
  Transport* const transport_;
  const std::int64_t replicas_;
  const Shards shards_;
  Trace* const trace_;
  const bool sums_early_;  // in complete()
  Barrier barrier_;
  std::vector<Node> worker_nodes_;  // of this rank's workers
  std::vector<std::unique_ptr<Bucket>> buckets_;
  // Of this rank's among the nodes of a bucket: their numbers, and the worker node whose buffer
  // holds the sum.
  std::vector<std::pair<std::size_t, std::size_t>> own_nodes_;
  std::vector<WorkerState> workers_;
  std::vector<std::unique_ptr<Buffer>> staging_;  // nodes of other ranks, as much as my shards
  std::unique_ptr<Buffer> gathered_;              // gather_sums()
  bool all_sums_ = false;
  std::mutex mutex_;
  std::deque<HostMemory> host_memory_;
};

}  // namespace podium
