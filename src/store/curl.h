// What all uses of libcurl share.
#pragma once

#include <curl/curl.h>

namespace podium {

// A new handle, which knows http and https alone. Never null.
CURL* new_web_handle();
// After curl_easy_reset(), which forgets it.
void allow_web_alone(CURL* handle);

}  // namespace podium
