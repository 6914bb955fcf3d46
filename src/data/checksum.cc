#include "data/checksum.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace podium {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  PODIUM_CHECK(state_->context != nullptr &&
               EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::uint8_t> bytes) {
  PODIUM_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  std::array<std::uint8_t, 32> digest{};
  unsigned size = 0;
  PODIUM_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == 32);
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256(std::span<const std::uint8_t> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.finish();
}

}  // namespace podium
