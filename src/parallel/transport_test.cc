#include "parallel/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/numerics/philox.h"
#include "parallel/local_transport.h"

namespace podium {
namespace {

// Calls work(transport) for every rank, each on a thread of its own. What each threw, or "".
std::vector<std::string> on_ranks(LocalRanks& shared, int ranks,
                                  const std::function<void(Transport&)>& work) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        LocalTransport transport(shared, rank);
        work(transport);
        transport.leave();
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

bool all_well(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return std::ranges::all_of(errors, [](const std::string& error) { return error.empty(); });
}

TEST(Transport, goes_on_without_some_ranks_who_wait_for_the_end) {
  LocalRanks shared(4, 60, {"a", "a", "b", "b"});
  std::atomic<bool> ended = false;
  const auto errors = on_ranks(shared, 4, [&](Transport& all) {
    if (all.rank() == 1) {
      all.await_end();
      EXPECT_TRUE(ended);
      return;
    }
    const std::unique_ptr<Transport> rest = all.without({1});
    EXPECT_EQ(rest->ranks(), 3);
    EXPECT_EQ(rest->rank(), all.rank() == 0 ? 0 : all.rank() - 1);
    EXPECT_EQ(rest->name(1), "rank 2 on host b");
    EXPECT_EQ(rest->host(2), "b");
    EXPECT_EQ(rest->local_rank(), all.local_rank());
    EXPECT_EQ(rest->agree(1U << rest->rank()), 7U);
    EXPECT_EQ(rest->gather(rest->name(rest->rank()))[2], "rank 3 on host b");
    if (rest->rank() == 2) {  // once more
      rest->await_end();
    } else {
      const std::unique_ptr<Transport> two = rest->without({2});
      EXPECT_EQ(two->agree(1U << two->rank()), 3U);
    }
    if (rest->rank() == 0) ended = true;
  });
  EXPECT_TRUE(all_well(errors));
}

// Memory that the host "cannot" read in place, of a device that copies at once.
class FarMemory : public Buffer {
 public:
  explicit FarMemory(std::int64_t bytes)
      : Buffer(bytes, nullptr), memory(static_cast<std::size_t>(bytes)) {}
  std::vector<std::byte> memory;
};

class FarDevice : public Device {
 public:
  FarDevice() : Device({}) {}
  std::string name() const override { return "far"; }
  std::string description() const override { return "memory that the host cannot read"; }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    return std::make_unique<FarMemory>(bytes);
  }
  void upload(View to, const void* from) override {
    std::memcpy(data(to), from, static_cast<std::size_t>(to.bytes));
  }
  void download(void* to, View from) override {
    std::memcpy(to, data(from), static_cast<std::size_t>(from.bytes));
  }
  void copy(View, View) override {}
  void accumulate(View, View, int) override {}
  void synchronise() override {}
  Plan plan(const Graph&, const CompileOptions&) override { return {}; }
  std::unique_ptr<Executable> compile(const Graph&, const CompileOptions&) override { return {}; }

 private:
  static std::byte* data(View view) {
    return static_cast<FarMemory*>(view.buffer)->memory.data() + view.offset;
  }
};

// --- all-to-all of any sizes ---

// How much rank `from` sends to rank `to`: sometimes nothing.
std::int64_t size_of(int from, int to, int step) { return (from * 7 + to * 13 + step * 5) % 40; }
std::byte byte_of(int from, int to, std::int64_t i, int step) {
  return static_cast<std::byte>(from * 31 + to * 17 + i * 3 + step);
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, all_to_all_brings_every_byte_to_its_place_on_many_channels_at_once) {
  const int ranks = GetParam();
  constexpr int kSteps = 8, kMost = 40, kWays = 3;  // channels
  LocalRanks shared(ranks, 20);
  EXPECT_TRUE(all_well(on_ranks(shared, ranks, [&](Transport& transport) {
    const int me = transport.rank();
    const auto size = static_cast<std::size_t>(kWays * ranks * kMost);
    std::vector<std::byte> sent(size), got(size);
    HostMemory sent_memory(sent.data(), std::ssize(sent)), got_memory(got.data(), std::ssize(got));
    for (int step = 0; step < kSteps; ++step) {
      std::ranges::fill(got, std::byte{0});
      for (int way = 0; way < kWays; ++way) {
        std::vector<Message> out, in;
        for (int other = 0; other < ranks; ++other) {
          const std::int64_t at = (way * ranks + other) * kMost;
          if (other == me) continue;
          for (std::int64_t i = 0; i < kMost; ++i)
            sent[static_cast<std::size_t>(at + i)] = byte_of(me, other, i, step + way);
          out.push_back({other, View(sent_memory).part(at, size_of(me, other, step + way))});
          in.push_back({other, View(got_memory).part(at, size_of(other, me, step + way))});
        }
        transport.start(way, out, in);
      }
      for (int way = kWays - 1; way >= 0; --way) transport.wait(way);
      for (int way = 0; way < kWays; ++way) {
        for (int other = 0; other < ranks; ++other) {
          for (std::int64_t i = 0; i < kMost; ++i) {
            const bool filled = other != me && i < size_of(other, me, step + way);
            ASSERT_EQ(got[static_cast<std::size_t>((way * ranks + other) * kMost + i)],
                      filled ? byte_of(other, me, i, step + way) : std::byte{0});
          }
        }
      }
    }
  })));
}

TEST_P(Ranks, gather_and_broadcast_give_all_ranks_the_same) {
  const int ranks = GetParam();
  LocalRanks shared(ranks, 20);
  EXPECT_TRUE(all_well(on_ranks(shared, ranks, [&](Transport& transport) {
    const int me = transport.rank();
    for (int root = 0; root < ranks; ++root) {
      std::int64_t value = me == root ? 1000 + root : 0;
      HostMemory memory(&value, sizeof value);
      transport.broadcast(1, root, memory);
      EXPECT_EQ(value, 1000 + root);
    }
    std::vector<std::string> expected;
    for (int rank = 0; rank < ranks; ++rank)
      expected.push_back(std::string(static_cast<std::size_t>(rank * 3), 'x'));
    EXPECT_EQ(transport.gather(expected[static_cast<std::size_t>(me)]), expected);
  })));
}

TEST_P(Ranks, agree_is_the_bitwise_or_of_all_at_every_step) {
  const int ranks = GetParam();
  LocalRanks shared(ranks, 20);
  EXPECT_TRUE(all_well(on_ranks(shared, ranks, [&](Transport& transport) {
    for (int step = 0; step < 50; ++step) {
      const std::uint64_t mine = std::uint64_t{1} << ((transport.rank() + step) % 64);
      std::uint64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) all |= std::uint64_t{1} << ((rank + step) % 64);
      EXPECT_EQ(transport.agree(mine), all);
      EXPECT_EQ(transport.agree(0), 0u);
    }
  })));
}

TEST_P(Ranks, views_that_the_host_cannot_read_travel_by_way_of_its_memory) {
  const int ranks = GetParam();
  LocalRanks shared(ranks, 20);
  std::deque<FarDevice> devices(static_cast<std::size_t>(ranks));
  EXPECT_TRUE(all_well(on_ranks(shared, ranks, [&](Transport& transport) {
    FarDevice& device = devices[static_cast<std::size_t>(transport.rank())];
    transport.use(device);
    const auto memory = device.allocate(8 * ranks);
    std::vector<View> all;
    for (int rank = 0; rank < ranks; ++rank) all.emplace_back(*memory, 8 * rank, 8);
    for (std::int64_t step = 0; step < 3; ++step) {
      const std::int64_t mine = 100 * step + transport.rank();
      device.upload(all[static_cast<std::size_t>(transport.rank())], &mine);
      transport.all_gather(2, all);
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t value = 0;
        device.download(&value, all[static_cast<std::size_t>(rank)]);
        EXPECT_EQ(value, 100 * step + rank);
      }
    }
  })));
}

INSTANTIATE_TEST_SUITE_P(Transport, Ranks, testing::Values(1, 2, 3, 5, 8));

TEST(Transport, arrived_says_whether_wait_would_return_at_once) {
  LocalRanks shared(2, 20);
  std::atomic<bool> may_send{false};
  EXPECT_TRUE(all_well(on_ranks(shared, 2, [&](Transport& transport) {
    int value = 7;
    HostMemory memory(&value, sizeof value);
    const Message message{1 - transport.rank(), memory};
    if (transport.rank() == 0) {
      transport.start(1, {}, {&message, 1});
      EXPECT_FALSE(transport.arrived(1));
      may_send = true;
      while (!transport.arrived(1)) std::this_thread::yield();
    } else {
      while (!may_send) std::this_thread::yield();
      transport.start(1, {&message, 1}, {});
    }
    transport.wait(1);
  })));
}

TEST(Transport, misuse_is_an_internal_error) {
  const auto transport = lone_transport();
  int value = 0;
  HostMemory memory(&value, sizeof value);
  const Message to_itself{0, memory}, to_nobody{1, memory};
  EXPECT_THROW(transport->wait(1), InternalError);
  EXPECT_THROW(transport->start(1, {&to_itself, 1}, {}), InternalError);
  EXPECT_THROW(transport->start(2, {&to_nobody, 1}, {}), InternalError);
  EXPECT_THROW(transport->start(-1, {}, {}), InternalError);
  transport->start(3, {}, {});
  EXPECT_THROW(transport->start(3, {}, {}), InternalError);
  transport->leave();
}

TEST(Transport, messages_of_different_length_at_their_two_ends_are_an_internal_error) {
  LocalRanks shared(2, 20);
  const std::vector<std::string> errors = on_ranks(shared, 2, [&](Transport& transport) {
    std::int64_t value = 0;
    HostMemory memory(&value, sizeof value);
    const Message message{1 - transport.rank(), View(memory, 0, transport.rank() == 0 ? 8 : 4)};
    if (transport.rank() == 0) {
      transport.exchange(1, {&message, 1}, {});
    } else {
      transport.exchange(1, {}, {&message, 1});
    }
  });
  EXPECT_TRUE(std::ranges::any_of(errors, [](const std::string& error) {
    return error.find("bytes, and its other end has") != std::string::npos;
  }));
}

// --- what all ranks must have alike ---

TEST(AgreeOn, equal_texts_are_accepted) {
  LocalRanks shared(3, 20);
  EXPECT_TRUE(all_well(on_ranks(shared, 3, [](Transport& transport) {
    transport.agree_on("recipe", "seed = 1\n");
    transport.agree_on("data hash", "");
  })));
}

TEST(AgreeOn, a_difference_is_refused_by_all_ranks_in_the_same_words_with_rank_host_and_place) {
  LocalRanks shared(3, 20, {"a", "a", "b"});
  const std::vector<std::string> errors = on_ranks(shared, 3, [](Transport& transport) {
    transport.agree_on("recipe",
                       transport.rank() == 2 ? "model = x\nseed = 2\n" : "model = x\nseed = 1\n");
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(
        error,
        "rank 2 on host b has a different recipe than rank 0 on host a: line 2: \"seed = 2\", "
        "not \"seed = 1\"; all ranks of a run must have the same recipe");
  }
}

TEST(FirstDifference, is_named_for_every_kind_of_difference) {
  EXPECT_EQ(first_difference("a", "b"), "\"a\", not \"b\"");
  EXPECT_EQ(first_difference("x\na\n", "x\nb\n"), "line 2: \"a\", not \"b\"");
  EXPECT_EQ(first_difference("x\ny\n", "x\n"), "line 2: \"y\", not nothing");
  EXPECT_EQ(first_difference("", "x"), "nothing, not \"x\"");
  EXPECT_EQ(first_difference("x\n", "x"), "white space at the end");
}

// --- failure ---

TEST(RankFailure, a_late_rank_ends_all_within_the_timeout_and_is_named_with_its_step) {
  LocalRanks shared(3, 0.3, {"a", "b", "c"});
  const auto start = Clock::now();
  std::atomic<bool> over{false};
  const std::vector<std::string> errors = on_ranks(shared, 3, [&](Transport& transport) {
    transport.at(transport.rank() == 1 ? 4 : 5, "gradients");
    if (transport.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    try {
      transport.barrier();
    } catch (const RankFailure&) {
      over = true;
      throw;
    }
  });
  EXPECT_LT(seconds_since(start), 5);
  for (const std::string& error : errors) {
    EXPECT_EQ(error.find("rank 1 on host b, step 4 (gradients): late; rank "), 0u) << error;
    EXPECT_NE(error.find(", step 5 (gradients), has waited for it for 0.3 s (--rank-timeout)"),
              std::string::npos)
        << error;
  }
}

TEST(RankFailure, a_rank_that_ends_early_ends_all) {
  LocalRanks shared(3, 60);
  const std::vector<std::string> errors = on_ranks(shared, 3, [](Transport& transport) {
    transport.at(9, "");
    if (transport.rank() == 2) throw UserError("no such file");
    transport.barrier();
  });
  EXPECT_EQ(errors[2], "no such file");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)],
              "rank 2 on host local, step 9 ended before the others");
  }
}

TEST(RankFailure, abort_ends_all_with_the_name_of_who_called_it_and_the_reason) {
  LocalRanks shared(2, 60);
  const std::vector<std::string> errors = on_ranks(shared, 2, [](Transport& transport) {
    if (transport.rank() == 1) transport.abort("the disk is full", ExitCode::kData);
    transport.barrier();
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "rank 1 on host local, before step 1: the disk is full");
}

// Changes what it receives, as a network may.
class ChangingTransport : public LocalTransport {
 public:
  using LocalTransport::LocalTransport;
  bool changes = false;

 protected:
  void begin(int channel, std::span<const HostMessage> out,
             std::span<const HostMessage> in) override {
    if (channel != kControl) in_.assign(in.begin(), in.end());
    LocalTransport::begin(channel, out, in);
  }
  Clock::time_point finish(int channel) override {
    const Clock::time_point end = LocalTransport::finish(channel);
    if (changes && channel != kControl) in_[0].memory[17] ^= std::byte{4};
    return end;
  }

 private:
  std::vector<HostMessage> in_;
};

// Two ranks exchange two messages of different lengths; of the second, one bit changes on its way
// to rank 1. What each threw, or "".
std::vector<std::string> exchange_with_changes(bool checks, bool changes) {
  LocalRanks shared(2);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ChangingTransport transport(shared, rank);
        transport.check_messages(checks);
        transport.changes = changes && rank == 1;
        std::vector<float> own(1000, static_cast<float>(rank)), short_own(3, 7), other(1000),
            short_other(3);
        HostMemory out(own.data(), 4000), out2(short_own.data(), 12), in(other.data(), 4000),
            in2(short_other.data(), 12);
        const std::vector<Message> outs = {{1 - rank, out}, {1 - rank, out2}},
                                   ins = {{1 - rank, in}, {1 - rank, in2}};
        transport.exchange(1, outs, ins);
        if (!transport.changes) {
          EXPECT_EQ(other, std::vector<float>(1000, static_cast<float>(1 - rank)));
        }
        EXPECT_EQ(short_other, std::vector<float>(3, 7));
        transport.leave();
      } catch (const UserError& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Transport, a_message_that_changes_on_its_way_is_found_by_its_checksum) {
  EXPECT_TRUE(all_well(exchange_with_changes(false, false)));
  EXPECT_TRUE(all_well(exchange_with_changes(false, true))) << "nobody looks";
  EXPECT_TRUE(all_well(exchange_with_changes(true, false)));
  const std::vector<std::string> errors = exchange_with_changes(true, true);
  EXPECT_NE(errors[1].find("a message of 4,000 bytes from rank 0 on host"), std::string::npos)
      << errors[1];
  EXPECT_NE(errors[1].find("was changed on its way"), std::string::npos) << errors[1];
}

}  // namespace
}  // namespace podium
