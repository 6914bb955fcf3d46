// What it costs to write what another core has read, as an update of parameters does on several
// workers: the first two cores take turns, one updating, both reading.
//   shared_bench [floats=143360] [rounds=200]
// 143,360 floats are a worker's half of MNIST's parameters. How far apart the cores are says the
// time in which a line goes from one to the other and back: some 50 ns where they share a cache,
// some 300 where they do not. A virtual machine may move between the two within a second, so it is
// measured before and after; figures whose two times differ mean little.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "backend/cpu/kernels/update.h"
#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace podium::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The cores that this program may use, asked before a thread is bound to one of them.
cpu_set_t usable_set() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  return usable;
}

void bind_to_usable_core(int number) {
  static const cpu_set_t usable = usable_set();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && number-- == 0) CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
}

// Calls first() here and second() on the other core, in turn.
void take_turns(int rounds, const std::function<void()>& first,
                const std::function<void()>& second) {
  std::atomic<int> turn{0};
  std::thread other([&] {
    bind_to_usable_core(1);
    for (int round = 0; round < rounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round + 1) {
      }
      second();
      turn.store(2 * round + 2, std::memory_order_release);
    }
  });
  for (int round = 0; round < rounds; ++round) {
    while (turn.load(std::memory_order_acquire) != 2 * round) {
    }
    first();
    turn.store(2 * round + 1, std::memory_order_release);
  }
  other.join();
}

double round_trip() {
  constexpr int kTrips = 100000;
  const auto start = Clock::now();
  take_turns(
      kTrips, [] {}, [] {});
  return nanoseconds_since(start) / kTrips;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

class Sharing {
 public:
  Sharing(std::int64_t floats, int rounds)
      : floats_(floats),
        rounds_(rounds),
        parameters_(bytes()),
        momentum_(bytes()),
        gradient_(bytes()) {}

  void measure(const char* name, bool other_reads, bool shared) {
    std::vector<double> update, own_read, other_read;
    take_turns(
        rounds_,
        [&] {
          update.push_back(timed([&] { run_update(shared); }));
          own_read.push_back(timed([&] { read(); }));
        },
        [&] { other_read.push_back(timed([&] { other_reads ? read() : void(); })); });
    std::printf("%-44s %8.1f %8.1f %8.1f\n", name, median(update) / 1e3, median(own_read) / 1e3,
                median(other_read) / 1e3);
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(floats_) * sizeof(float); }
  static float* data(AlignedBytes& bytes) { return reinterpret_cast<float*>(bytes.data()); }

  static double timed(const std::function<void()>& work) {
    const auto start = Clock::now();
    work();
    return nanoseconds_since(start);
  }
  void run_update(bool shared) {
    const SgdStep step{.rate = 1e-3f, .momentum = 0.9f, .weight_decay = 0, .nesterov = false};
    for (int part = 0; part < flat_parts(floats_); ++part)
      sgd(floats_, step, data(gradient_), data(parameters_), data(momentum_), shared, part);
  }
  // One float of each line.
  void read() {
    const float* parameters = data(parameters_);
    float sum = 0;
    for (std::int64_t i = 0; i < floats_; i += 16) sum += parameters[i];
    read_ = sum;
  }

  std::int64_t floats_;
  int rounds_;
  AlignedBytes parameters_, momentum_, gradient_;
  std::atomic<float> read_{0};
};

int run(int argc, char** argv) {
  const std::int64_t floats = argc > 1 ? std::atoll(argv[1]) : 143360;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  if (floats < 1 || rounds < 1 || usable_cores() < 2) {
    std::fprintf(stderr, "shared_bench [floats=143360] [rounds=200], on two cores at least\n");
    return 2;
  }
  bind_to_usable_core(0);
  Sharing sharing(floats, rounds);
  std::printf("a line goes to the other core and back in %.0f ns\n", round_trip());
  std::printf("%-44s %8s %8s %8s\n", "microseconds (median)", "UPDATE", "READ", "OTHER");
  sharing.measure("the other core reads nothing", false, false);
  sharing.measure("it reads all; written through the caches", true, false);
  sharing.measure("it reads all; written past them", true, true);
  std::printf("a line goes to the other core and back in %.0f ns\n", round_trip());
  return 0;
}

}  // namespace
}  // namespace podium::cpu

int main(int argc, char** argv) { return podium::cpu::run(argc, argv); }
