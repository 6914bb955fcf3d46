// What all uses of libcurl share. A handle is curl's CURL*, which is a void*: its header stays in
// .cc files.
#pragma once

namespace podium {

// A new handle, which knows http and https alone. Never null.
void* new_web_handle();
// After curl_easy_reset(), which forgets it.
void allow_web_alone(void* handle);

}  // namespace podium
