// Requests to stop, from the system or the terminal.
#pragma once

#include <atomic>

namespace podium {

// From the first call on, SIGTERM, SIGUSR1 and SIGINT set the flag to their number in place of
// ending the program. A second SIGINT ends it at once.
const std::atomic<int>* stop_request();

}  // namespace podium
