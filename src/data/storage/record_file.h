// The frame of TensorFlow's record files (tensorflow/core/lib/io/record_writer.h):
//
//   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
//
// little-endian. The mask keeps the CRC of data that holds CRCs from degenerating.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace podium {

// CRC-32C (Castagnoli, as in iSCSI, RFC 3720).
std::uint32_t crc32c(std::string_view bytes);

constexpr std::uint32_t mask_crc(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

void append_record(std::string& file, std::string_view data);

}  // namespace podium
