// A request to stop a long operation: set by a signal handler or another thread, and noticed at the
// next check. For operations that leave nothing behind when they are abandoned, such as loading
// data. The loop over steps saves first; it reads RunOptions::stop_request itself.
#pragma once

#include <atomic>
#include <exception>

namespace podium {

// What StopToken::check() throws. It is not an error: run() catches it.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

// Tells a long operation whether it should stop.
class StopToken {
 public:
  StopToken() = default;  // never requests a stop
  // Requests a stop once `*request` is not 0; null: never. `request` must outlive the token.
  explicit StopToken(const std::atomic<int>* request) : request_(request) {}

  bool requested() const {
    return request_ != nullptr && request_->load(std::memory_order_relaxed) != 0;
  }
  // Throws Stopped if a stop was requested. Cheap: call it every few milliseconds of work.
  void check() const {
    if (requested()) throw Stopped();
  }

 private:
  const std::atomic<int>* request_ = nullptr;
};

}  // namespace podium
