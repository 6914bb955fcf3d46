// Where an object of a store lies: s3://BUCKET/KEY, gs://BUCKET/KEY or, for reading, https://...
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace podium {

// Whether a path names something in a store rather than a file: it begins with s3://, gs://,
// https:// or http://.
bool is_remote(std::string_view path);

struct ObjectAddress {
  std::string scheme;  // "s3", "gs", "https", "http"
  std::string bucket;  // of https: the host, with its port
  std::string key;     // without a slash at its begin; of a folder, a prefix; may be empty

  std::string text() const { return scheme + "://" + bucket + (key.empty() ? "" : "/" + key); }
  // The same store and bucket, another key.
  ObjectAddress at(std::string other) const { return {scheme, bucket, std::move(other)}; }
};

// Throws UserError(kUsage), which names the rule, if `text` is no address.
ObjectAddress parse_address(const std::string& text);

// With everything but letters, digits, '-', '_', '.' and '~' as %XX; slashes stay if
// `keep_slashes`.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);

}  // namespace podium
