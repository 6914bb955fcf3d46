#include "parallel/rank_key_values.h"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "parallel/local_transport.h"

namespace podium {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Calls work(key-values) for every rank, each on a thread of its own. What each threw, or "".
std::vector<std::string> on_ranks(int ranks, const std::function<void(RankKeyValues&)>& work) {
  LocalRanks shared(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      LocalTransport transport(shared, rank);
      RankKeyValues key_values(transport);
      try {
        key_values.open();
        work(key_values);
        key_values.close("");
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        key_values.close(error.what());
      }
      transport.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::string key_of(int rank) { return "address/" + std::to_string(rank); }

TEST(RankKeyValues, are_found_by_every_rank_whoever_put_them) {
  // All kinds of bytes, and long ones.
  const auto value_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 100'000, static_cast<char>(rank)) +
           std::string("\0 end", 5);
  };
  const auto errors = on_ranks(4, [&](RankKeyValues& key_values) {
    EXPECT_EQ(key_values.processes(), 4);
    const int rank = key_values.process();
    std::this_thread::sleep_for(milliseconds(10 * rank));
    key_values.put(key_of(rank), value_of(rank));
    for (int other = 0; other < 4; ++other)
      EXPECT_EQ(key_values.get(key_of(other), seconds(20)), value_of(other));
    EXPECT_EQ(key_values.find("nothing"), std::nullopt);
    key_values.put("empty" + key_of(rank), "");
    EXPECT_EQ(key_values.find("empty" + key_of(rank)), "");
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST(RankKeyValues, a_key_that_nobody_puts_is_awaited_for_so_long) {
  const auto errors = on_ranks(2, [&](RankKeyValues& key_values) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(key_values.get("never", milliseconds(60)), std::nullopt);
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(60));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(RankKeyValues, threads_of_a_rank_wait_for_each_others_keys) {
  const auto errors = on_ranks(2, [&](RankKeyValues& key_values) {
    const std::string mine = key_of(key_values.process());
    std::thread first([&] { EXPECT_EQ(key_values.get(mine + "/b", seconds(20)), "b"); });
    std::this_thread::sleep_for(milliseconds(10));
    key_values.put(mine + "/b", "b");
    first.join();
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(RankKeyValues, whoever_waits_hears_that_another_rank_has_failed) {
  for (const int failing : {0, 2}) {
    const auto errors = on_ranks(3, [&](RankKeyValues& key_values) {
      if (key_values.process() == failing) throw UserError("the device is in use");
      key_values.get("never", seconds(20));
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_NE(error.find("the device is in use"), std::string::npos) << rank << ": " << error;
      if (rank != failing) {
        EXPECT_NE(error.find("rank " + std::to_string(failing)), std::string::npos) << error;
      }
    }
  }
}

}  // namespace
}  // namespace podium
