#include "store/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "files/checksum.h"
#include "store/address.h"

namespace podium {
namespace {

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  PODIUM_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(),
                    &size) != nullptr);
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

}  // namespace

std::string query_text(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) name = percent_encoded(name), value = percent_encoded(value);
  std::ranges::sort(query);
  std::string text;
  for (const auto& [name, value] : query) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::vector<std::string> signed_headers(const SignedRequest& request,
                                        const S3Credentials& credentials, const std::string& region,
                                        const std::string& time) {
  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = request.payload_sha256;
  if (!credentials.token.empty()) headers["x-amz-security-token"] = credentials.token;
  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = request.method + "\n" + request.path + "\n" +
                                query_text(request.query) + "\n" + lines + "\n" + names + "\n" +
                                request.payload_sha256;
  const std::string day = time.substr(0, 8), scope = day + "/" + region + "/s3/aws4_request";
  const std::string key =
      hmac(hmac(hmac(hmac("AWS4" + credentials.secret, day), region), "s3"), "aws4_request");
  const std::string signature =
      hmac(key, "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256(canonical));

  std::vector<std::string> all;
  for (const auto& [name, value] : headers)
    if (name != "host") all.push_back(name + ": " + value);
  all.push_back(
      "Authorization: AWS4-HMAC-SHA256 Credential=" + credentials.id + "/" + scope +
      ",SignedHeaders=" + names + ",Signature=" +
      hexadecimal({reinterpret_cast<const std::uint8_t*>(signature.data()), signature.size()}));
  return all;
}

}  // namespace podium
