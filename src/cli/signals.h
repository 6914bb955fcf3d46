// Requests to stop, from the system or the terminal.
#pragma once

#include <atomic>

namespace podium {

// From the first call on, SIGTERM, SIGUSR1, SIGHUP (unless nohup had it ignored) and SIGINT set the
// flag to their number instead of ending the program, and a message says at once what happens next.
// After the first of them, SIGINT ends the program at once.
const std::atomic<int>* stop_request();

}  // namespace podium
