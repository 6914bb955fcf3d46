// SHA-256 of bytes, in pieces or whole (libcrypto).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace podium {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::uint8_t> bytes);
  // Sixty-four lower-case hexadecimal digits. Called once, last.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace podium
