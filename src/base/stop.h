// A request to stop, as long work sees it: set by a signal handler or another thread, seen at the
// next check. For work that leaves nothing behind when it is given up, such as loading data; the
// loop over steps saves first and looks at RunOptions::stop_request itself.
#pragma once

#include <atomic>
#include <exception>

namespace podium {

// What StopToken::check() throws. It is no error: run() catches it.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

// What long work is given to look at.
class StopToken {
 public:
  StopToken() = default;  // of work that nobody stops
  // Stop once `*request` is not 0; null: never. It must outlive the token.
  explicit StopToken(const std::atomic<int>* request) : request_(request) {}

  bool requested() const {
    return request_ != nullptr && request_->load(std::memory_order_relaxed) != 0;
  }
  // Throws Stopped where a stop was requested. Cheap: call it every few milliseconds of work.
  void check() const {
    if (requested()) throw Stopped();
  }

 private:
  const std::atomic<int>* request_ = nullptr;
};

}  // namespace podium
