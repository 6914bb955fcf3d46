// Shared objects that a user names: plugins of Podium and of PJRT.
#pragma once

#include <string>

namespace podium {

struct SharedObject {
  void* handle = nullptr;  // for dlsym; null: not loaded
  std::string problem;     // why not
};

// Loads a file into this process, for good. The problem is that it was built for another machine or
// is cut short, if its headers say so (to load the latter would end the process); that its
// constructors threw, with their words; else the words of the system.
SharedObject load_shared_object(const std::string& path);

}  // namespace podium
