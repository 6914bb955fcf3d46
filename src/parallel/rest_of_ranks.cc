#include "parallel/rest_of_ranks.h"

#include <algorithm>
#include <exception>

#include "base/error.h"

namespace podium {

RestOfRanks::RestOfRanks(Transport& all, const std::vector<int>& left_out)
    : all_(all), left_out_(left_out) {
  for (int rank = 0; rank < all.ranks(); ++rank)
    if (std::ranges::find(left_out, rank) == left_out.end()) ranks_.push_back(rank);
  PODIUM_CHECK(
      !ranks_.empty() && ranks_[0] == 0 && std::ranges::find(ranks_, all.rank()) != ranks_.end(),
      all.rank());
  take_ranks(all, ranks_);
}

RestOfRanks::~RestOfRanks() {
  try {
    let_go();
  } catch (const std::exception&) {
    // A rank is lost: whoever waits for it says so.
  }
}

void RestOfRanks::let_go() {
  if (has_let_go_ || rank() != 0) return;
  has_let_go_ = true;
  std::uint64_t word = 0;
  HostMemory memory(&word, sizeof word);
  std::vector<Message> out;
  for (const int rank : left_out_) out.push_back({rank, memory});
  all_.exchange(kControl, out, {});
}

void RestOfRanks::use(Device& device) {
  Transport::use(device);
  all_.use(device);
}
void RestOfRanks::release() {
  all_.release();
  Transport::release();
}

std::vector<Message> RestOfRanks::as_of_all(std::span<const Message> messages) const {
  std::vector<Message> list(messages.begin(), messages.end());
  for (Message& message : list) message.rank = ranks_[static_cast<std::size_t>(message.rank)];
  return list;
}

void RestOfRanks::start(int channel, std::span<const Message> out, std::span<const Message> in) {
  all_.start(channel, as_of_all(out), as_of_all(in));
}

void RestOfRanks::abort(const std::string& why, ExitCode code) {
  all_.abort(why, code);
  std::terminate();  // not reached; gcc does not know it of a call of a virtual function
}

void RestOfRanks::leave() {
  if (has_left()) return;
  let_go();
  all_.leave();
}

}  // namespace podium
