// XLA's CPU plugin, for tests: scripts/install-dependencies.sh pjrt fetches it.
#pragma once

#ifdef PODIUM_PJRT_CPU_PLUGIN

#include <unistd.h>

#include <cstdlib>

namespace podium::pjrt {

inline constexpr const char* kNoCpuPlugin =
    "XLA's CPU plugin is not on this machine; scripts/install-dependencies.sh pjrt fetches it";

// Makes it the plugin of this process, which keeps no programs; or else the one that
// PODIUM_TEST_PJRT_PLUGIN names, such as a GPU's. False where it is not there.
inline bool use_cpu_plugin() {
  const char* const other = std::getenv("PODIUM_TEST_PJRT_PLUGIN");
  const char* const plugin = other == nullptr ? PODIUM_PJRT_CPU_PLUGIN : other;
  if (access(plugin, R_OK) != 0) return false;
  setenv("PODIUM_PJRT_PLUGIN", plugin, 1);
  setenv("PODIUM_PJRT_CACHE", "", 0);
  return true;
}

}  // namespace podium::pjrt

#endif
