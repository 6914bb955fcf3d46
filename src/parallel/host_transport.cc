#include "parallel/host_transport.h"

#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {

HostTransport::Channel& HostTransport::channel(int number) {
  PODIUM_CHECK(number >= 0 && number < kChannels, number);
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Channel>& found = channels_[static_cast<std::size_t>(number)];
  if (found == nullptr) found = std::make_unique<Channel>();
  return *found;
}

HostMessage HostTransport::host_message(Channel& channel, const Message& message) {
  PODIUM_CHECK(message.rank >= 0 && message.rank < ranks() && message.rank != rank(),
               "a message for or from rank ", message.rank);
  const View& view = message.view;
  if (std::byte* host = view.host(); host != nullptr) return {message.rank, host, view.bytes};
  PODIUM_CHECK(device() != nullptr, "a view that the host cannot read needs use()");
  if (channel.memory_used == channel.memory.size())
    channel.memory.push_back(std::make_unique<std::vector<std::byte>>());
  std::vector<std::byte>& memory = *channel.memory[channel.memory_used++];
  if (std::ssize(memory) < view.bytes) memory.resize(static_cast<std::size_t>(view.bytes));
  return {message.rank, memory.data(), view.bytes};
}

namespace {

std::uint64_t checksum(const HostMessage& message) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(message.memory),
                     static_cast<std::size_t>(message.bytes)});
}

}  // namespace

// The k-th message to a rank is the k-th that it awaits, so the sums come in the messages' order.
void HostTransport::add_sums(Channel& my) {
  my.sums_out.resize(my.out.size());
  my.sums_in.resize(my.in.size());
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(std::uint64_t));
  for (std::size_t i = 0; i < my.sums_out.size(); ++i) {
    my.sums_out[i] = checksum(my.out[i]);
    my.out.push_back({my.out[i].rank, reinterpret_cast<std::byte*>(&my.sums_out[i]), kBytes});
  }
  for (std::size_t i = 0; i < my.sums_in.size(); ++i)
    my.in.push_back({my.in[i].rank, reinterpret_cast<std::byte*>(&my.sums_in[i]), kBytes});
}

void HostTransport::compare_sums(const Channel& my) const {
  for (std::size_t i = 0; i < my.sums_in.size(); ++i) {
    const std::uint64_t sum = checksum(my.in[i]);
    PODIUM_REQUIRE(sum == my.sums_in[i], ExitCode::kFault, "a message of ",
                   count_text(my.in[i].bytes, "byte"), " from ", name(my.in[i].rank), " to ",
                   name(rank()), " was changed on its way: its checksum was ",
                   hash_text(my.sums_in[i]), " and is ", hash_text(sum),
                   ". Start the same command again to go on from the last checkpoint; where this "
                   "comes again, leave out the host or the network adapter (docs/trust.md)");
  }
}

void HostTransport::start(int number, std::span<const Message> out, std::span<const Message> in) {
  Channel& my = channel(number);
  PODIUM_CHECK(!my.under_way, "channel ", number, " is in use");
  my.under_way = true;
  my.out.clear();
  my.in.clear();
  my.staged_in.clear();
  my.memory_used = 0;
  bool in_place = false;
  for (const Message& message : out) {
    if (message.view.bytes == 0) continue;
    my.out.push_back(host_message(my, message));
    if (message.view.host() == nullptr) {
      device()->download(my.out.back().memory, message.view);
    } else {
      in_place = true;
    }
  }
  for (const Message& message : in) {
    if (message.view.bytes == 0) continue;
    my.in.push_back(host_message(my, message));
    if (message.view.host() == nullptr) {
      my.staged_in.push_back({message.view, my.in.back().memory});
    } else {
      in_place = true;
    }
  }
  // What the device was asked to write, or to read, must be done before this does the same.
  // What agree() and gather() send is no device's, and leave() may come after the device has gone.
  if (in_place && device() != nullptr && number != kControl) device()->synchronise();
  if (checks_) add_sums(my);
  begin(number, my.out, my.in);
}

Clock::time_point HostTransport::wait(int number) {
  Channel& my = channel(number);
  PODIUM_CHECK(my.under_way, "channel ", number, " awaits nothing");
  const Clock::time_point end = finish(number);
  if (checks_) compare_sums(my);
  for (const Staging& staged : my.staged_in) device()->upload(staged.view, staged.memory);
  my.under_way = false;
  return end;
}

bool HostTransport::arrived(int number) {
  PODIUM_CHECK(channel(number).under_way, "channel ", number, " awaits nothing");
  return finished(number);
}

}  // namespace podium
