#include "store/upload.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"
#include "base/thread_pool.h"
#include "files/base64.h"
#include "files/file_io.h"

namespace podium {

std::int64_t for_each_part(
    const std::string& path,
    const std::function<void(std::int64_t index, std::string_view bytes)>& send) {
  constexpr std::int64_t kMostParts = 10'000;
  constexpr int kAtOnce = 4;
  const InputFile file(path);
  const auto size = static_cast<std::int64_t>(file.size());
  const std::int64_t part = std::max(kPartBytes, (size + kMostParts - 1) / kMostParts);
  const std::int64_t parts = std::max<std::int64_t>(1, (size + part - 1) / part);
  for_each_at_once(parts, kAtOnce, [&](std::int64_t i) {
    std::string bytes(static_cast<std::size_t>(std::min(part, size - i * part)), '\0');
    file.read(static_cast<std::uint64_t>(i * part),
              std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
    send(i, bytes);
  });
  return parts;
}

std::string content_md5(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  PODIUM_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_md5(), nullptr) ==
               1);
  return base64(std::span(digest).first(size));
}

}  // namespace podium
