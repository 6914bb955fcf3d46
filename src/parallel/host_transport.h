// What transports between hosts' memories have in common: a view is read and written where it lies
// if the host can do so, else by way of memory of the transport, which is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "parallel/transport.h"

namespace podium {

// A message in memory of the host; never empty.
struct HostMessage {
  int rank = 0;
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
};

class HostTransport : public Transport {
 public:
  void start(int channel, std::span<const Message> out, std::span<const Message> in) override;
  Clock::time_point wait(int channel) override;
  bool arrived(int channel) override;
  void check_messages(bool on) override { checks_ = on; }

 protected:
  // As start(), wait() and arrived(). The lists stay as they are until finish() returns.
  virtual void begin(int channel, std::span<const HostMessage> out,
                     std::span<const HostMessage> in) = 0;
  virtual Clock::time_point finish(int channel) = 0;
  virtual bool finished(int channel) = 0;

 private:
  // Of a view that the host cannot read.
  struct Staging {
    View view;
    std::byte* memory;
  };
  struct Channel {
    bool under_way = false;
    std::vector<HostMessage> out, in;
    std::vector<Staging> staged_in;
    std::vector<std::unique_ptr<std::vector<std::byte>>> memory;  // grows, and is kept
    std::size_t memory_used = 0;
    // Checksums of the messages, in their order: sent and received after them.
    std::vector<std::uint64_t> sums_out, sums_in;
  };
  Channel& channel(int number);
  HostMessage host_message(Channel& channel, const Message& message);
  static void add_sums(Channel& channel);
  void compare_sums(const Channel& channel) const;

  bool checks_ = false;
  std::mutex mutex_;
  std::array<std::unique_ptr<Channel>, kChannels> channels_;  // made at their first use
};

}  // namespace podium
