#include "files/checksum.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "files/file_io.h"

namespace podium {

struct Checksum::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Checksum::Checksum(ChecksumKind kind) : state_(std::make_unique<State>()) {
  PODIUM_CHECK(state_->context != nullptr &&
               EVP_DigestInit_ex(state_->context,
                                 kind == ChecksumKind::kMd5 ? EVP_md5() : EVP_sha256(),
                                 nullptr) == 1);
}

Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::uint8_t> bytes) {
  PODIUM_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Checksum::finish() {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  PODIUM_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1);
  return hexadecimal(std::span(digest).first(size));
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256(std::span<const std::uint8_t> bytes) {
  Checksum sum(ChecksumKind::kSha256);
  sum.update(bytes);
  return sum.finish();
}

std::string sha256(std::string_view text) {
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string checksum_of_file(const std::filesystem::path& path, ChecksumKind kind) {
  const InputFile file(path);
  Checksum sum(kind);
  std::vector<std::uint8_t> bytes(std::size_t{1} << 20);
  for (std::uint64_t offset = 0; offset < file.size(); offset += bytes.size()) {
    const auto some =
        std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), file.size() - offset));
    file.read(offset, std::as_writable_bytes(some));
    sum.update(some);
  }
  return sum.finish();
}

}  // namespace podium
