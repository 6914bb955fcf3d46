#include "cli/signals.h"

#include <csignal>

namespace podium {
namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may write it");

extern "C" void note_request(int signal) { requested.store(signal); }

}  // namespace

const std::atomic<int>* stop_request() {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    struct sigaction action = {};
    action.sa_handler = note_request;
    action.sa_flags = SA_RESTART | (signal == SIGINT ? SA_RESETHAND : 0);
    sigaction(signal, &action, nullptr);
  }
  return &requested;
}

}  // namespace podium
