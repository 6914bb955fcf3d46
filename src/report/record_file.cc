#include "report/record_file.h"

#include <array>

namespace podium {
namespace {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 != 0 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = crc32c_table();

void append_little_endian(std::string& file, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

void append_record(std::string& file, std::string_view data) {
  const std::size_t begin = file.size();
  append_little_endian(file, data.size(), 8);
  append_little_endian(file, mask_crc(crc32c(std::string_view(file).substr(begin))), 4);
  file.append(data);
  append_little_endian(file, mask_crc(crc32c(data)), 4);
}

}  // namespace podium
