#include "store/address.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace podium {
namespace {

bool is_bucket_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

}  // namespace

bool is_remote(std::string_view path) {
  return path.starts_with("s3://") || path.starts_with("gs://") || path.starts_with("https://") ||
         path.starts_with("http://");
}

ObjectAddress parse_address(const std::string& text) {
  PODIUM_REQUIRE(is_remote(text), ExitCode::kUsage, "\"", text,
                 "\" is no address; write s3://BUCKET/KEY, gs://BUCKET/KEY or https://HOST/FILE");
  const std::size_t begin = text.find("://") + 3, slash = text.find('/', begin);
  ObjectAddress address{text.substr(0, begin - 3), text.substr(begin, slash - begin),
                        slash == std::string::npos ? "" : text.substr(slash + 1)};
  const bool web = address.scheme.starts_with("http");
  PODIUM_REQUIRE(!address.bucket.empty(), ExitCode::kUsage, "\"", text, "\" names no ",
                 web ? "host" : "bucket", "; write ", address.scheme, "://",
                 web ? "HOST/FILE" : "BUCKET/KEY");
  PODIUM_REQUIRE(web || (address.bucket.size() >= 3 && address.bucket.size() <= 63 &&
                         std::ranges::all_of(address.bucket, is_bucket_character)),
                 ExitCode::kUsage, "\"", text, "\": \"", address.bucket,
                 "\" is no bucket: its name has 3 to 63 letters, digits, '-', '_' and '.'");
  PODIUM_REQUIRE(!web || !address.key.empty(), ExitCode::kUsage, "\"", text,
                 "\" names no file; write ", address.scheme, "://HOST/FILE");
  return address;
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' ||
                                       c == '.' || c == '~' || (keep_slashes && c == '/'));
    if (plain) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace podium
