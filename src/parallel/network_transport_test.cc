// Ranks that are threads, each with an emulated GPU, and the imitation of NCCL.
#include "parallel/network_transport.h"

#include <gtest/gtest.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/device.h"
#include "parallel/local_transport.h"

namespace podium {
namespace {

class NetworkTransports : public testing::Test {
 protected:
  NetworkTransports() { register_cuda_emulated_backend(); }
  ~NetworkTransports() override {
    set_cuda_devices(1);
    set_nccl_missing(false);
    hold_nccl_back(false);
    fail_nccl_from(std::nullopt);
  }

  struct Options {
    int ranks = 3, gpus = 3;
    double timeout = 60;
    std::string other_backend = {};  // of rank 1
  };
  // Calls work(transport, device) for every rank, on a thread of its own. What each threw, or "".
  std::vector<std::string> on_ranks(const Options& options,
                                    const std::function<void(Transport&, Device&)>& work) {
    set_cuda_devices(options.gpus);
    LocalRanks shared(options.ranks, options.timeout);
    std::vector<std::string> errors(static_cast<std::size_t>(options.ranks));
    // A rank that ends by an error leaves messages behind, which the others may still read.
    std::vector<std::unique_ptr<Device>> devices(errors.size());
    std::vector<std::unique_ptr<Transport>> transports(errors.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto& transport = transports[static_cast<std::size_t>(rank)];
        auto& device = devices[static_cast<std::size_t>(rank)];
        try {
          transport =
              network_transport(std::make_unique<LocalTransport>(shared, rank), options.timeout);
          const bool other = rank == 1 && !options.other_backend.empty();
          device = make_device(other ? options.other_backend : "cuda-emulated",
                               {.local_rank = rank, .local_ranks = options.ranks});
          transport->use(*device);
          work(*transport, *device);
          transport->release();
          transport->leave();
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
          if (transport == nullptr) return;
          try {  // as a run does, so that nobody waits for this rank
            transport->abort(error.what(), ExitCode::kRankLost);
          } catch (const std::exception&) {
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    kept.clear();
    return errors;
  }

 public:
  // What messages lie in, until all ranks have ended.
  struct Memory {
    std::vector<std::unique_ptr<Buffer>> device;
    std::vector<float> words, mine;
    std::deque<HostMemory> host;
  };
  static inline std::mutex kept_mutex;
  static inline std::deque<Memory> kept;
  static Memory& new_memory() {
    const std::scoped_lock lock(kept_mutex);
    return kept.emplace_back();
  }
};

// Each rank sends to each other 4 * (its rank + 1) floats that name both, on two channels at once,
// with a word of the host beside them; `rounds` times.
void all_to_all(Transport& transport, Device& device, int rounds) {
  const int ranks = transport.ranks(), me = transport.rank();
  const auto floats_of = [](int rank) { return 4 * (rank + 1); };
  const auto value = [](int from, int to, int channel, int round) {
    return static_cast<float>(1000 * round + 100 * channel + 10 * from + to);
  };
  for (int round = 0; round < rounds; ++round) {
    auto& [memory, words, mine, host] = NetworkTransports::new_memory();
    std::vector<std::vector<Message>> out(2), in(2);
    words.assign(static_cast<std::size_t>(ranks), -1);
    mine = {static_cast<float>(me)};
    host.emplace_back(mine.data(), 4);
    for (const int channel : {0, 1})
      for (int other = 0; other < ranks; ++other) {
        if (other == me) continue;
        const std::vector<float> sent(static_cast<std::size_t>(floats_of(me)),
                                      value(me, other, channel, round));
        memory.push_back(device.allocate(4 * floats_of(me)));
        device.upload(*memory.back(), sent.data());
        out[static_cast<std::size_t>(channel)].push_back({other, *memory.back()});
        memory.push_back(device.allocate(4 * floats_of(other)));
        in[static_cast<std::size_t>(channel)].push_back({other, *memory.back()});
        if (channel == 1) continue;
        out[0].push_back({other, host[0]});
        in[0].push_back({other, host.emplace_back(&words[static_cast<std::size_t>(other)], 4)});
      }
    for (const int channel : {0, 1})
      transport.start(channel, out[static_cast<std::size_t>(channel)],
                      in[static_cast<std::size_t>(channel)]);
    for (const int channel : {1, 0}) transport.wait(channel);
    for (const int channel : {0, 1})
      for (const Message& message : in[static_cast<std::size_t>(channel)]) {
        if (message.view.host() != nullptr) continue;
        std::vector<float> received(static_cast<std::size_t>(floats_of(message.rank)));
        device.download(received.data(), message.view);
        for (const float x : received)
          PODIUM_CHECK(x == value(message.rank, me, channel, round), x, " from ", message.rank);
      }
    for (int other = 0; other < ranks; ++other)
      PODIUM_CHECK(other == me || words[static_cast<std::size_t>(other)] == other, "host's word");
    PODIUM_CHECK(transport.agree(std::uint64_t{1} << me) == (std::uint64_t{1} << ranks) - 1);
  }
}

TEST_F(NetworkTransports, move_memory_of_devices_by_nccl_and_the_rest_between_hosts) {
  fail_nccl_from(std::nullopt);
  for (const int ranks : {2, 3}) {
    const auto errors = on_ranks({.ranks = ranks}, [&](Transport& transport, Device& device) {
      PODIUM_CHECK(transport.carrier() == "NCCL 2.28.9 between GPUs, MPI between hosts",
                   transport.carrier());
      all_to_all(transport, device, 3);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
  EXPECT_GT(nccl_calls(), 0);
}

TEST_F(NetworkTransports, say_why_messages_go_through_the_hosts) {
  const auto expect = [&](const Options& options, const std::string& why) {
    const auto errors = on_ranks(options, [&](Transport& transport, Device& device) {
      PODIUM_CHECK(transport.rank() == 1 || transport.carrier() == why, transport.carrier());
      all_to_all(transport, device, 1);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  };
  const std::string staged = "MPI, through memory of the hosts";
  fail_nccl_from(0);  // nobody asks it for anything
  expect({.gpus = 2},
         staged + " (not NCCL: rank 2 on host local: it shares its GPU with another rank)");
  expect({.other_backend = "cpu"}, staged);
  set_nccl_missing(true);
  expect({},
         staged + " (not NCCL: rank 0 on host local: libnccl.so.2 cannot be opened (emulated))");
}

TEST_F(NetworkTransports, do_not_wait_without_end_for_ranks_that_do_not_join) {
  hold_nccl_back(true);
  const auto errors =
      on_ranks({.ranks = 2, .gpus = 2, .timeout = 0.3},
               [](Transport& transport, Device& device) { all_to_all(transport, device, 1); });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("the GPUs of all ranks are not connected, after 0.3 s (--rank-timeout)"),
              std::string::npos)
        << error;
}

TEST_F(NetworkTransports, report_a_call_that_fails_in_the_words_of_nccl) {
  // Each call of a rank's exchange in turn, on two ranks.
  int reported = 0;
  for (int call = 0; call < 14; ++call) {
    fail_nccl_from(call);
    const auto errors =
        on_ranks({.ranks = 2, .gpus = 2},
                 [&](Transport& transport, Device& device) { all_to_all(transport, device, 1); });
    for (const std::string& error : errors)
      if (error.find("NCCL failed in") != std::string::npos) ++reported;
    EXPECT_TRUE(errors[0] != "" || errors[1] != "") << call;
  }
  EXPECT_GE(reported, 14);
}

}  // namespace
}  // namespace podium
