#include "parallel/rank_key_values.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

// Nobody hurries: a device is opened once.
constexpr auto kLook = std::chrono::milliseconds(1);

}  // namespace

RankKeyValues::~RankKeyValues() {
  try {
    close("it ended");
  } catch (const std::exception&) {
    // A rank is lost, and the run with it.
  }
}

void RankKeyValues::open() {
  PODIUM_CHECK(!is_open_);
  PODIUM_REQUIRE(processes() < Transport::kChannels, ExitCode::kUsage, "at most ",
                 Transport::kChannels - 1, " ranks can open a device of several processes, not ",
                 processes());
  is_open_ = true;
  if (process() != 0) return;
  for (int rank = 1; rank < processes(); ++rank)
    servers_.emplace_back([this, rank] { serve(rank); });
}

void RankKeyValues::close(const std::string& failure) {
  if (!is_open_) return;
  is_open_ = false;
  const Letter end{.kind = failure.empty() ? Kind::kEnd : Kind::kFailed,
                   .key = {},
                   .value = cat(ranks_.name(process()), ": ", failure)};
  if (process() != 0) {
    const std::scoped_lock lock(asking_);
    send(0, end);
    return;
  }
  answer(end);
  for (std::thread& server : servers_) server.join();
  servers_.clear();
}

void RankKeyValues::put(const std::string& key, const std::string& value) {
  ask({.kind = Kind::kPut, .key = key, .value = value});
}

std::optional<std::string> RankKeyValues::find(const std::string& key) {
  Letter found = ask({.kind = Kind::kFind, .key = key, .value = {}});
  if (found.kind == Kind::kFailed) throw UserError(found.value);
  if (found.kind == Kind::kNothing) return std::nullopt;
  return std::move(found.value);
}

void RankKeyValues::serve(int rank) {
  try {
    while (true) {
      const Letter letter = receive(rank);
      const Letter answered = answer(letter);
      if (letter.kind == Kind::kEnd || letter.kind == Kind::kFailed) return;
      send(rank, answered);
    }
  } catch (const std::exception& error) {
    answer({.kind = Kind::kFailed, .key = {}, .value = error.what()});
  }
}

RankKeyValues::Letter RankKeyValues::answer(const Letter& letter) {
  const std::scoped_lock lock(mutex_);
  if (letter.kind == Kind::kFailed && failure_.empty()) failure_ = letter.value;
  if (letter.kind == Kind::kPut) values_[letter.key] = letter.value;
  if (letter.kind != Kind::kFind) return {.kind = Kind::kNothing, .key = {}, .value = {}};
  if (!failure_.empty()) return {.kind = Kind::kFailed, .key = {}, .value = failure_};
  const auto found = values_.find(letter.key);
  if (found == values_.end()) return {.kind = Kind::kNothing, .key = {}, .value = {}};
  return {.kind = Kind::kFound, .key = {}, .value = found->second};
}

RankKeyValues::Letter RankKeyValues::ask(const Letter& letter) {
  PODIUM_CHECK(is_open_, "key-values that are not open");
  if (process() == 0) return answer(letter);
  const std::scoped_lock lock(asking_);
  send(0, letter);
  return receive(0);
}

void RankKeyValues::send(int rank, const Letter& letter) {
  Head head{.kind = letter.kind,
            .key_bytes = static_cast<std::uint32_t>(letter.key.size()),
            .value_bytes = letter.value.size()};
  move_bytes(rank, &head, sizeof head, false);
  std::string body = letter.key + letter.value;
  move_bytes(rank, body.data(), std::ssize(body), false);
}

RankKeyValues::Letter RankKeyValues::receive(int rank) {
  Head head;
  move_bytes(rank, &head, sizeof head, true);
  std::string body(head.key_bytes + head.value_bytes, '\0');
  move_bytes(rank, body.data(), std::ssize(body), true);
  return {.kind = head.kind,
          .key = body.substr(0, head.key_bytes),
          .value = body.substr(head.key_bytes)};
}

// How long it takes is the device's affair: the transport watches that the other rank lives.
void RankKeyValues::move_bytes(int rank, void* memory, std::int64_t bytes, bool is_in) {
  if (bytes == 0) return;
  const int channel = process() == 0 ? rank : process();
  HostMemory host(memory, bytes);
  const Message message{rank, host};
  if (is_in) {
    ranks_.start(channel, {}, {&message, 1});
  } else {
    ranks_.start(channel, {&message, 1}, {});
  }
  while (!ranks_.arrived(channel)) std::this_thread::sleep_for(kLook);
  ranks_.wait(channel);
}

}  // namespace podium
