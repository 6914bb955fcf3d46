// A local file as parts of an upload.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace podium {

// Objects up to this size are written by one request; larger ones in parts of at least this size.
inline constexpr std::int64_t kPartBytes = std::int64_t{16} << 20;

// Calls send(index, bytes) for each part of the file, several at a time, in any order. The first
// exception ends it and is thrown. Returns the number of parts, at most 10,000; an empty file has
// one.
std::int64_t for_each_part(
    const std::string& path,
    const std::function<void(std::int64_t index, std::string_view bytes)>& send);

// MD5 in base64, as the header Content-MD5 has it.
std::string content_md5(std::string_view bytes);

}  // namespace podium
