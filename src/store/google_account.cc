#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/environment_text.h"
#include "base/error.h"
#include "files/base64.h"
#include "files/file_io.h"
#include "store/gcs.h"

namespace podium {
namespace {

using nlohmann::json;

// Base64 as JWT has it: '-' and '_', and no '=' at the end.
std::string base64url(std::string_view bytes) {
  std::string text = base64({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

// Signed by RSA with SHA-256; empty: the key is none.
std::string signed_by(const std::string& key_text, const std::string& text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(
      BIO_new_mem_buf(key_text.data(), static_cast<int>(key_text.size())), &BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (!key) return "";
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  std::size_t size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1)
    return "";
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes, text.size()) != 1)
    return "";
  signature.resize(size);
  return signature;
}

}  // namespace

GoogleAccount::GoogleAccount() {
  const std::string named = environment_text("GOOGLE_APPLICATION_CREDENTIALS");
  file_ = named.empty()
              ? environment_text("HOME") + "/.config/gcloud/application_default_credentials.json"
              : named;
  const auto text = read_text(file_);
  PODIUM_REQUIRE(text || named.empty(), ExitCode::kUsage, "GOOGLE_APPLICATION_CREDENTIALS is \"",
                 named, "\", and there is no such file; correct the variable, or unset it");
  if (text) {
    const json account = json::parse(*text, nullptr, false);
    const auto field = [&](const char* name) {
      return account.is_object() && account.contains(name) && account[name].is_string()
                 ? account[name].get<std::string>()
                 : std::string();
    };
    token_uri_ = field("token_uri");
    if (token_uri_.empty()) token_uri_ = "https://oauth2.googleapis.com/token";
    if (field("type") == "service_account") {
      email_ = field("client_email");
      key_ = field("private_key");
    } else if (field("type") == "authorized_user") {
      client_ = field("client_id");
      client_secret_ = field("client_secret");
      refresh_token_ = field("refresh_token");
    }
    PODIUM_REQUIRE((!email_.empty() && !key_.empty()) || !refresh_token_.empty(), ExitCode::kUsage,
                   file_,
                   ": it is no JSON of a service account (with \"client_email\" and "
                   "\"private_key\") or of a user (with \"refresh_token\")");
    return;
  }
  if (environment_text("NO_GCE_CHECK") != "true") {
    machine_ = environment_text("GCE_METADATA_HOST");
    if (machine_.empty()) machine_ = "metadata.google.internal";
  }
  searched_ = cat("GOOGLE_APPLICATION_CREDENTIALS, ", file_, ", this machine's metadata service");
}

std::string GoogleAccount::who() const {
  if (!email_.empty()) return cat(email_, " (from ", file_, ")");
  if (!refresh_token_.empty()) return cat("the user of ", file_);
  return machine_.empty() ? "nobody: no credentials were found" : "this machine's account";
}

std::string GoogleAccount::fetch() {
  // The service of the machine answers at once, or there is none.
  const bool machine = !machine_.empty();
  Http http(machine ? HttpPatience{.deadline_seconds = 1, .silent_seconds = 1, .connect_seconds = 1}
                    : HttpPatience{});
  std::string body;
  HttpRequest request{.method = "POST", .url = token_uri_};
  if (machine) {
    request = {.url = cat("http://", machine_,
                          "/computeMetadata/v1/instance/service-accounts/default/token"),
               .headers = {"Metadata-Flavor: Google"}};
  } else if (!email_.empty()) {
    const std::int64_t now = std::time(nullptr);
    const json claims = {{"iss", email_},
                         {"scope", "https://www.googleapis.com/auth/devstorage.read_write"},
                         {"aud", token_uri_},
                         {"iat", now},
                         {"exp", now + 3600}};
    const std::string text =
        base64url(R"({"alg":"RS256","typ":"JWT"})") + "." + base64url(claims.dump());
    const std::string signature = signed_by(key_, text);
    PODIUM_REQUIRE(!signature.empty(), ExitCode::kUsage, file_,
                   ": its \"private_key\" is no RSA key in PEM; download the file anew");
    body = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + text +
           "." + base64url(signature);
  } else {
    body = cat("grant_type=refresh_token&client_id=", percent_encoded(client_),
               "&client_secret=", percent_encoded(client_secret_),
               "&refresh_token=", percent_encoded(refresh_token_));
  }
  if (!machine) {
    request.headers.emplace_back("Content-Type: application/x-www-form-urlencoded");
    request.body = body;
  }
  HttpAnswer answer;
  try {
    answer = http.send(cat("a token for ", who()), [&] { return request; });
  } catch (const UserError&) {
    if (!machine) throw;
    machine_.clear();  // it is not a machine of Google's
    return "";
  }
  const json token = json::parse(answer.body, nullptr, false);
  const bool good =
      answer.status == 200 && token.is_object() && token.value("access_token", json()).is_string();
  if (!good && machine) {
    machine_.clear();
    return "";
  }
  PODIUM_REQUIRE(good, ExitCode::kData, token_uri_, ": refuses ", who(), " with status ",
                 answer.status, ": ", answer.body.substr(0, 300),
                 "; is the key still valid, and the clock right?");
  const double seconds = token.contains("expires_in") && token["expires_in"].is_number()
                             ? token["expires_in"].get<double>()
                             : 600;
  constexpr double kEarly = 60;  // renewed before it ends
  ends_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(seconds - kEarly));
  return token["access_token"];
}

std::string GoogleAccount::token() {
  const std::lock_guard lock(mutex_);
  const bool account = !email_.empty() || !refresh_token_.empty() || !machine_.empty();
  if (account && (token_.empty() || Clock::now() >= ends_)) token_ = fetch();
  return token_;
}

void GoogleAccount::forget_token() {
  const std::lock_guard lock(mutex_);
  token_.clear();
}

}  // namespace podium
