// Ranks that are threads of one process: for tests over grids of ranks, and for a run of one rank.
//
//   LocalRanks ranks(4);                       // shared by all
//   LocalTransport transport(ranks, 2);        // on the thread of rank 2
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "parallel/host_transport.h"

namespace podium {

// Where the ranks meet. It must outlive their transports.
class LocalRanks {
 public:
  // `timeout` in seconds; `hosts` are names for messages, one for each rank.
  explicit LocalRanks(int ranks, double timeout = 60, std::vector<std::string> hosts = {});

 private:
  friend class LocalTransport;
  // A message that its other end has not come for.
  struct Post {
    int channel;
    std::byte* memory;
    std::int64_t bytes;
  };
  struct Rank {
    std::int64_t step = 0;
    const char* doing = "";
    std::vector<int> awaited;  // by channel: messages out and in
    bool has_left = false;
    std::string end;  // where it ended without that
  };
  std::vector<Post>& sends(int from, int to) { return sends_[index(from, to)]; }
  std::vector<Post>& receipts(int from, int to) { return receipts_[index(from, to)]; }
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to);
  }
  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }

  const double timeout_;
  const std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All of what follows under mutex_.
  std::vector<Rank> ranks_;
  std::vector<std::vector<Post>> sends_, receipts_;
  std::string failure_;  // empty while all is well
};

class LocalTransport : public HostTransport {
 public:
  LocalTransport(LocalRanks& shared, int rank);
  ~LocalTransport() override;

  void at(std::int64_t step, const char* doing) override;
  [[noreturn]] void abort(const std::string& why, ExitCode code) override;
  void leave() override;
  bool has_left() const override;

 protected:
  void begin(int channel, std::span<const HostMessage> out,
             std::span<const HostMessage> in) override;
  Clock::time_point finish(int channel) override;
  bool finished(int channel) override;

 private:
  // All under the mutex.
  std::string place_of(int rank);
  bool awaits(int other, int channel);
  std::string end_of_awaited(int channel);
  std::string lateness(int channel);
  void fail(const std::string& why);
  void throw_if_failed();

  LocalRanks& shared_;
};

// The transport of a run of one rank.
std::unique_ptr<Transport> lone_transport();

}  // namespace podium
