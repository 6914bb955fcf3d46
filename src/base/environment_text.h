// Variables of the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace podium {

// Empty where there is none.
inline std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace podium
