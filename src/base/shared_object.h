// Shared objects that a user names: plugins of Podium and of PJRT.
#pragma once

#include <string>

namespace podium {

// Why dlopen cannot load the file: that it was built for another machine, if its head says so, else
// the words of the last dlerror().
std::string why_not_loaded(const std::string& path);

}  // namespace podium
