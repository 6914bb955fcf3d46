// What ranks_test runs under mpirun: a rank of a run that checks the transport, or that makes steps
// until one of the ranks fails in the way that the command line names.
//
//   rank_program TIMEOUT transport
//   rank_program TIMEOUT without RANK       # the others go on for longer than the timeout
//   rank_program TIMEOUT fail HOW RANK      # at step 5
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "parallel/ranks.h"

namespace podium {
namespace {

constexpr std::int64_t kFailingStep = 5;

std::byte byte_of(int from, int to, std::int64_t i, int step) {
  return static_cast<std::byte>(from * 31 + to * 17 + i * 3 + step);
}

// Of any length: nothing, a few bytes, and more than one piece (mpi_transport.cc).
std::int64_t size_of(int from, int to, int step) {
  constexpr std::int64_t kSizes[] = {0, 1, 40, 4096, 70'001, 1 << 20, (16 << 20) + 5};
  return kSizes[(from + 2 * to + 3 * step) % 7];
}

void check_all_to_all(Transport& transport) {
  constexpr int kWays = 3;
  const int me = transport.rank(), ranks = transport.ranks();
  for (int step = 0; step < 7; ++step) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::unique_ptr<HostMemory>> buffers;
    std::vector<Message> out[kWays], in[kWays];
    const auto add = [&](std::vector<Message>& list, int other, std::int64_t size) {
      memory.emplace_back(static_cast<std::size_t>(size));
      buffers.push_back(std::make_unique<HostMemory>(memory.back().data(), size));
      list.push_back({other, *buffers.back()});
      return memory.back().data();
    };
    for (int way = 0; way < kWays; ++way) {
      for (int other = 0; other < ranks; ++other) {
        if (other == me) continue;
        const std::int64_t size = size_of(me, other, step + way);
        std::byte* const bytes = add(out[way], other, size);
        for (std::int64_t i = 0; i < size; ++i) bytes[i] = byte_of(me, other, i, step + way);
        add(in[way], other, size_of(other, me, step + way));
      }
      transport.start(way, out[way], in[way]);
    }
    for (int way = kWays - 1; way >= 0; --way) {
      transport.wait(way);
      for (const Message& message : in[way]) {
        for (std::int64_t i = 0; i < message.view.bytes; ++i)
          PODIUM_CHECK(message.view.host()[i] == byte_of(message.rank, me, i, step + way));
      }
    }
  }
}

void check_small_things(Transport& transport) {
  const int me = transport.rank(), ranks = transport.ranks();
  for (int step = 0; step < 200; ++step) {
    std::uint64_t all = 0;
    for (int rank = 0; rank < ranks; ++rank) all |= std::uint64_t{1} << ((rank + step) % 64);
    PODIUM_CHECK(transport.agree(std::uint64_t{1} << ((me + step) % 64)) == all);
  }
  for (int root = 0; root < ranks; ++root) {
    std::int64_t value = me == root ? 1000 + root : 0;
    HostMemory memory(&value, sizeof value);
    transport.broadcast(1, root, memory);
    PODIUM_CHECK(value == 1000 + root);
  }
  const std::vector<std::string> texts = transport.gather(std::string(me * 3, 'x'));
  for (int rank = 0; rank < ranks; ++rank)
    PODIUM_CHECK(texts[static_cast<std::size_t>(rank)].size() ==
                 static_cast<std::size_t>(rank * 3));
  transport.agree_on("recipe", "seed = 1");
}

// As a slow disk keeps a rank: for longer than the others would wait for one that does nothing.
void be_busy(double seconds) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    note_progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void fail(const std::string& how, Transport& transport) {
  // By now the others know the step.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  if (how == "kill") raise(SIGKILL);
  if (how == "exit") std::exit(3);
  if (how == "abort") std::abort();
  if (how == "segfault") raise(SIGSEGV);
  if (how == "stop") raise(SIGSTOP);
  if (how == "late") sleep_for_ever();
  if (how == "refuse") transport.abort("the disk is full", ExitCode::kData);
  if (how == "throw") throw UserError("no such file", ExitCode::kData);
  if (how == "differ") transport.agree_on("recipe", "seed = 2");
}

int rank_by_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

void make_steps(const std::string& how, int who, double timeout) {
  if (how == "absent" && rank_by_launcher() == who) sleep_for_ever();
  const auto transport = join_ranks({.timeout = timeout});
  const int me = transport->rank();
  try {
    for (std::int64_t step = 1; step <= 100'000; ++step) {
      transport->at(step, "gradients");
      if (step == 3 && me == 0) std::fprintf(stderr, "the steps have begun\n");
      if (step == kFailingStep && me == who) {
        if (how == "forget") return;
        if (how == "busy") be_busy(1.6 * timeout);
        fail(how, *transport);
      } else if (step == kFailingStep && how == "differ") {
        transport->agree_on("recipe", "seed = 1");
      }
      transport->barrier();
      if (how == "busy" && step == kFailingStep) break;
      if (how == "run") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const UserError& error) {
    if (how == "differ") {  // found by all ranks alike, which have left; one says so
      if (me == 0) throw;
      std::exit(static_cast<int>(error.code()));
    }
    std::fprintf(stderr, "error: %s\n", error.what());
    transport->abort("", error.code());
  }
  transport->leave();
}

void go_on_without(int who, double timeout) {
  const auto transport = join_ranks({.timeout = timeout});
  if (transport->rank() == who) {
    transport->await_end();
  } else {
    const auto rest = transport->without({who});
    check_all_to_all(*rest);
    check_small_things(*rest);
    for (const auto start = Clock::now(); rest->agree(seconds_since(start) < 1.3 * timeout) != 0;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  transport->leave();
  std::printf("%s: all is well\n", transport->name(transport->rank()).c_str());
}

int run(const std::vector<std::string>& words) {
  const double timeout = std::atof(words[0].c_str());
  if (words[1] == "without") {
    go_on_without(std::atoi(words[2].c_str()), timeout);
    return 0;
  }
  if (words[1] == "transport") {
    const auto transport = join_ranks({.timeout = timeout});
    check_all_to_all(*transport);
    check_small_things(*transport);
    transport->leave();
    std::printf("%s of %d: %s: all is well\n", transport->name(transport->rank()).c_str(),
                transport->ranks(), mpi_library().c_str());
    return 0;
  }
  make_steps(words[2], std::atoi(words[3].c_str()), timeout);
  return 0;
}

}  // namespace
}  // namespace podium

int main(int count, char** words) {
  try {
    return podium::run({words + 1, words + count});
  } catch (const podium::UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
