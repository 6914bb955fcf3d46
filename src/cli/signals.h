// Requests to stop, from the system or the terminal.
#pragma once

#include <atomic>

namespace podium {

// From the first call on, SIGTERM, SIGUSR1, SIGHUP (but where nohup had it ignored) and SIGINT
// set the flag to their number in place of ending the program, and it is said at once what that
// means. After the first of them, SIGINT ends the program at once.
const std::atomic<int>* stop_request();

}  // namespace podium
