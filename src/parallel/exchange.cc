#include "parallel/exchange.h"

#include <algorithm>
#include <numeric>

#include "base/numerics/tree.h"
#include "base/patience.h"

namespace podium {
namespace {

// Channels of the transport: one for each bucket, and one for all else.
constexpr int kSums = 0, kUpdates = Exchange::kMostBuckets, kOther = 2 * Exchange::kMostBuckets;
static_assert(kOther < Transport::kControl);

// The part of [0, bytes) that is [begin, end) moved by -first.
View part_of(View flat, std::int64_t first, std::int64_t begin, std::int64_t end) {
  const std::int64_t from = std::clamp<std::int64_t>(begin - first, 0, flat.bytes),
                     to = std::clamp<std::int64_t>(end - first, 0, flat.bytes);
  return flat.part(from, to - from);
}

// `memory` is to outlive the views.
std::vector<View> views_of(std::span<const std::span<std::byte>> all,
                           std::deque<HostMemory>& memory) {
  std::vector<View> views;
  for (const std::span<std::byte> own : all)
    views.emplace_back(memory.emplace_back(own.data(), std::ssize(own)));
  return views;
}

void collect(ReplicaRange node, ReplicaRange range, std::vector<ReplicaRange>& nodes) {
  if (node.end <= range.begin || range.end <= node.begin) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    nodes.push_back(node);
    return;
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  collect({node.begin, middle}, range, nodes);
  collect({middle, node.end}, range, nodes);
}

}  // namespace

ReplicaRange replicas_of_worker(std::int64_t replicas, std::int64_t workers, std::int64_t worker) {
  return {replicas * worker / workers, replicas * (worker + 1) / workers};
}

std::vector<ReplicaRange> largest_nodes(std::int64_t replicas, ReplicaRange range) {
  std::vector<ReplicaRange> nodes;
  if (range.size() > 0) collect({0, replicas}, range, nodes);
  return nodes;
}

std::int64_t bucket_size(std::int64_t flat_bytes, std::int64_t asked) {
  if (asked == 0) asked = std::clamp<std::int64_t>(flat_bytes / 8, 256 << 10, 4 << 20);
  return std::max(asked, 2 * flat_bytes / Exchange::kMostBuckets);
}

void Barrier::leave_if_abandoned() const {
  if (abandoned_.load(std::memory_order_acquire))
    throw InternalError(__FILE__, __LINE__, "another worker ended before the barrier");
}

template <typename Done, typename Pastime>
void Barrier::wait_until(const Done& done, const Pastime& pastime) const {
  for (Patience patience; !done();) {
    leave_if_abandoned();
    if (pastime())
      patience = {};
    else
      patience.wait();
  }
}

void Barrier::wait(const std::function<bool()>& pastime) {
  leave_if_abandoned();
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  wait_until([&] { return phase_.load(std::memory_order_acquire) != phase; },
             [&] { return pastime && pastime(); });
}

void Barrier::wait_for(const std::atomic<int>& count, int goal) {
  wait_until([&] { return count.load(std::memory_order_acquire) == goal; }, [] { return false; });
}

int Shards::first_worker(int rank) const {
  return std::accumulate(workers.begin(), workers.begin() + rank, 0);
}

ReplicaRange Shards::replicas_of(int rank, std::int64_t replicas) const {
  const int all = all_workers();
  return {replicas_of_worker(replicas, all, first_worker(rank)).begin,
          replicas_of_worker(replicas, all, first_worker(rank + 1) - 1).end};
}

std::int64_t Shards::begin(int bucket, int rank) const {
  return cuts[static_cast<std::size_t>(bucket)][static_cast<std::size_t>(first_worker(rank))];
}

std::int64_t Shards::end(int bucket, int rank) const { return begin(bucket, rank + 1); }

Exchange::Exchange(Device& device, Transport* transport, std::int64_t replicas, Shards shards,
                   Trace* trace)
    : device_(device),
      transport_(transport),
      replicas_(replicas),
      shards_(std::move(shards)),
      trace_(trace),
      sums_early_(own_workers() > 1 && device.traits().joint_replicas),
      barrier_(own_workers()),
      workers_(static_cast<std::size_t>(own_workers())) {
  PODIUM_CHECK(buckets() >= 1 && buckets() <= kMostBuckets, buckets(), " buckets");
  const int mine = shards_.first_worker(rank());
  for (int worker = mine; worker < mine + own_workers(); ++worker)
    for (const ReplicaRange node :
         largest_nodes(replicas, replicas_of_worker(replicas, shards_.all_workers(), worker)))
      worker_nodes_.push_back({node, {}});

  std::int64_t shard_bytes = 0;
  for (int b = 0; b < buckets(); ++b) {
    buckets_.push_back(std::make_unique<Bucket>());
    bucket(b).begin = shards_.begin(b, 0);
    bucket(b).end = shards_.end(b, ranks() - 1);
    if (trace_ != nullptr && ranks() > 1) bucket(b).lane = trace_->lane(cat("bucket ", b));
    shard_bytes += shards_.end(b, rank()) - shards_.begin(b, rank());
  }
  std::size_t number = 0;
  for (int r = 0; r < ranks(); ++r) {
    for (const ReplicaRange node : largest_nodes(replicas, shards_.replicas_of(r, replicas))) {
      if (r == rank()) {
        const auto holder = std::ranges::find(
            worker_nodes_, node.begin, [](const Node& other) { return other.replicas.begin; });
        own_nodes_.emplace_back(number, static_cast<std::size_t>(holder - worker_nodes_.begin()));
      } else {
        staging_.push_back(device.allocate(shard_bytes));
      }
      std::int64_t used = 0;  // of staging memory
      for (int b = 0; b < buckets(); ++b) {
        Bucket& own = bucket(b);
        if (r == rank()) {
          own.nodes.push_back({node, {}});
          // Where it lies is known in each step anew.
          for (int to = 0; to < ranks(); ++to)
            if (to != r) own.sums.out.push_back({to, {}});
        } else {
          const std::int64_t begin = shards_.begin(b, rank()), end = shards_.end(b, rank());
          own.nodes.push_back({node, {staging_.back().get(), begin - used}});
          own.sums.in.push_back({r, own.nodes.back().place.view(begin, end)});
          used += end - begin;
        }
      }
      ++number;
    }
  }
}

void Exchange::add(Round& round, std::span<const View> all) const {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    round.out.push_back({r, all[static_cast<std::size_t>(rank())]});
    round.in.push_back({r, all[static_cast<std::size_t>(r)]});
  }
}

void Exchange::add(Round& round, std::span<const std::span<std::byte>> all) {
  add(round, views_of(all, host_memory_));
}

void Exchange::gather_with_sums(std::span<const std::span<std::byte>> all) {
  add(bucket(0).sums, all);
}

std::vector<View> Exchange::parts_of(View flat, std::int64_t first, int b) const {
  std::vector<View> all;
  for (int r = 0; r < ranks(); ++r)
    all.push_back(part_of(flat, first, shards_.begin(b, r), shards_.end(b, r)));
  return all;
}

void Exchange::share_flat(View flat, std::int64_t first) {
  for (int b = 0; b < buckets(); ++b) add(bucket(b).updates, parts_of(flat, first, b));
}

void Exchange::begin_step() {
  all_sums_ = false;
  for (const auto& own : buckets_) {
    own->arrived = own->joined = own->updated = own->sent = 0;
    own->received = false;
  }
  for (WorkerState& worker : workers_) worker.next_to_join = 0;
}

void Exchange::publish(ReplicaRange node, Buffer& buffer) {
  const auto found = std::ranges::find(worker_nodes_, node, &Node::replicas);
  if (found == worker_nodes_.end())
    throw InternalError(__FILE__, __LINE__, "no worker holds this node");
  found->place = {&buffer, 0};
}

void Exchange::complete(int worker, int number) {
  if (ranks() == 1 && !sums_early_) return;
  bucket(number).arrived.fetch_add(1, std::memory_order_acq_rel);
  if (sums_early_) barrier_.wait_for(bucket(number).arrived, own_workers());
  join(worker);
}

// Joins this worker's part of all buckets that are complete. Whoever is the last to do so sends the
// bucket.
void Exchange::join(int worker) {
  int& next = workers_[static_cast<std::size_t>(worker)].next_to_join;
  for (; next < buckets(); ++next) {
    Bucket& own = bucket(next);
    if (own.arrived.load(std::memory_order_acquire) != own_workers()) return;
    if (ranks() == 1) {
      sum_shard(worker, next);
      continue;
    }
    constexpr std::int64_t kAlign = 64;
    const std::int64_t units = (own.end - own.begin) / kAlign;
    const auto cut = [&](int w) {
      return w == own_workers() ? own.end : own.begin + units * w / own_workers() * kAlign;
    };
    for (const auto& [node, holder] : own_nodes_)
      if (cut(worker) < cut(worker + 1))
        sum_tree(own.nodes[node].replicas, worker_nodes_, worker, cut(worker), cut(worker + 1));
    if (own.joined.fetch_add(1, std::memory_order_acq_rel) + 1 == own_workers())
      send_sums(own, next);
  }
}

void Exchange::send_sums(Bucket& own, int number) {
  std::size_t message = 0;
  for (const auto& [node, holder] : own_nodes_) {
    own.nodes[node].place = worker_nodes_[holder].place;
    for (int to = 0; to < ranks(); ++to) {
      if (to == rank()) continue;
      own.sums.out[message++].view =
          own.nodes[node].place.view(shards_.begin(number, to), shards_.end(number, to));
    }
  }
  own.sums_start = Clock::now();
  transport_->start(kSums + number, own.sums.out, own.sums.in);
  own.sent.store(1, std::memory_order_release);
}

void Exchange::sum(int worker, int number) {
  Bucket& own = bucket(number);
  if (ranks() > 1) {
    join(worker);
    barrier_.wait_for(own.sent, 1);
    const std::scoped_lock lock(mutex_);
    if (!own.received) {
      const Clock::time_point end = transport_->wait(kSums + number);
      if (trace_ != nullptr) trace_->add(own.lane, "gradients", number, own.sums_start, end);
    }
    own.received = true;
  }
  if (ranks() > 1 || workers_[static_cast<std::size_t>(worker)].next_to_join <= number)
    sum_shard(worker, number);
}

// The additions that remain.
void Exchange::sum_shard(int worker, int number) {
  const auto all =
      static_cast<std::size_t>(shards_.first_worker(rank())) + static_cast<std::size_t>(worker);
  const std::vector<std::int64_t>& cuts = shards_.cuts[static_cast<std::size_t>(number)];
  if (cuts[all] < cuts[all + 1])
    sum_tree({0, replicas_}, ranks() > 1 ? bucket(number).nodes : worker_nodes_, worker, cuts[all],
             cuts[all + 1]);
}

Exchange::Place Exchange::sum_tree(ReplicaRange node, const std::vector<Node>& leaves, int worker,
                                   std::int64_t begin, std::int64_t end) {
  for (const Node& leaf : leaves)
    if (leaf.replicas == node) return leaf.place;
  const std::int64_t middle = tree_middle(node.begin, node.end);
  const Place left = sum_tree({node.begin, middle}, leaves, worker, begin, end);
  const Place right = sum_tree({middle, node.end}, leaves, worker, begin, end);
  device_.accumulate(left.view(begin, end), right.view(begin, end), worker);
  return left;
}

View Exchange::sums(std::int64_t begin, std::int64_t end) const {
  if (all_sums_) return {*gathered_, begin, end - begin};
  if (ranks() == 1) return worker_nodes_.front().place.view(begin, end);
  const auto own = std::ranges::find_if(
      buckets_, [&](const auto& other) { return other->begin <= begin && begin < other->end; });
  return (*own)->nodes.front().place.view(begin, end);
}

void Exchange::updated(int number) {
  if (ranks() == 1) return;
  Bucket& own = bucket(number);
  if (own.updated.fetch_add(1, std::memory_order_acq_rel) + 1 < own_workers()) return;
  own.updates_start = Clock::now();
  transport_->start(kUpdates + number, own.updates.out, own.updates.in);
  const std::scoped_lock lock(mutex_);
  own.sharing = true;
}

void Exchange::finish_updates() {
  if (ranks() == 1) return;
  const std::scoped_lock lock(mutex_);
  for (int b = 0; b < buckets(); ++b) {
    Bucket& own = bucket(b);
    if (!own.sharing) continue;
    const Clock::time_point end = transport_->wait(kUpdates + b);
    own.sharing = false;
    if (trace_ != nullptr) trace_->add(own.lane, "parameters", b, own.updates_start, end);
  }
}

void Exchange::gather_sums() {
  if (ranks() == 1 || all_sums_) return;
  if (!gathered_) gathered_ = device_.allocate(shards_.bytes());
  for (int b = 0; b < buckets(); ++b) {
    const std::int64_t begin = shards_.begin(b, rank()), end = shards_.end(b, rank());
    if (begin < end) device_.copy({*gathered_, begin, end - begin}, sums(begin, end));
  }
  gather_flat(*gathered_, 0);
  all_sums_ = true;
}

std::int64_t Exchange::buffer_bytes() const {
  std::int64_t bytes = gathered_ ? gathered_->bytes() : 0;
  for (const auto& buffer : staging_) bytes += buffer->bytes();
  return bytes;
}

void Exchange::exchange(const Round& round) {
  if (ranks() > 1) transport_->exchange(kOther, round.out, round.in);
}

void Exchange::all_gather(std::span<const std::span<std::byte>> all) {
  std::deque<HostMemory> memory;
  if (ranks() > 1) transport_->all_gather(kOther, views_of(all, memory));
}

void Exchange::gather_flat(View flat, std::int64_t first) {
  Round round;
  for (int b = 0; b < buckets(); ++b) add(round, parts_of(flat, first, b));
  exchange(round);
}

void Exchange::broadcast(View view) {
  if (ranks() > 1) transport_->broadcast(kOther, 0, view);
}

}  // namespace podium
