#include "parallel/exchange.h"

#include "base/tree.h"

namespace podium {
namespace {

constexpr int kSpins = 20000;

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

ThreadExchange::ThreadExchange(Device& device, std::int64_t replicas, std::int64_t workers)
    : device_(device), replicas_(replicas), barrier_(static_cast<int>(workers)) {
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    for (const ReplicaRange node :
         largest_nodes(replicas, replicas_of_worker(replicas, workers, worker)))
      nodes_.push_back(node);
  }
  buffers_.assign(nodes_.size(), nullptr);
}

void ThreadExchange::publish(ReplicaRange node, Buffer& buffer) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == node) {
      buffers_[i] = &buffer;
      return;
    }
  }
  throw InternalError(__FILE__, __LINE__, "no worker holds this node");
}

void ThreadExchange::sum(std::int64_t begin, std::int64_t end) {
  if (begin < end) sum_node({0, replicas_}, begin, end);
}

Buffer* ThreadExchange::sum_node(ReplicaRange node, std::int64_t begin, std::int64_t end) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == node) return buffers_[i];
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  Buffer* const left = sum_node({node.begin, middle}, begin, end);
  Buffer* const right = sum_node({middle, node.end}, begin, end);
  device_.accumulate({*left, begin, end - begin}, {*right, begin, end - begin});
  return left;
}

}  // namespace podium
