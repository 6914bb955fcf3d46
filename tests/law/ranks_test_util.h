// Ranks that are threads, for the tests of the law; tests/ranks/ has those that are processes.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "parallel/local_transport.h"
#include "train/loop/trainer.h"

namespace podium {

// What carries a rank's messages.
using Carrier = std::function<std::unique_ptr<Transport>(LocalRanks&, int rank)>;
template <typename T = LocalTransport>
std::unique_ptr<Transport> carried_by(LocalRanks& ranks, int rank) {
  return std::make_unique<T>(ranks, rank);
}

// Calls work(trainer, rank) on each rank, on a thread of its own. make() makes its trainer for
// `placement` with workers[rank]. Throws the exception of the first rank that has one. `hosts`: of
// each rank; empty: they share one.
inline void on_ranks_of(const std::vector<int>& workers, const Placement& placement,
                        const std::function<std::unique_ptr<Trainer>(const Placement&)>& make,
                        const std::function<void(Trainer&, int)>& work,
                        const Carrier& carrier = carried_by<>,
                        const std::vector<std::string>& hosts = {}) {
  const auto count = static_cast<int>(workers.size());
  constexpr double kSeconds = 60;
  LocalRanks ranks(count, kSeconds, hosts);
  std::vector<std::exception_ptr> errors(workers.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      try {
        const std::unique_ptr<Transport> transport = carrier(ranks, rank);
        Placement of_rank = placement;
        of_rank.workers = workers[own];
        of_rank.ranks = transport.get();
        const std::unique_ptr<Trainer> trainer = make(of_rank);
        work(*trainer, rank);
        transport->leave();
      } catch (...) {
        errors[own] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace podium
