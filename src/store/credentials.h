// Who asks a store, by the rules that other programs for it follow.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "store/http.h"

namespace podium {

struct S3Credentials {
  std::string id, secret, token;
  std::string origin;  // for people: "AWS_ACCESS_KEY_ID", "profile \"default\" in /.../credentials"
};

// Where S3's requests go, and how they are signed.
struct S3Settings {
  std::string region = "us-east-1";
  std::string endpoint;                      // "http://127.0.0.1:9000"; empty: Amazon's
  std::optional<S3Credentials> credentials;  // none: requests are not signed, as of public buckets
  std::string searched;                      // where there were none, for people
};

// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else from the profile
// AWS_PROFILE (default: "default") of AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE (default:
// ~/.aws/credentials and ~/.aws/config); else, unless AWS_EC2_METADATA_DISABLED is "true", from the
// machine's metadata service. Region: AWS_REGION, AWS_DEFAULT_REGION, the profile. Endpoint:
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's endpoint_url. Throws UserError(kUsage) if
// only a part is given or the profile that is named does not exist.
S3Settings s3_settings();

// A profile's keys in the text of such a file: [NAME], or in a config [profile NAME].
std::map<std::string, std::string> profile_in(const std::string& text, const std::string& profile);

}  // namespace podium
