// Signatures of Amazon's version 4, as S3 and the stores with its interface ask for them. Our own:
// libcurl of Debian 12 and older signs neither the headers that S3 requires nor sorts parameters.
// Source: Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/credentials.h"

namespace podium {

struct SignedRequest {
  std::string method, host, path;                          // the path is percent-encoded
  std::vector<std::pair<std::string, std::string>> query;  // not encoded, in any order
  std::map<std::string, std::string> headers;              // to sign, by names in lower case
  std::string payload_sha256;                              // of the body, in hexadecimal digits
};

// "list-type=2&prefix=a%2Fb": encoded, and sorted by name.
std::string query_text(std::vector<std::pair<std::string, std::string>> query);

// All headers that the request must carry, "Name: value". `time` is "20130524T000000Z", in UTC.
std::vector<std::string> signed_headers(const SignedRequest& request,
                                        const S3Credentials& credentials, const std::string& region,
                                        const std::string& time);

}  // namespace podium
