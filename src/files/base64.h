// Bytes as text (RFC 4648).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace podium {

// With `=` at the end where bytes are missing.
std::string base64(std::span<const std::uint8_t> bytes);

}  // namespace podium
