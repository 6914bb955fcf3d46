#include "data/storage/record_file.h"

#include <array>
#include <cstddef>

namespace podium {
namespace {

// Of a byte with so many zero bytes after it: eight bytes become one step ("slicing by 8").
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables crc32c_tables() {
  CrcTables tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t zeros = 1; zeros < tables.size(); ++zeros) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[zeros - 1][byte];
      tables[zeros][byte] = (crc >> 8) ^ tables[0][crc & 255];
    }
  }
  return tables;
}

constexpr CrcTables kTables = crc32c_tables();

void append_little_endian(std::string& file, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(bytes[i])};
  };
  while (bytes.size() >= 8) {
    crc ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    crc = kTables[7][crc & 255] ^ kTables[6][crc >> 8 & 255] ^ kTables[5][crc >> 16 & 255] ^
          kTables[4][crc >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
          kTables[0][byte(7)];
    bytes.remove_prefix(8);
  }
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 255];
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
