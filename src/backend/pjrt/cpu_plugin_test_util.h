// XLA's CPU plugin, for tests: scripts/install-dependencies.sh pjrt fetches it.
#pragma once

#ifdef PODIUM_PJRT_CPU_PLUGIN

#include <unistd.h>

#include <cstdlib>

namespace podium::pjrt {

inline constexpr const char* kNoCpuPlugin =
    "XLA's CPU plugin is not on this machine; scripts/install-dependencies.sh pjrt fetches it";

// Makes it the plugin of this process, which keeps no programs. False where it is not there.
inline bool use_cpu_plugin() {
  if (access(PODIUM_PJRT_CPU_PLUGIN, R_OK) != 0) return false;
  setenv("PODIUM_PJRT_PLUGIN", PODIUM_PJRT_CPU_PLUGIN, 1);
  setenv("PODIUM_PJRT_CACHE", "", 0);
  return true;
}

}  // namespace podium::pjrt

#endif
