#include "parallel/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/numerics/philox.h"
#include "base/numerics/tree.h"
#include "parallel/local_transport.h"

namespace podium {
namespace {

using Ranges = std::vector<ReplicaRange>;

// Calls work(w) for every worker, each on a thread of its own.
void on_workers(std::int64_t workers, const std::function<void(std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t w = 1; w < workers; ++w) threads.emplace_back(work, w);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

// --- who runs which replicas ---

TEST(ReplicasOfWorker, are_contiguous_and_differ_in_number_by_one_at_most) {
  for (std::int64_t replicas = 1; replicas <= 17; ++replicas) {
    for (std::int64_t workers = 1; workers <= replicas; ++workers) {
      std::int64_t next = 0, least = replicas, most = 0;
      for (std::int64_t w = 0; w < workers; ++w) {
        const ReplicaRange range = replicas_of_worker(replicas, workers, w);
        EXPECT_EQ(range.begin, next);
        next = range.end;
        least = std::min(least, range.size());
        most = std::max(most, range.size());
      }
      EXPECT_EQ(next, replicas);
      EXPECT_GE(least, 1);
      EXPECT_LE(most - least, 1) << replicas << " over " << workers;
    }
  }
}

TEST(ReplicasOfWorker, are_none_where_there_are_more_workers_than_replicas) {
  std::int64_t sum = 0;
  for (std::int64_t w = 0; w < 5; ++w) sum += replicas_of_worker(2, 5, w).size();
  EXPECT_EQ(sum, 2);
}

TEST(LargestNodes, of_all_replicas_are_the_root) {
  for (std::int64_t replicas = 1; replicas <= 9; ++replicas)
    EXPECT_EQ(largest_nodes(replicas, {0, replicas}), (Ranges{{0, replicas}}));
}

TEST(LargestNodes, of_nothing_are_none) { EXPECT_EQ(largest_nodes(8, {3, 3}), Ranges{}); }

TEST(LargestNodes, go_from_left_to_right) {
  EXPECT_EQ(largest_nodes(8, {0, 4}), (Ranges{{0, 4}}));
  EXPECT_EQ(largest_nodes(8, {0, 3}), (Ranges{{0, 2}, {2, 3}}));
  EXPECT_EQ(largest_nodes(8, {3, 6}), (Ranges{{3, 4}, {4, 6}}));
  EXPECT_EQ(largest_nodes(8, {1, 7}), (Ranges{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(largest_nodes(9, {4, 9}), (Ranges{{4, 8}, {8, 9}}));
  EXPECT_EQ(largest_nodes(6, {2, 6}), (Ranges{{2, 4}, {4, 6}}));
}

TEST(LargestNodes, cover_the_range_with_nodes_whose_parents_reach_beyond_it) {
  for (std::int64_t replicas = 1; replicas <= 17; ++replicas) {
    // Every node of the tree, with its parent.
    std::vector<std::pair<ReplicaRange, ReplicaRange>> tree;
    const std::function<void(ReplicaRange, ReplicaRange)> grow = [&](ReplicaRange node,
                                                                     ReplicaRange parent) {
      tree.emplace_back(node, parent);
      if (node.size() == 1) return;
      const std::int64_t middle = tree_middle(node.begin, node.end);
      grow({node.begin, middle}, node);
      grow({middle, node.end}, node);
    };
    grow({0, replicas}, {-1, replicas + 1});
    for (std::int64_t begin = 0; begin < replicas; ++begin) {
      for (std::int64_t end = begin + 1; end <= replicas; ++end) {
        std::int64_t next = begin;
        for (const ReplicaRange node : largest_nodes(replicas, {begin, end})) {
          EXPECT_EQ(node.begin, next);
          next = node.end;
          const auto found =
              std::ranges::find_if(tree, [&](const auto& entry) { return entry.first == node; });
          ASSERT_NE(found, tree.end());
          EXPECT_TRUE(found->second.begin < begin || found->second.end > end);
        }
        EXPECT_EQ(next, end);
      }
    }
  }
}

// --- the barrier ---

TEST(Barrier, nobody_leaves_before_all_have_arrived) {
  constexpr std::int64_t kWorkers = 4;
  constexpr int kPhases = 50;
  Barrier barrier(kWorkers);
  std::atomic<int> arrived{0};
  std::atomic<int> wrong{0};
  on_workers(kWorkers, [&](std::int64_t) {
    for (int phase = 1; phase <= kPhases; ++phase) {
      ++arrived;
      barrier.wait();
      if (arrived < phase * kWorkers) ++wrong;
      barrier.wait();
    }
  });
  EXPECT_EQ(arrived, kWorkers * kPhases);
  EXPECT_EQ(wrong, 0);
}

TEST(Barrier, of_one_never_waits) {
  Barrier barrier(1);
  for (int i = 0; i < 1000; ++i) barrier.wait();
}

// --- the exchange ---

constexpr std::int64_t kFloats = 203;  // not a multiple of any vector

// What a replica computed: numbers of all sizes and both signs, so that every order of addition
// rounds in its own way.
float value_of(std::int64_t replica, std::int64_t i, std::uint32_t step) {
  const PhiloxStream words(8, RandomPurpose::kInitialise, static_cast<std::uint32_t>(replica));
  const PhiloxBlock word = words.block(static_cast<std::uint32_t>(i), step);
  const float size = static_cast<float>(1u << uniform_below(word[0], 12));
  return (2 * uniform01(word[1]) - 1) * size;
}

std::vector<float> tree_result(std::int64_t replicas, std::uint32_t step) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < kFloats; ++i)
    sums.push_back(tree_sum(0, replicas, [&](std::int64_t r) { return value_of(r, i, step); }));
  return sums;
}

constexpr std::int64_t kBytes = kFloats * 4;

// Of each bucket, in floats; Shards::cuts.
using Cuts = std::vector<std::vector<std::int64_t>>;

// Runs `steps` exchanges, in the order of train/step, on ranks that are threads, which have
// `workers` workers each. What each rank has of the sums of the last step, after each has told the
// others.
std::vector<std::vector<float>> exchange_results(const std::string& backend, std::int64_t replicas,
                                                 const std::vector<int>& workers, const Cuts& cuts,
                                                 std::uint32_t steps) {
  Shards shards{workers, cuts};
  for (auto& bucket : shards.cuts)
    for (std::int64_t& cut : bucket) cut *= 4;
  const auto count = static_cast<int>(workers.size());
  const std::int64_t all = shards.all_workers();
  LocalRanks ranks(count);
  std::vector<std::vector<float>> results(workers.size(), std::vector<float>(kFloats));
  on_workers(count, [&](std::int64_t rank) {
    LocalTransport transport(ranks, static_cast<int>(rank));
    const int own = workers[static_cast<std::size_t>(rank)];
    const auto device = make_device(backend, {.workers = own});
    transport.use(*device);
    Exchange exchange(*device, count == 1 ? nullptr : &transport, replicas, shards);
    const auto shared = device->allocate(kBytes);
    exchange.share_flat(*shared, 0);
    const std::int64_t first_worker = shards.first_worker(static_cast<int>(rank));
    on_workers(own, [&](std::int64_t worker) {
      const auto number = static_cast<std::size_t>(first_worker + worker);
      const Ranges nodes =
          largest_nodes(replicas, replicas_of_worker(replicas, all, first_worker + worker));
      std::vector<std::unique_ptr<Buffer>> buffers;
      for (std::size_t n = 0; n < nodes.size(); ++n) buffers.push_back(device->allocate(kBytes));
      std::vector<float> values(kFloats);
      for (std::uint32_t step = 0; step < steps; ++step) {
        for (std::size_t n = 0; n < nodes.size(); ++n) {
          for (std::int64_t i = 0; i < kFloats; ++i) {
            values[static_cast<std::size_t>(i)] = tree_sum(
                nodes[n].begin, nodes[n].end, [&](std::int64_t r) { return value_of(r, i, step); });
          }
          device->upload(*buffers[n], values.data());
        }
        if (worker == 0) exchange.begin_step();
        exchange.barrier().wait();
        for (std::size_t n = 0; n < nodes.size(); ++n) exchange.publish(nodes[n], *buffers[n]);
        for (int bucket = 0; bucket < exchange.buckets(); ++bucket)
          exchange.complete(static_cast<int>(worker), bucket);
        exchange.barrier().wait();
        for (int bucket = 0; bucket < exchange.buckets(); ++bucket) {
          exchange.sum(static_cast<int>(worker), bucket);
          const auto& parts = shards.cuts[static_cast<std::size_t>(bucket)];
          const std::int64_t begin = parts[number], end = parts[number + 1];
          if (begin < end) device->copy({*shared, begin, end - begin}, exchange.sums(begin, end));
          exchange.updated(bucket);
        }
        exchange.barrier().wait();
        exchange.finish_updates();
        exchange.barrier().wait();
      }
    });
    device->download(results[static_cast<std::size_t>(rank)].data(), *shared);
    transport.leave();
  });
  return results;
}

// The same in one process.
std::vector<float> exchange_result(const std::string& backend, std::int64_t replicas,
                                   const std::vector<std::int64_t>& cuts, std::uint32_t steps) {
  return exchange_results(backend, replicas, {static_cast<int>(cuts.size()) - 1}, {cuts}, steps)[0];
}

std::vector<std::int64_t> even_cuts(std::int64_t workers) {
  std::vector<std::int64_t> cuts;
  for (std::int64_t w = 0; w <= workers; ++w) cuts.push_back(kFloats * w / workers);
  return cuts;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Exchange, the_numbers_of_these_tests_tell_orders_apart) {
  for (std::int64_t replicas = 4; replicas <= 9; ++replicas) {
    const std::vector<float> tree = tree_result(replicas, 0);
    std::vector<float> in_line(kFloats, 0.0f);
    for (std::int64_t r = 0; r < replicas; ++r) {
      for (std::int64_t i = 0; i < kFloats; ++i)
        in_line[static_cast<std::size_t>(i)] += value_of(r, i, 0);
    }
    EXPECT_FALSE(equal_bits(tree, in_line)) << replicas;
  }
}

class ExchangeOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(ExchangeOf, sums_in_tree_order_for_every_number_of_workers) {
  const std::int64_t replicas = GetParam();
  const std::vector<float> expected = tree_result(replicas, 2);
  for (std::int64_t workers = 1; workers <= replicas; ++workers) {
    EXPECT_TRUE(equal_bits(exchange_result("cpu", replicas, even_cuts(workers), 3), expected))
        << workers << " workers";
  }
}

TEST_P(ExchangeOf, sums_in_tree_order_on_the_reference_backend) {
  const std::int64_t replicas = GetParam();
  const std::int64_t workers = (replicas + 1) / 2;
  EXPECT_TRUE(equal_bits(exchange_result("reference", replicas, even_cuts(workers), 1),
                         tree_result(replicas, 0)));
}

INSTANTIATE_TEST_SUITE_P(Replicas, ExchangeOf, testing::Range<std::int64_t>(1, 10));

TEST(Exchange, any_cut_into_shards_gives_the_same_sums) {
  const std::vector<float> expected = tree_result(7, 0);
  const std::vector<std::vector<std::int64_t>> all_cuts = {{0, 1, 2, kFloats},
                                                           {0, 0, 0, kFloats},
                                                           {0, kFloats, kFloats, kFloats},
                                                           {0, 64, 128, kFloats}};
  for (const auto& cuts : all_cuts)
    EXPECT_TRUE(equal_bits(exchange_result("cpu", 7, cuts, 1), expected)) << cuts[1];
}

TEST(Exchange, gives_the_same_sums_again_and_again_under_load) {
  const std::vector<float> expected = tree_result(8, 0);
  std::atomic<bool> done{false};
  std::thread load([&] {
    while (!done) std::this_thread::yield();
  });
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(equal_bits(exchange_result("cpu", 8, even_cuts(3), 1), expected)) << i;
  done = true;
  load.join();
}

// Ranks with as many workers each; uneven numbers, more than one node a rank, shards of nothing.
TEST_P(ExchangeOf, sums_in_tree_order_for_every_spread_over_ranks) {
  const std::int64_t replicas = GetParam();
  const std::vector<float> expected = tree_result(replicas, 1);
  const std::vector<std::vector<int>> spreads = {{1, 1},    {2, 1}, {1, 2}, {1, 1, 1},
                                                 {3, 1, 2}, {2, 2}, {4, 1}, {1, 1, 1, 1, 1}};
  for (const std::vector<int>& workers : spreads) {
    const int all = std::accumulate(workers.begin(), workers.end(), 0);
    if (all > replicas) continue;
    for (const auto& result : exchange_results("cpu", replicas, workers, {even_cuts(all)}, 2))
      EXPECT_TRUE(equal_bits(result, expected)) << testing::PrintToString(workers);
  }
}

TEST(Exchange, any_cut_into_shards_gives_all_ranks_the_same_sums) {
  const std::vector<float> expected = tree_result(7, 0);
  const std::vector<std::vector<std::int64_t>> all_cuts = {{0, 16, 32, kFloats},
                                                           {0, 0, 0, kFloats},
                                                           {0, kFloats, kFloats, kFloats},
                                                           {0, 0, kFloats, kFloats}};
  for (const auto& cuts : all_cuts)
    for (const std::vector<int>& workers : {std::vector<int>{1, 1, 1}, {2, 1}, {1, 2}})
      for (const auto& result : exchange_results("cpu", 7, workers, {cuts}, 1))
        EXPECT_TRUE(equal_bits(result, expected)) << cuts[1] << testing::PrintToString(workers);
}

// Buckets from the end of flat memory on, each with shards of its own, some of nothing.
TEST_P(ExchangeOf, sums_in_tree_order_in_any_buckets) {
  const std::int64_t replicas = GetParam();
  if (replicas < 3) return;
  const std::vector<float> expected = tree_result(replicas, 2);
  const std::vector<Cuts> all_cuts = {
      {{128, 150, 170, kFloats}, {64, 64, 128, 128}, {0, 32, 48, 64}},
      {{64, 64, 64, kFloats}, {0, 64, 64, 64}},
      {{192, 192, 200, kFloats}, {160, 192, 192, 192}, {16, 64, 96, 160}, {0, 0, 16, 16}}};
  for (const Cuts& cuts : all_cuts)
    for (const std::vector<int>& workers : {std::vector<int>{1, 1, 1}, {2, 1}, {1, 2}, {3}})
      for (const auto& result : exchange_results("cpu", replicas, workers, cuts, 3))
        EXPECT_TRUE(equal_bits(result, expected)) << testing::PrintToString(workers);
}

// Memory of a device that holds one value throughout.
std::unique_ptr<Buffer> filled(Device& device, std::int64_t floats, float value) {
  auto buffer = device.allocate(floats * 4);
  device.upload(*buffer, std::vector<float>(static_cast<std::size_t>(floats), value).data());
  return buffer;
}

std::vector<float> read(Device& device, Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.bytes() / 4));
  device.download(values.data(), buffer);
  return values;
}

TEST(Exchange, touches_no_float_outside_the_shard) {
  const auto device = make_device("cpu");
  Exchange exchange(*device, nullptr, 2, {{2}, {{5 * 4, 12 * 4, 12 * 4}}});
  const auto left = filled(*device, 32, 1), right = filled(*device, 32, 2);
  exchange.publish({0, 1}, *left);
  exchange.publish({1, 2}, *right);
  exchange.sum(0, 0);
  EXPECT_EQ(exchange.sums(0, 32 * 4), View(*left));
  const std::vector<float> sums = read(*device, *left);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(sums[static_cast<std::size_t>(i)], i >= 5 && i < 12 ? 3 : 1);
  EXPECT_EQ(read(*device, *right), std::vector<float>(32, 2.0f));
}

TEST(Exchange, one_worker_gets_its_own_sum_back) {
  const auto device = make_device("cpu");
  Exchange exchange(*device, nullptr, 8, {{1}, {{0, 16 * 4}}});
  const auto all = filled(*device, 16, 4);
  exchange.publish({0, 8}, *all);
  exchange.barrier().wait();
  exchange.sum(0, 0);
  EXPECT_EQ(exchange.sums(0, 16 * 4), View(*all));
  EXPECT_EQ(read(*device, *all), std::vector<float>(16, 4.0f));
}

TEST(Exchange, a_node_that_no_worker_holds_is_an_internal_error) {
  const auto device = make_device("cpu");
  Exchange exchange(*device, nullptr, 8, {{2}, {{0, 2, 4}}});
  const auto x = filled(*device, 1, 0);
  EXPECT_THROW(exchange.publish({0, 8}, *x), InternalError);
  EXPECT_THROW(exchange.publish({0, 2}, *x), InternalError);
  EXPECT_NO_THROW(exchange.publish({0, 4}, *x));
}

TEST(Barrier, that_a_member_abandons_lets_the_others_go) {
  Barrier barrier(3);
  std::atomic<int> let_go = 0;
  on_workers(3, [&](std::int64_t worker) {
    if (worker == 2) return barrier.abandon();
    EXPECT_THROW(barrier.wait(), InternalError);
    ++let_go;
  });
  EXPECT_EQ(let_go, 2);
  EXPECT_THROW(barrier.wait(), InternalError);
}

}  // namespace
}  // namespace podium
