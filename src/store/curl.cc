#include "store/curl.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

// Where libcurl looks for certificates if nobody says otherwise.
std::vector<std::string> own_certificates() {
  std::vector<std::string> own;
  const curl_version_info_data* const about = curl_version_info(CURLVERSION_NOW);
  if (about->age < CURLVERSION_SEVENTH) return own;
  for (const char* path : {about->cainfo, about->capath})
    if (path != nullptr) own.emplace_back(path);
  return own;
}

// Of Debian, Ubuntu, Arch and Gentoo; Fedora and Red Hat; SUSE; Alpine and the BSDs.
std::vector<std::string> usual_certificates() {
  return {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
          "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::string certificates_to_trust(std::span<const std::string> own,
                                  std::span<const std::string> usual) {
  const char* const named = std::getenv("SSL_CERT_FILE");
  if (named != nullptr && *named != 0) return named;
  if (std::ranges::any_of(own, exists)) return "";
  const auto found = std::ranges::find_if(usual, exists);
  return found == usual.end() ? "" : *found;
}

void prepare_web_handle(void* handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK);
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") == CURLE_OK);
#else
  const long web = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_PROTOCOLS, web) == CURLE_OK);
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, web) == CURLE_OK);
#endif
  const std::string trusted = certificates_to_trust(own_certificates(), usual_certificates());
  if (!trusted.empty())
    PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_CAINFO, trusted.c_str()) == CURLE_OK);
}

void* new_web_handle() {
  static std::once_flag once;
  std::call_once(once, [] { PODIUM_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
  CURL* const handle = curl_easy_init();
  PODIUM_CHECK(handle != nullptr);
  prepare_web_handle(handle);
  return handle;
}

std::string web_problem(int code, const char* message) {
  std::string text = message != nullptr && *message != 0
                         ? message
                         : curl_easy_strerror(static_cast<CURLcode>(code));
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
    text += "; SSL_CERT_FILE names the file of the certificates that are trusted";
  return text;
}

bool fails_always(int code) {
  return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_TOO_MANY_REDIRECTS;
}

}  // namespace podium
