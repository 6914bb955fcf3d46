#include "store/curl.h"

#include <curl/curl.h>

#include <mutex>

#include "base/error.h"

namespace podium {

void allow_web_alone(void* handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK);
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") == CURLE_OK);
#else
  const long web = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_PROTOCOLS, web) == CURLE_OK);
  PODIUM_CHECK(curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, web) == CURLE_OK);
#endif
}

void* new_web_handle() {
  static std::once_flag once;
  std::call_once(once, [] { PODIUM_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
  CURL* const handle = curl_easy_init();
  PODIUM_CHECK(handle != nullptr);
  allow_web_alone(handle);
  return handle;
}

}  // namespace podium
