// What this machine is called.
#pragma once

#include <string>

namespace podium {

// "unknown" if the system does not say.
std::string host_name();

}  // namespace podium
