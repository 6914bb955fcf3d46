// The version of the library, for what is compiled against its headers. cmake/ and the command line
// have the same (podium_version.h, which the build makes).
#pragma once

namespace podium {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace podium
