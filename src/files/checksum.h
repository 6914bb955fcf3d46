// SHA-256 and MD5 of bytes, in pieces or whole (libcrypto). MD5 only where a source publishes no
// other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace podium {

enum class ChecksumKind { kSha256, kMd5 };

class Checksum {
 public:
  explicit Checksum(ChecksumKind kind);
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void update(std::span<const std::uint8_t> bytes);
  // In lower-case hexadecimal digits, 64 (SHA-256) or 32 (MD5). Called once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// In lower-case hexadecimal digits, two a byte.
std::string hexadecimal(std::span<const std::uint8_t> bytes);

std::string sha256(std::span<const std::uint8_t> bytes);
std::string sha256(std::string_view text);
// Of a file as it lies on disk. Throws UserError(kData) if it cannot be read.
std::string checksum_of_file(const std::filesystem::path& path, ChecksumKind kind);

}  // namespace podium
