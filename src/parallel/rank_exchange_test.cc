#include "parallel/rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "backend/detached/detached_device.h"
#include "base/philox.h"
#include "base/tree.h"
#include "parallel/local_transport.h"

namespace podium {
namespace {

constexpr std::int64_t kFloats = 203;  // not a multiple of any vector
constexpr std::int64_t kBytes = kFloats * 4;
constexpr int kSums = 3, kParameters = 4;  // channels

using Floats = std::vector<float>;
using Cuts = std::vector<std::int64_t>;

// Numbers of all sizes and both signs, so that every order of addition rounds in its own way.
float value_of(std::int64_t replica, std::int64_t i, std::uint32_t step) {
  const PhiloxStream words(8, RandomPurpose::kInitialise, static_cast<std::uint32_t>(replica));
  const PhiloxBlock word = words.block(static_cast<std::uint32_t>(i), step);
  const float size = static_cast<float>(1u << uniform_below(word[0], 12));
  return (2 * uniform01(word[1]) - 1) * size;
}

Floats node_sum(ReplicaRange node, std::uint32_t step) {
  Floats sums;
  for (std::int64_t i = 0; i < kFloats; ++i)
    sums.push_back(
        tree_sum(node.begin, node.end, [&](std::int64_t r) { return value_of(r, i, step); }));
  return sums;
}

bool equal_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

using MakeTransport = std::function<std::unique_ptr<Transport>(LocalRanks&, int rank)>;

std::unique_ptr<Transport> faultless(LocalRanks& shared, int rank) {
  return std::make_unique<LocalTransport>(shared, rank);
}

struct Case {
  std::vector<std::int64_t> workers;  // of each rank
  std::int64_t replicas = 1;
  Cuts cuts = {};  // in floats; none: even ones
  std::string backend = "cpu";
  std::uint32_t steps = 2;
};

// What each rank has as parameters after some steps, in which they are set to the sums.
std::vector<Floats> parameters_after(const Case& of, const MakeTransport& make = faultless) {
  const int ranks = static_cast<int>(of.workers.size());
  LocalRanks shared(ranks, 30);
  std::vector<Floats> results(static_cast<std::size_t>(ranks), Floats(kFloats));
  const auto run_rank = [&](int rank) {
    const RankWorkers workers(of.workers);
    Cuts cuts;
    for (std::int64_t w = 0; w <= workers.workers(); ++w)
      cuts.push_back(4 * (of.cuts.empty() ? kFloats * w / workers.workers()
                                          : of.cuts[static_cast<std::size_t>(w)]));
    const std::int64_t mine = workers.workers(rank);
    const auto device = make_device(of.backend, {.workers = static_cast<int>(mine)});
    const std::unique_ptr<Transport> transport = make(shared, rank);
    transport->use(*device);
    Exchange exchange(*device, *transport, kSums, of.replicas, workers, cuts);
    const auto parameters = device->allocate(kBytes);
    const Sharded sharded{*parameters, cuts};
    ShardGather gather(*transport, kParameters, workers, {&sharded, 1});
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(mine));
    for (std::int64_t worker = 0; worker < mine; ++worker) {
      threads.emplace_back([&, worker] {
        try {
          const std::int64_t number = workers.first(rank) + worker;
          const auto nodes = largest_nodes(
              of.replicas, replicas_of_worker(of.replicas, workers.workers(), number));
          std::vector<std::unique_ptr<Buffer>> buffers;
          for (std::size_t n = 0; n < nodes.size(); ++n)
            buffers.push_back(device->allocate(kBytes));
          for (std::uint32_t step = 0; step < of.steps; ++step) {
            for (std::size_t n = 0; n < nodes.size(); ++n) {
              device->upload(*buffers[n], node_sum(nodes[n], step).data());
              exchange.publish(nodes[n], *buffers[n]);
            }
            exchange.barrier().wait();
            exchange.sum(worker);
            const std::int64_t begin = cuts[static_cast<std::size_t>(number)],
                               end = cuts[static_cast<std::size_t>(number) + 1];
            if (begin < end)
              device->copy(View(*parameters).part(begin, end - begin),
                           exchange.total().part(begin, end - begin));
            exchange.barrier().wait();
            if (worker == 0) gather.exchange();
            exchange.barrier().wait();
          }
        } catch (...) {
          errors[static_cast<std::size_t>(worker)] = std::current_exception();
          exchange.barrier().abandon();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    device->download(results[static_cast<std::size_t>(rank)].data(), *parameters);
    transport->leave();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

bool all_are_tree_sums(const Case& of, const MakeTransport& make = faultless) {
  const Floats expected = node_sum({0, of.replicas}, of.steps - 1);
  return std::ranges::all_of(parameters_after(of, make),
                             [&](const Floats& floats) { return equal_bits(floats, expected); });
}

// --- who runs what ---

TEST(RankWorkers, are_numbered_through_and_a_rank_s_replicas_are_its_workers) {
  const RankWorkers workers({2, 1, 3});
  EXPECT_EQ(workers.ranks(), 3);
  EXPECT_EQ(workers.workers(), 6);
  EXPECT_EQ(workers.first(2), 3);
  EXPECT_EQ(workers.workers(2), 3);
  EXPECT_EQ(workers.replicas(13, 0), (ReplicaRange{0, 4}));
  EXPECT_EQ(workers.replicas(13, 1), (ReplicaRange{4, 6}));
  EXPECT_EQ(workers.replicas(13, 2), (ReplicaRange{6, 13}));
}

TEST(RankWorkers, may_be_of_other_numbers_on_each_rank_and_all_ranks_know_them) {
  LocalRanks shared(3, 20);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      LocalTransport transport(shared, rank);
      const RankWorkers workers(transport, rank + 1);
      EXPECT_EQ(workers.first(1), 1);
      EXPECT_EQ(workers.first(2), 3);
      EXPECT_EQ(workers.workers(), 6);
      transport.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- the sums ---

class ExchangeOfReplicas : public testing::TestWithParam<std::int64_t> {};

TEST_P(ExchangeOfReplicas, has_the_bits_of_the_tree_for_every_grid_of_ranks_and_workers) {
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks) {
    for (std::int64_t workers = 1; workers <= 3; ++workers) {
      const Case of{std::vector<std::int64_t>(static_cast<std::size_t>(ranks), workers),
                    GetParam()};
      EXPECT_TRUE(all_are_tree_sums(of)) << ranks << " ranks of " << workers << " workers";
    }
  }
}

TEST_P(ExchangeOfReplicas, has_the_bits_of_the_tree_where_ranks_have_unlike_numbers_of_workers) {
  for (const std::vector<std::int64_t>& workers :
       {std::vector<std::int64_t>{1, 3}, {3, 1, 2}, {1, 1, 4, 1}, {2, 1, 1, 1, 3}}) {
    EXPECT_TRUE(all_are_tree_sums({workers, GetParam()})) << workers.size() << " ranks";
  }
}

TEST_P(ExchangeOfReplicas, has_the_bits_of_the_tree_on_a_device_whose_memory_the_host_cannot_read) {
  register_detached_backend();
  EXPECT_TRUE(all_are_tree_sums({{1, 2, 1}, GetParam(), {}, "detached"}));
  EXPECT_TRUE(all_are_tree_sums({{2}, GetParam(), {}, "detached"}));
}

INSTANTIATE_TEST_SUITE_P(Grid, ExchangeOfReplicas, testing::Values(1, 3, 7, 8, 13));

TEST(RankExchange, any_cut_into_shards_gives_the_same_sums) {
  for (const Cuts& cuts : {Cuts{0, 1, 2, kFloats}, Cuts{0, 0, 0, kFloats},
                           Cuts{0, kFloats, kFloats, kFloats}, Cuts{0, 64, 128, kFloats}}) {
    EXPECT_TRUE(all_are_tree_sums({{1, 1, 1}, 7, cuts})) << cuts[1];
    EXPECT_TRUE(all_are_tree_sums({{2, 1}, 7, cuts})) << cuts[1];
  }
}

TEST(RankExchange, of_one_rank_adds_in_the_buffers_that_were_published) {
  const auto device = make_device("cpu", {});
  const auto transport = lone_transport();
  Exchange exchange(*device, *transport, kSums, 8, RankWorkers(Cuts{2}), {0, 12, kBytes});
  const auto left = device->allocate(kBytes), right = device->allocate(kBytes);
  const Floats twos(kFloats, 2.0f), threes(kFloats, 3.0f);
  device->upload(*left, twos.data());
  device->upload(*right, threes.data());
  exchange.publish({0, 4}, *left);
  exchange.publish({4, 8}, *right);
  exchange.add(0);
  EXPECT_EQ(exchange.total(), View(*left));
  Floats values(kFloats);
  device->download(values.data(), *left);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i < 3 ? 5.0f : 2.0f);
  device->download(values.data(), *right);
  EXPECT_EQ(values, threes);
  transport->leave();
}

TEST(RankExchange, a_node_that_no_worker_of_the_rank_holds_is_an_internal_error) {
  const auto device = make_device("cpu", {});
  const auto transport = lone_transport();
  Exchange exchange(*device, *transport, kSums, 8, RankWorkers(Cuts{2}), {0, 12, kBytes});
  const auto buffer = device->allocate(kBytes);
  EXPECT_THROW(exchange.publish({0, 8}, *buffer), InternalError);
  EXPECT_THROW(exchange.publish({0, 4}, View(*buffer, 0, 8)), InternalError);
  EXPECT_NO_THROW(exchange.publish({0, 4}, *buffer));
  transport->leave();
}

// --- what these tests would find ---

// Gives two messages of one length, of different ranks, to each other's places.
class SwappingTransport : public LocalTransport {
 public:
  using LocalTransport::LocalTransport;

 protected:
  void begin(int channel, std::span<const HostMessage> out,
             std::span<const HostMessage> in) override {
    in_.assign(in.begin(), in.end());
    if (channel == kSums && rank() == 0 && in_.size() >= 2 && in_[0].bytes == in_[1].bytes)
      std::swap(in_[0].memory, in_[1].memory);
    LocalTransport::begin(channel, out, in_);
  }

 private:
  std::vector<HostMessage> in_;
};

TEST(RankExchange, that_swaps_two_messages_is_found_out) {
  const auto swapping = [](LocalRanks& shared, int rank) -> std::unique_ptr<Transport> {
    return std::make_unique<SwappingTransport>(shared, rank);
  };
  // Node {2, 3} in the place of {1, 2}: ((0 + 2) + (1 + 3)) in place of ((0 + 1) + (2 + 3)).
  EXPECT_FALSE(all_are_tree_sums({{1, 1, 1, 1}, 4}, swapping));
  EXPECT_TRUE(all_are_tree_sums({{1, 1, 1, 1}, 4}));
}

TEST(RankExchange, the_numbers_of_these_tests_tell_orders_apart) {
  for (const std::int64_t replicas : {7, 8, 13}) {
    Floats in_line(kFloats, 0.0f);
    for (std::int64_t r = 0; r < replicas; ++r) {
      for (std::int64_t i = 0; i < kFloats; ++i)
        in_line[static_cast<std::size_t>(i)] += value_of(r, i, 0);
    }
    EXPECT_FALSE(equal_bits(node_sum({0, replicas}, 0), in_line)) << replicas;
  }
}

}  // namespace
}  // namespace podium
