#include "parallel/exchange.h"

#include <algorithm>
#include <numeric>

#include "base/tree.h"

namespace podium {
namespace {

constexpr int kSpins = 20000;

// Channels of the transport.
constexpr int kSums = 0, kUpdates = 1, kOther = 2;

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

void Barrier::leave_if_abandoned() const {
  if (abandoned_.load(std::memory_order_acquire))
    throw InternalError(__FILE__, __LINE__, "another worker ended before the barrier");
}

void Barrier::wait(const std::function<bool()>& pastime) {
  leave_if_abandoned();
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    leave_if_abandoned();
    if (pastime && pastime()) {
      spins = 0;
    } else if (spins < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }
}

int Shards::first_worker(int rank) const {
  return std::accumulate(workers.begin(), workers.begin() + rank, 0);
}
std::int64_t Shards::begin(int rank) const {
  return cuts[static_cast<std::size_t>(first_worker(rank))];
}
std::int64_t Shards::end(int rank) const {
  return cuts[static_cast<std::size_t>(first_worker(rank + 1))];
}

Exchange::Exchange(Device& device, Transport* transport, std::int64_t replicas, Shards shards)
    : device_(device),
      transport_(transport),
      replicas_(replicas),
      shards_(std::move(shards)),
      barrier_(shards_.workers[static_cast<std::size_t>(rank())]) {
  const int mine = shards_.first_worker(rank()), next = shards_.first_worker(rank() + 1);
  for (int worker = mine; worker < next; ++worker)
    for (const ReplicaRange node :
         largest_nodes(replicas, replicas_of_worker(replicas, shards_.all_workers(), worker)))
      worker_nodes_.push_back({node, {}});
  const std::int64_t begin = shards_.begin(rank()), end = shards_.end(rank());
  for (int r = 0; r < ranks(); ++r) {
    for (const ReplicaRange node : largest_nodes(replicas, replicas_of(r))) {
      if (r == rank()) {
        const auto holder = std::ranges::find(
            worker_nodes_, node.begin, [](const Node& other) { return other.replicas.begin; });
        own_nodes_.emplace_back(nodes_.size(),
                                static_cast<std::size_t>(holder - worker_nodes_.begin()));
        nodes_.push_back({node, {}});
        // Where it lies is known in each step anew.
        for (int to = 0; to < ranks(); ++to)
          if (to != r) sums_round_.out.push_back({to, {}});
      } else {
        staging_.push_back(device.allocate(end - begin));
        nodes_.push_back({node, {staging_.back().get(), begin}});
        sums_round_.in.push_back({r, *staging_.back()});
      }
    }
  }
}

ReplicaRange Exchange::replicas_of(int rank) const {
  const std::int64_t all = shards_.all_workers();
  return {replicas_of_worker(replicas_, all, shards_.first_worker(rank)).begin,
          replicas_of_worker(replicas_, all, shards_.first_worker(rank + 1) - 1).end};
}

std::vector<View> Exchange::views_of(std::span<const std::span<std::byte>> all) {
  std::vector<View> views;
  for (const std::span<std::byte> own : all)
    views.push_back(host_memory_.emplace_back(own.data(), std::ssize(own)));
  return views;
}

void Exchange::gather(Round& round, std::span<const View> all) {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    round.out.push_back({r, all[static_cast<std::size_t>(rank())]});
    round.in.push_back({r, all[static_cast<std::size_t>(r)]});
  }
}

void Exchange::gather_with_sums(std::span<const std::span<std::byte>> all) {
  gather(sums_round_, views_of(all));
}

void Exchange::gather_with_updates(std::span<const std::span<std::byte>> all) {
  gather(share_round_, views_of(all));
}

std::vector<View> Exchange::parts_of(View flat, std::int64_t first) const {
  std::vector<View> all;
  for (int r = 0; r < ranks(); ++r) {
    const std::int64_t begin = std::clamp<std::int64_t>(shards_.begin(r) - first, 0, flat.bytes),
                       end = std::clamp<std::int64_t>(shards_.end(r) - first, 0, flat.bytes);
    all.push_back(flat.part(begin, end - begin));
  }
  return all;
}

void Exchange::share_flat(View flat, std::int64_t first) {
  gather(share_round_, parts_of(flat, first));
}

void Exchange::publish(ReplicaRange node, Buffer& buffer) {
  const auto found = std::ranges::find(worker_nodes_, node, &Node::replicas);
  if (found == worker_nodes_.end())
    throw InternalError(__FILE__, __LINE__, "no worker holds this node");
  found->place = {&buffer, 0};
}

void Exchange::sum(int worker) {
  if (ranks() > 1) join_ranks(worker);
  const auto number =
      static_cast<std::size_t>(shards_.first_worker(rank())) + static_cast<std::size_t>(worker);
  const std::int64_t begin = shards_.cuts[number], end = shards_.cuts[number + 1];
  if (begin < end) sum_tree({0, replicas_}, ranks() > 1 ? nodes_ : worker_nodes_, begin, end);
}

// Until this rank's shard of the nodes of all other ranks lies in staging memory.
void Exchange::join_ranks(int worker) {
  const int count = shards_.workers[static_cast<std::size_t>(rank())];
  // Each worker joins its share of all that there is.
  constexpr std::int64_t kAlign = 64;
  const std::int64_t units = shards_.cuts.back() / kAlign;
  const std::int64_t begin = units * worker / count * kAlign,
                     end = worker + 1 == count ? shards_.cuts.back()
                                               : units * (worker + 1) / count * kAlign;
  for (const auto& [node, holder] : own_nodes_)
    if (begin < end) sum_tree(nodes_[node].replicas, worker_nodes_, begin, end);
  barrier_.wait();
  if (worker == 0) {
    all_sums_ = false;
    std::size_t message = 0;
    for (const auto& [node, holder] : own_nodes_) {
      nodes_[node].place = worker_nodes_[holder].place;
      for (int to = 0; to < ranks(); ++to) {
        if (to == rank()) continue;
        sums_round_.out[message++].view =
            nodes_[node].place.view(shards_.begin(to), shards_.end(to));
      }
    }
    device_.synchronise();
    transport_->exchange(kSums, sums_round_.out, sums_round_.in);
  }
  barrier_.wait();
}

Exchange::Place Exchange::sum_tree(ReplicaRange node, const std::vector<Node>& leaves,
                                   std::int64_t begin, std::int64_t end) {
  for (const Node& leaf : leaves)
    if (leaf.replicas == node) return leaf.place;
  const std::int64_t middle = tree_middle(node.begin, node.end);
  const Place left = sum_tree({node.begin, middle}, leaves, begin, end);
  const Place right = sum_tree({middle, node.end}, leaves, begin, end);
  device_.accumulate(left.view(begin, end), right.view(begin, end));
  return left;
}

View Exchange::sums(std::int64_t begin, std::int64_t end) const {
  if (all_sums_) return {*gathered_, begin, end - begin};
  return (ranks() > 1 ? nodes_ : worker_nodes_).front().place.view(begin, end);
}

void Exchange::gather_sums() {
  if (ranks() == 1 || all_sums_) return;
  if (!gathered_) gathered_ = device_.allocate(shards_.cuts.back());
  std::vector<View> all;
  for (int r = 0; r < ranks(); ++r)
    all.emplace_back(*gathered_, shards_.begin(r), shards_.end(r) - shards_.begin(r));
  const View mine = all[static_cast<std::size_t>(rank())];
  if (mine.bytes > 0) device_.copy(mine, sums(shards_.begin(rank()), shards_.end(rank())));
  all_gather(all);
  all_sums_ = true;
}

void Exchange::all_gather(std::span<const View> all) {
  if (ranks() == 1) return;
  device_.synchronise();
  transport_->all_gather(kOther, all);
}

void Exchange::gather_flat(View flat, std::int64_t first) { all_gather(parts_of(flat, first)); }

void Exchange::share() {
  if (ranks() == 1) return;
  device_.synchronise();
  transport_->exchange(kUpdates, share_round_.out, share_round_.in);
}

}  // namespace podium
