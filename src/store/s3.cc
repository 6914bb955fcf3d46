#include "store/s3.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "files/checksum.h"
#include "files/file_io.h"
#include "store/answer.h"
#include "store/purpose.h"
#include "store/signature.h"
#include "store/upload.h"
#include "store/xml.h"

namespace podium {
namespace {

std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc)};
}

struct S3Request {
  std::string method = "GET", key;
  std::vector<std::pair<std::string, std::string>> query = {};
  std::map<std::string, std::string> headers = {};
  std::string_view body = {};
};

class S3Store final : public ObjectStore {
 public:
  S3Store(const ObjectAddress& address, S3Settings settings, const HttpPatience& patience,
          StopToken stop)
      : address_(address), settings_(std::move(settings)), http_(patience, stop) {}

  std::vector<ObjectInfo> list(const std::string& prefix) override {
    std::vector<ObjectInfo> all;
    std::string next;
    do {
      S3Request request{
          .query = {{"list-type", "2"}, {"prefix", prefix}, {"encoding-type", "url"}}};
      if (!next.empty()) request.query.emplace_back("continuation-token", next);
      const HttpAnswer answer = send(kList, request, [](const HttpAnswer& got) {
        return got.status == 200 && element_in(got.body, "IsTruncated").empty();
      });
      if (answer.status != 200) refuse(kList, prefix, answer);
      ObjectPage page = parse_object_page(answer.body, address_.at(prefix).text());
      std::ranges::move(page.objects, std::back_inserter(all));
      next = page.next;
    } while (!next.empty());
    std::ranges::sort(all, {}, &ObjectInfo::key);
    return all;
  }

  std::optional<ObjectInfo> find(const std::string& key) override {
    const HttpAnswer answer = send(kRead, {.method = "HEAD", .key = key});
    if (answer.status == 404) return std::nullopt;
    // An answer to HEAD has no text: the same request for a byte says why.
    if (answer.status != 200)
      refuse(kRead, key, send(kRead, {.key = key, .headers = {{"range", "bytes=0-0"}}}));
    return ObjectInfo{key, std::atoll(answer.header("content-length").c_str()),
                      answer.header("etag")};
  }

  std::string read(const ObjectInfo& object, std::int64_t offset, std::int64_t size) override {
    if (size == 0) return "";
    S3Request request{.key = object.key,
                      .headers = {{"range", cat("bytes=", offset, "-", offset + size - 1)}}};
    if (!object.tag.empty()) request.headers["if-match"] = object.tag;
    return part_of(send(kRead, request, until_whole(size)), address_.at(object.key).text(), size,
                   [&](const HttpAnswer& answer) { refuse(kRead, object.key, answer); });
  }

  std::optional<std::string> write(const std::string& key, std::string_view bytes,
                                   const WriteIf& condition) override {
    S3Request request{.method = "PUT",
                      .key = key,
                      .headers = {{"content-md5", content_md5(bytes)}},
                      .body = bytes};
    if (condition.absent) request.headers["if-none-match"] = "*";
    if (!condition.tag.empty()) request.headers["if-match"] = condition.tag;
    // 409: somebody else writes it at this moment.
    const auto again = [](const HttpAnswer& got) {
      return got.status == 409 || element_in(got.body, "Code") == "BadDigest";
    };
    HttpAnswer answer = send(kWrite, request, again);
    if (answer.status == 412 && condition.tag.starts_with('"')) {
      // Ceph compares the tag without its quotes.
      request.headers["if-match"] = condition.tag.substr(1, condition.tag.size() - 2);
      answer = send(kWrite, request, again);
    }
    if (answer.status == 412) return std::nullopt;
    // The object that was to be replaced is gone.
    if (answer.status == 404 && !condition.tag.empty() &&
        element_in(answer.body, "Code") == "NoSuchKey")
      return std::nullopt;
    if (answer.status / 100 != 2) refuse(kWrite, key, answer);
    return answer.header("etag");
  }

  void write_parts(const std::string& key, const std::string& path) override {
    const HttpAnswer begun =
        send(kWrite, {.method = "POST", .key = key, .query = {{"uploads", ""}}});
    if (begun.status != 200) refuse(kWrite, key, begun);
    const std::string upload = element_in(begun.body, "UploadId");
    PODIUM_REQUIRE(!upload.empty(), ExitCode::kData, address_.at(key).text(),
                   ": the store begins an upload without naming it; is it one of S3's kind?");
    try {
      send_parts(key, path, upload);
    } catch (...) {
      try {
        send(kRemove, {.method = "DELETE", .key = key, .query = {{"uploadId", upload}}});
      } catch (const UserError&) {
        // The first failure is the one to tell; stores drop parts that nobody completes.
      }
      throw;
    }
  }

  void remove(const std::string& key) override {
    const HttpAnswer answer = send(kRemove, {.method = "DELETE", .key = key});
    if (answer.status / 100 != 2 && answer.status != 404) refuse(kRemove, key, answer);
  }

 private:
  void send_parts(const std::string& key, const std::string& path, const std::string& upload) {
    std::mutex mutex;
    std::map<std::int64_t, std::string> tags;
    for_each_part(path, [&](std::int64_t index, std::string_view bytes) {
      const HttpAnswer answer =
          send(kWrite, {.method = "PUT",
                        .key = key,
                        .query = {{"partNumber", cat(index + 1)}, {"uploadId", upload}},
                        .headers = {{"content-md5", content_md5(bytes)}},
                        .body = bytes});
      if (answer.status / 100 != 2) refuse(kWrite, key, answer);
      const std::lock_guard lock(mutex);
      tags[index + 1] = answer.header("etag");
    });
    std::string parts = "<CompleteMultipartUpload>";
    for (const auto& [number, tag] : tags)
      parts +=
          cat("<Part><PartNumber>", number, "</PartNumber><ETag>", xml_text(tag), "</ETag></Part>");
    parts += "</CompleteMultipartUpload>";
    const HttpAnswer done = send(
        kWrite, {.method = "POST", .key = key, .query = {{"uploadId", upload}}, .body = parts});
    // S3 may begin with status 200 and then say that it failed.
    if (done.status != 200 || !element_in(done.body, "Code").empty()) refuse(kWrite, key, done);
  }

  // The host, and the path before a key's.
  std::pair<std::string, std::string> place() const {
    if (!settings_.endpoint.empty()) return {settings_.endpoint, "/" + address_.bucket};
    // A bucket with dots has no certificate as a part of the host's name.
    const std::string host = cat("s3.", settings_.region, ".amazonaws.com");
    if (address_.bucket.find('.') != std::string::npos)
      return {"https://" + host, "/" + address_.bucket};
    return {cat("https://", address_.bucket, ".", host), ""};
  }

  HttpRequest signed_request(const S3Request& request) {
    const std::lock_guard lock(mutex_);
    const auto [origin, folder] = place();
    SignedRequest plain{.method = request.method,
                        .host = origin.substr(origin.find("://") + 3),
                        .path = folder + "/" + percent_encoded(request.key, true),
                        .query = request.query,
                        .headers = request.headers,
                        .payload_sha256 = sha256(request.body)};
    const std::string query = query_text(request.query);
    HttpRequest http{.method = request.method,
                     .url = origin + plain.path + (query.empty() ? "" : "?" + query),
                     .body = request.body};
    if (settings_.credentials) {
      http.headers = signed_headers(plain, *settings_.credentials, settings_.region, now_in_utc());
    } else {
      for (const auto& [name, value] : request.headers) http.headers.push_back(name + ": " + value);
    }
    return http;
  }

  HttpAnswer send(const Purpose& purpose, const S3Request& request,
                  const std::function<bool(const HttpAnswer&)>& again = {}) {
    const std::string what = cat(address_.at(request.key).text(), ": cannot ", purpose.action);
    for (int turn = 0;; ++turn) {
      HttpAnswer answer = http_.send(
          what, [&] { return signed_request(request); }, again);
      // Once more with what the answer teaches: the bucket's region, or new credentials.
      if (turn > 0 || !(moved_to(answer) || renewed(answer))) return answer;
    }
  }

  bool moved_to(const HttpAnswer& answer) {
    const std::string region = answer.header("x-amz-bucket-region");
    const std::lock_guard lock(mutex_);
    if (region.empty() || region == settings_.region || answer.status / 100 == 2) return false;
    settings_.region = region;
    return true;
  }

  bool renewed(const HttpAnswer& answer) {
    if (answer.status / 100 != 4) return false;
    const std::string code = element_in(answer.body, "Code");
    if (code != "ExpiredToken" && code != "TokenRefreshRequired") return false;
    S3Settings fresh = s3_settings();
    const std::lock_guard lock(mutex_);
    if (!fresh.credentials ||
        (settings_.credentials && fresh.credentials->token == settings_.credentials->token))
      return false;
    settings_.credentials = std::move(fresh.credentials);
    return true;
  }

  // Throws, with what the store said and what to do.
  [[noreturn]] void refuse(const Purpose& purpose, const std::string& key,
                           const HttpAnswer& answer) {
    const std::lock_guard lock(mutex_);
    const std::string code = element_in(answer.body, "Code");
    const std::string who =
        settings_.credentials
            ? cat("key ", settings_.credentials->id, " (from ", settings_.credentials->origin, ")")
            : "nobody: no credentials were found";
    std::string why;
    if (code == "NoSuchBucket") {
      why = cat("there is no bucket \"", address_.bucket, "\" at ", place().first,
                "; check its name, or set AWS_ENDPOINT_URL_S3 to the store that has it");
    } else if (code == "NoSuchKey" || answer.status == 404) {
      why = "there is no such object; check the address";
    } else if (code == "RequestTimeTooSkewed") {
      why = cat("this machine's clock says ", now_in_utc(), ", and the store's ",
                answer.header("date"), "; set the clock");
    } else if (code == "ExpiredToken" || code == "TokenRefreshRequired") {
      why = cat("the credentials of ", who, " have expired; renew them");
    } else if (code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch" ||
               code == "InvalidToken") {
      why = cat("the store does not accept ", who, ": ", code, "; check id and secret");
    } else if (code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed" ||
               answer.status == 301) {
      why = cat("the bucket is not in the region ", settings_.region,
                "; set AWS_REGION to the one that it is in");
    } else if (code == "QuotaExceeded" || code == "InsufficientStorage" || answer.status == 507) {
      why = "the bucket is full; make room, or write to another one";
    } else if (answer.status == 401 || answer.status == 403) {
      why = cat("access is denied to ", who, "; it takes the permission ", purpose.s3_permission);
      if (!settings_.credentials) why += cat(". Searched: ", settings_.searched);
    } else {
      why = cat("the store answers with status ", answer.status, code.empty() ? "" : ", ", code,
                " ", element_in(answer.body, "Message"));
    }
    throw UserError(cat(address_.at(key).text(), ": cannot ", purpose.action, ": ", why),
                    ExitCode::kData);
  }

  const ObjectAddress address_;
  S3Settings settings_;
  std::mutex mutex_;  // of the settings, which answers may change
  Http http_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_s3(const ObjectAddress& address, S3Settings settings,
                                     const HttpPatience& patience, StopToken stop) {
  return std::make_unique<S3Store>(address, std::move(settings), patience, stop);
}

}  // namespace podium
