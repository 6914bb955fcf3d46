#include "parallel/local_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace podium {

LocalRanks::LocalRanks(int ranks, double timeout, std::vector<std::string> hosts)
    : timeout_(timeout),
      hosts_(hosts.empty() ? std::vector<std::string>(static_cast<std::size_t>(ranks), "local")
                           : std::move(hosts)),
      ranks_(static_cast<std::size_t>(ranks)),
      sends_(ranks_.size() * ranks_.size()),
      receipts_(sends_.size()) {
  for (Rank& rank : ranks_) rank.awaited.assign(Transport::kChannels, 0);
}

LocalTransport::LocalTransport(LocalRanks& shared, int rank) : shared_(shared) {
  set_ranks(rank, shared.hosts_);
}

LocalTransport::~LocalTransport() {
  const std::scoped_lock lock(shared_.mutex_);
  if (shared_.rank(rank()).has_left) return;
  shared_.rank(rank()).end = cat(place_of(rank()), " ended before the others");
  shared_.changed_.notify_all();
}

void LocalTransport::at(std::int64_t step, const char* doing) {
  const std::scoped_lock lock(shared_.mutex_);
  shared_.rank(rank()).step = step;
  shared_.rank(rank()).doing = doing;
}

void LocalTransport::abort(const std::string& why, ExitCode /*code*/) {
  const std::scoped_lock lock(shared_.mutex_);
  fail(cat(place_of(rank()), ": ", why));
  throw RankFailure(shared_.failure_);
}

void LocalTransport::leave() {
  {
    const std::scoped_lock lock(shared_.mutex_);
    if (shared_.rank(rank()).has_left) return;
  }
  barrier();
  const std::scoped_lock lock(shared_.mutex_);
  shared_.rank(rank()).has_left = true;
}

bool LocalTransport::has_left() const {
  const std::scoped_lock lock(shared_.mutex_);
  return shared_.rank(rank()).has_left;
}

// Whoever comes second copies.
void LocalTransport::begin(int channel, std::span<const HostMessage> out,
                           std::span<const HostMessage> in) {
  using Post = LocalRanks::Post;
  const std::scoped_lock lock(shared_.mutex_);
  throw_if_failed();
  const auto take = [&](std::vector<Post>& posts, std::int64_t bytes, Post& found) {
    const auto at =
        std::ranges::find_if(posts, [&](const Post& post) { return post.channel == channel; });
    if (at == posts.end()) return false;
    found = *at;
    posts.erase(at);
    if (found.bytes == bytes) return true;
    const std::string why = cat("channel ", channel, " of ", name(rank()), ": ", bytes,
                                " bytes, and its other end has ", found.bytes);
    fail(why);
    throw InternalError(__FILE__, __LINE__, why);
  };
  const auto count = [&](int of, int change) {
    int& awaited = shared_.rank(of).awaited[static_cast<std::size_t>(channel)];
    awaited += change;
    if (awaited == 0) shared_.changed_.notify_all();
  };
  Post other;
  // Counted first, so that nothing looks done too early.
  count(rank(), static_cast<int>(out.size() + in.size()));
  for (const HostMessage& message : out) {
    if (take(shared_.receipts(rank(), message.rank), message.bytes, other)) {
      std::memcpy(other.memory, message.memory, static_cast<std::size_t>(message.bytes));
      count(rank(), -1);
      count(message.rank, -1);
    } else {
      shared_.sends(rank(), message.rank).push_back({channel, message.memory, message.bytes});
    }
  }
  for (const HostMessage& message : in) {
    if (take(shared_.sends(message.rank, rank()), message.bytes, other)) {
      std::memcpy(message.memory, other.memory, static_cast<std::size_t>(message.bytes));
      count(rank(), -1);
      count(message.rank, -1);
    } else {
      shared_.receipts(message.rank, rank()).push_back({channel, message.memory, message.bytes});
    }
  }
}

Clock::time_point LocalTransport::finish(int channel) {
  std::unique_lock lock(shared_.mutex_);
  const int& awaited = shared_.rank(rank()).awaited[static_cast<std::size_t>(channel)];
  shared_.changed_.wait_for(lock, std::chrono::duration<double>(shared_.timeout_), [&] {
    return awaited == 0 || !shared_.failure_.empty() || !end_of_awaited(channel).empty();
  });
  // What has come counts, whatever became of its sender since.
  if (awaited == 0) return Clock::now();
  throw_if_failed();
  const std::string end = end_of_awaited(channel);
  fail(end.empty() ? lateness(channel) : end);
  throw RankFailure(shared_.failure_);
}

bool LocalTransport::finished(int channel) {
  const std::scoped_lock lock(shared_.mutex_);
  throw_if_failed();
  return shared_.rank(rank()).awaited[static_cast<std::size_t>(channel)] == 0;
}

std::string LocalTransport::place_of(int number) {
  const LocalRanks::Rank& rank = shared_.rank(number);
  return place(name(number), rank.step, rank.doing);
}

bool LocalTransport::awaits(int other, int channel) {
  const auto has = [&](const std::vector<LocalRanks::Post>& posts) {
    return std::ranges::any_of(posts, [&](const auto& post) { return post.channel == channel; });
  };
  return has(shared_.receipts(other, rank())) || has(shared_.sends(rank(), other));
}

// How a rank ended that will not come any more; empty: all may.
std::string LocalTransport::end_of_awaited(int channel) {
  for (int other = 0; other < ranks(); ++other)
    if (!shared_.rank(other).end.empty() && awaits(other, channel)) return shared_.rank(other).end;
  return "";
}

// Who has not come.
std::string LocalTransport::lateness(int channel) {
  for (int other = 0; other < ranks(); ++other)
    if (awaits(other, channel))
      return late_text(place_of(other), place_of(rank()), shared_.timeout_);
  return cat(place_of(rank()), " waits for nobody");
}

void LocalTransport::fail(const std::string& why) {
  if (!shared_.failure_.empty()) return;
  shared_.failure_ = why;
  shared_.changed_.notify_all();
}

void LocalTransport::throw_if_failed() {
  if (!shared_.failure_.empty()) throw RankFailure(shared_.failure_);
}

namespace {

class LoneTransport {
 protected:
  LocalRanks ranks_{1};
};

class OwningTransport : private LoneTransport, public LocalTransport {
 public:
  OwningTransport() : LocalTransport(ranks_, 0) {}
};

}  // namespace

std::unique_ptr<Transport> lone_transport() { return std::make_unique<OwningTransport>(); }

}  // namespace podium
