// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// "2GiB", "512MiB", "1.5GB", "100000" in bytes, at least one; UserError otherwise.
std::int64_t parse_bytes(const std::string& text);
std::string format_bytes(std::int64_t bytes);

}  // namespace podium
