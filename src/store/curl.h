// What all uses of libcurl share. A handle is curl's CURL*, which is a void*: its header stays in
// .cc files.
#pragma once

#include <span>
#include <string>

namespace podium {

// A new handle, which is prepared. Never null.
void* new_web_handle();
// What curl_easy_reset() makes a handle forget: it knows http and https alone, and trusts
// certificates_to_trust().
void prepare_web_handle(void* handle);

// The file of certificates that a handle is to trust: that of SSL_CERT_FILE; else the first of
// `usual` that there is, if none of `own`, libcurl's, is there: one that was built on another
// distribution, as a wheel's, looks in the wrong place. Empty: libcurl's own.
std::string certificates_to_trust(std::span<const std::string> own,
                                  std::span<const std::string> usual);

// Why a request failed with this CURLcode and this message of libcurl (or none), and what to do
// about certificates.
std::string web_problem(int code, const char* message);
// Whether it would fail again: for the address, the certificate, or too many redirections.
bool fails_always(int code);

}  // namespace podium
