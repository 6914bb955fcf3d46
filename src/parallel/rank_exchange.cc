#include "parallel/rank_exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/tree.h"

namespace podium {

RankWorkers::RankWorkers(std::vector<std::int64_t> workers) {
  first_.push_back(0);
  for (const std::int64_t count : workers) {
    PODIUM_CHECK(count >= 1, "a rank without workers");
    first_.push_back(first_.back() + count);
  }
}

RankWorkers::RankWorkers(Transport& transport, std::int64_t mine) {
  first_.push_back(0);
  for (const std::string& text : transport.gather(std::to_string(mine)))
    first_.push_back(first_.back() + std::stoll(text));
}

ReplicaRange RankWorkers::replicas(std::int64_t replicas, int rank) const {
  return {replicas_of_worker(replicas, workers(), first(rank)).begin,
          replicas_of_worker(replicas, workers(), first(rank + 1) - 1).end};
}

Exchange::Exchange(Device& device, Transport& transport, int channel, std::int64_t replicas,
                   const RankWorkers& workers, std::vector<std::int64_t> cuts)
    : device_(device),
      transport_(transport),
      channel_(channel),
      replicas_(replicas),
      workers_(workers),
      cuts_(std::move(cuts)),
      barrier_(static_cast<int>(workers.workers(transport.rank()))) {
  const int me = transport.rank();
  PODIUM_CHECK(workers.ranks() == transport.ranks() && std::ssize(cuts_) == workers.workers() + 1);
  const std::int64_t bytes = cuts_.back();
  const std::int64_t begin = cut(workers.first(me)), end = cut(workers.first(me + 1));
  mine_ = largest_nodes(replicas, workers.replicas(replicas, me));
  for (std::int64_t worker = workers.first(me); worker < workers.first(me + 1); ++worker) {
    for (const ReplicaRange node :
         largest_nodes(replicas, replicas_of_worker(replicas, workers.workers(), worker)))
      published_.push_back({.node = node, .view = {}});
  }
  if (transport.ranks() == 1) return;

  for (int rank = 0; rank < workers.ranks(); ++rank) {
    const std::vector<ReplicaRange> nodes =
        largest_nodes(replicas, workers.replicas(replicas, rank));
    if (rank == me) first_of_mine_ = all_.size();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      Held held{.node = nodes[n], .view = {}};
      if (rank == me) {
        for (int other = 0; other < workers.ranks(); ++other) {
          if (other == me) continue;
          outgoing_.push_back({n, cut(workers.first(other)), cut(workers.first(other + 1))});
          out_.push_back({other, {}});
        }
      } else if (mine_.empty() && all_.empty()) {
        // A rank without replicas has no buffer of its own for total(): the first node's part lands
        // in one as long as theirs.
        staging_.push_back(device.allocate(std::max<std::int64_t>(bytes, 1)));
        held.view = {*staging_.back(), 0, bytes};
        in_.push_back({rank, held.view.part(begin, end - begin)});
      } else {
        held.is_local = false;
        staging_.push_back(device.allocate(std::max<std::int64_t>(end - begin, 1)));
        held.view = {*staging_.back(), 0, end - begin};
        held.offset = begin;
        in_.push_back({rank, held.view});
      }
      all_.push_back(held);
    }
  }
  if (mine_.empty()) first_of_mine_ = 0;
}

void Exchange::publish(ReplicaRange node, View view) {
  PODIUM_CHECK(view.bytes >= cuts_.back(), view.bytes, " bytes of ", cuts_.back());
  const auto held =
      std::ranges::find_if(published_, [&](const Held& one) { return one.node == node; });
  PODIUM_CHECK(held != published_.end(), "no worker holds this node");
  held->view = view;
}

// Sums bytes [begin, end) of a node, in the order of the tree. An addition has the same bits
// whichever of its two sides takes the result; it is one that was published here, so that the sum
// over all replicas ends where the first of these lies.
Exchange::Sum Exchange::add_node(std::vector<Held>& nodes, ReplicaRange node, std::int64_t begin,
                                 std::int64_t end) {
  for (Held& held : nodes) {
    if (held.node == node) return {&held, held.is_local};
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  const Sum left = add_node(nodes, {node.begin, middle}, begin, end);
  const Sum right = add_node(nodes, {middle, node.end}, begin, end);
  const bool goes_right = right.has_local && !left.has_local;
  const Sum& to = goes_right ? right : left;
  const Sum& from = goes_right ? left : right;
  if (begin < end) device_.accumulate(part(*to.held, begin, end), part(*from.held, begin, end));
  return {to.held, left.has_local || right.has_local};
}

void Exchange::join(std::int64_t worker) {
  // Shares end at lines of the cache.
  constexpr std::int64_t kLine = 64;
  const std::int64_t workers = workers_.workers(transport_.rank());
  const std::int64_t lines = (cuts_.back() + kLine - 1) / kLine;
  const std::int64_t begin = lines * worker / workers * kLine;
  const std::int64_t end = std::min(lines * (worker + 1) / workers * kLine, cuts_.back());
  for (const ReplicaRange node : mine_) add_node(published_, node, begin, end);
}

void Exchange::send() {
  for (std::size_t n = 0; n < mine_.size(); ++n) {
    // Where join() has added: the leftmost of the node's parts.
    const auto held = std::ranges::find_if(
        published_, [&](const Held& one) { return one.node.begin == mine_[n].begin; });
    all_[first_of_mine_ + n].view = held->view;
  }
  for (std::size_t i = 0; i < outgoing_.size(); ++i) {
    const Outgoing& part = outgoing_[i];
    out_[i].view = all_[first_of_mine_ + part.held].view.part(part.begin, part.end - part.begin);
  }
  transport_.start(channel_, out_, in_);
}

void Exchange::add(std::int64_t worker) {
  const std::int64_t number = workers_.first(transport_.rank()) + worker;
  add_node(transport_.ranks() == 1 ? published_ : all_, {0, replicas_}, cut(number),
           cut(number + 1));
}

void Exchange::sum(std::int64_t worker, const std::function<bool()>& pastime) {
  if (transport_.ranks() > 1) {
    join(worker);
    barrier_.wait(pastime);
    if (worker == 0) {
      send();
      receive();
    }
    barrier_.wait(pastime);
  }
  add(worker);
}

View Exchange::total() const {
  return transport_.ranks() == 1 ? published_[0].view : all_[first_of_mine_].view;
}

ShardGather::ShardGather(Transport& transport, int channel, const RankWorkers& workers,
                         std::span<const Sharded> parts)
    : transport_(transport), channel_(channel) {
  for (const Sharded& sharded : parts) {
    PODIUM_CHECK(std::ssize(sharded.cuts) == workers.workers() + 1);
    const auto of_rank = [&](int rank) {
      const std::int64_t begin = sharded.cuts[static_cast<std::size_t>(workers.first(rank))],
                         end = sharded.cuts[static_cast<std::size_t>(workers.first(rank + 1))];
      return sharded.view.part(begin, end - begin);
    };
    for (int other = 0; other < transport.ranks(); ++other) {
      if (other == transport.rank()) continue;
      out_.push_back({other, of_rank(transport.rank())});
      in_.push_back({other, of_rank(other)});
    }
  }
}

}  // namespace podium
