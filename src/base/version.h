// The version of the library, for code that is compiled against its headers. CMake and the command
// line use the same version (podium_version.h, which the build generates).
#pragma once

namespace podium {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace podium
