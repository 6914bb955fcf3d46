#include "store/credentials.h"

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/environment_text.h"
#include "base/error.h"
#include "base/words.h"
#include "files/file_io.h"

namespace podium {
namespace {

std::string stripped(std::string_view text) { return std::string(trimmed(text, " \t\r")); }

std::string file_of(const char* variable, const char* name) {
  const std::string named = environment_text(variable);
  return named.empty() ? environment_text("HOME") + "/.aws/" + name : named;
}

// Of the machine that this runs on, at Amazon. Elsewhere nobody answers, which takes a second.
std::optional<S3Credentials> machine_credentials() {
  std::string service = environment_text("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (service.empty()) service = "http://169.254.169.254";
  Http http({.deadline_seconds = 1, .silent_seconds = 1, .connect_seconds = 1});
  const auto ask = [&](const std::string& method, const std::string& path,
                       const std::string& header) -> std::string {
    const HttpAnswer answer = http.send(service, [&] {
      return HttpRequest{.method = method, .url = service + path, .headers = {header}};
    });
    return answer.status == 200 ? answer.body : "";
  };
  try {
    const std::string token =
        ask("PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    if (token.empty()) return std::nullopt;
    const std::string header = "X-aws-ec2-metadata-token: " + token;
    const std::string folder = "/latest/meta-data/iam/security-credentials/";
    const std::string role = ask("GET", folder, header);
    if (role.empty()) return std::nullopt;
    const auto json = nlohmann::json::parse(ask("GET", folder + role, header));
    return S3Credentials{json.at("AccessKeyId"), json.at("SecretAccessKey"), json.at("Token"),
                         cat("role \"", role, "\" of this machine")};
  } catch (const UserError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::map<std::string, std::string> profile_in(const std::string& text, const std::string& profile) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    line = stripped(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::string name = stripped(line.substr(1, line.find(']') - 1));
      inside = name == profile || name == "profile " + profile;
      continue;
    }
    const auto equals = line.find('=');
    if (inside && equals != std::string::npos)
      keys[stripped(line.substr(0, equals))] = stripped(line.substr(equals + 1));
  }
  return keys;
}

S3Settings s3_settings() {
  const std::string named = environment_text("AWS_PROFILE");
  const std::string profile = named.empty() ? "default" : named;
  const std::string files[] = {file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                               file_of("AWS_CONFIG_FILE", "config")};
  S3Settings settings;
  std::map<std::string, std::string> keys;
  std::string origin;
  for (const std::string& file : files) {
    const auto found = profile_in(read_text(file).value_or(""), profile);
    if (found.contains("aws_access_key_id")) origin = cat("profile \"", profile, "\" in ", file);
    keys.insert(found.begin(), found.end());
  }
  PODIUM_REQUIRE(named.empty() || !keys.empty(), ExitCode::kUsage, "AWS_PROFILE is \"", named,
                 "\", and neither ", files[0], " nor ", files[1],
                 " has it; correct the variable, or unset it");
  const auto first = [&](std::initializer_list<const char*> variables, const char* key) {
    for (const char* variable : variables)
      if (std::string value = environment_text(variable); !value.empty()) return value;
    return keys.contains(key) ? keys.at(key) : std::string();
  };
  if (const std::string region = first({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
      !region.empty())
    settings.region = region;
  settings.endpoint = first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();

  const std::string id = environment_text("AWS_ACCESS_KEY_ID");
  const std::string secret = environment_text("AWS_SECRET_ACCESS_KEY");
  PODIUM_REQUIRE(id.empty() == secret.empty(), ExitCode::kUsage,
                 id.empty() ? "AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not"
                            : "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not",
                 "; set both, or neither");
  if (!id.empty()) {
    settings.credentials =
        S3Credentials{id, secret, environment_text("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID"};
  } else if (!origin.empty()) {
    PODIUM_REQUIRE(keys.contains("aws_secret_access_key"), ExitCode::kUsage, origin,
                   " has an aws_access_key_id and no aws_secret_access_key; add it");
    settings.credentials = S3Credentials{keys["aws_access_key_id"], keys["aws_secret_access_key"],
                                         keys["aws_session_token"], origin};
  } else if (environment_text("AWS_EC2_METADATA_DISABLED") != "true") {
    settings.credentials = machine_credentials();
  }
  if (!settings.credentials)
    settings.searched = cat("AWS_ACCESS_KEY_ID, profile \"", profile, "\" in ", files[0], " and ",
                            files[1], ", this machine's metadata service");
  return settings;
}

}  // namespace podium
