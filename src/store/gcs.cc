#include "store/gcs.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "files/file_io.h"
#include "store/answer.h"
#include "store/purpose.h"
#include "store/signature.h"
#include "store/upload.h"

namespace podium {
namespace {

using nlohmann::json;

std::string text_in(const json& object, const char* name) {
  return object.is_object() && object.contains(name) && object[name].is_string()
             ? object[name].get<std::string>()
             : "";
}

class GoogleStore final : public ObjectStore {
 public:
  GoogleStore(const ObjectAddress& address, const HttpPatience& patience, StopToken stop)
      : address_(address), http_(patience, stop) {
    const char* const emulator = std::getenv("STORAGE_EMULATOR_HOST");
    if (emulator == nullptr || *emulator == '\0') {
      account_ = std::make_unique<GoogleAccount>();
      return;
    }
    origin_ = emulator;
    if (origin_.find("://") == std::string::npos) origin_ = "http://" + origin_;
    while (origin_.ends_with('/')) origin_.pop_back();
  }

  std::vector<ObjectInfo> list(const std::string& prefix) override {
    std::vector<ObjectInfo> all;
    std::string next;
    do {
      std::vector<std::pair<std::string, std::string>> query = {
          {"prefix", prefix}, {"fields", "items(name,size,generation),nextPageToken"}};
      if (!next.empty()) query.emplace_back("pageToken", next);
      const HttpAnswer answer =
          send(kList, prefix, {.url = cat(bucket_url(), "/o?", query_text(query))},
               [](const HttpAnswer& got) { return got.status == 200 && !json::accept(got.body); });
      if (answer.status != 200) refuse(kList, prefix, answer);
      const json page = parsed(answer, prefix);
      if (page.contains("items"))
        for (const json& item : page["items"]) all.push_back(object_of(item, prefix));
      next = text_in(page, "nextPageToken");
    } while (!next.empty());
    std::ranges::sort(all, {}, &ObjectInfo::key);
    return all;
  }

  std::optional<ObjectInfo> find(const std::string& key) override {
    const HttpAnswer answer = send(kRead, key, {.url = object_url(key)}, [](const HttpAnswer& got) {
      return got.status == 200 && !json::accept(got.body);
    });
    if (answer.status == 404 && !is_missing_bucket(answer)) return std::nullopt;
    if (answer.status != 200) refuse(kRead, key, answer);
    return object_of(parsed(answer, key), key);
  }

  std::string read(const ObjectInfo& object, std::int64_t offset, std::int64_t size) override {
    if (size == 0) return "";
    std::string url = object_url(object.key) + "?alt=media";
    if (!object.tag.empty()) url += "&ifGenerationMatch=" + object.tag;
    // As it lies there: the store unpacks gzip for those who do not ask for it.
    const HttpRequest request{
        .url = url,
        .headers = {cat("Range: bytes=", offset, "-", offset + size - 1), "Accept-Encoding: gzip"}};
    return part_of(send(kRead, object.key, request, until_whole(size)),
                   address_.at(object.key).text(), size,
                   [&](const HttpAnswer& answer) { refuse(kRead, object.key, answer); });
  }

  std::optional<std::string> write(const std::string& key, std::string_view bytes,
                                   const WriteIf& condition) override {
    std::string url = upload_url(key, "media");
    if (condition.absent) url += "&ifGenerationMatch=0";
    if (!condition.tag.empty()) url += "&ifGenerationMatch=" + condition.tag;
    const HttpRequest request{.method = "POST",
                              .url = url,
                              .headers = {"Content-Type: application/octet-stream"},
                              .body = bytes};
    const HttpAnswer answer = send(kWrite, key, request, [](const HttpAnswer& got) {
      return got.status == 200 && !json::accept(got.body);
    });
    if (answer.status == 412) return std::nullopt;
    if (answer.status / 100 != 2) refuse(kWrite, key, answer);
    return written(answer, key, content_md5(bytes));
  }

  void write_parts(const std::string& key, const std::string& path) override {
    const InputFile file(path);
    const auto size = static_cast<std::int64_t>(file.size());
    const HttpAnswer begun =
        send(kWrite, key, {.method = "POST", .url = upload_url(key, "resumable")});
    const std::string session = begun.header("location");
    if (begun.status != 200) refuse(kWrite, key, begun);
    PODIUM_REQUIRE(!session.empty(), ExitCode::kData, address_.at(key).text(),
                   ": the store begins an upload without naming it");
    for (std::int64_t offset = 0; offset < size; offset += kPartBytes) {
      std::string bytes(static_cast<std::size_t>(std::min(kPartBytes, size - offset)), '\0');
      file.read(static_cast<std::uint64_t>(offset),
                std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
      const std::int64_t end = offset + std::ssize(bytes);
      const HttpAnswer answer =
          send(kWrite, key,
               {.method = "PUT",
                .url = session,
                .headers = {cat("Content-Range: bytes ", offset, "-", end - 1, "/", size)},
                .body = bytes});
      // 308: it wants the next part.
      if (answer.status != (end < size ? 308 : 200) && !(end == size && answer.status == 201))
        refuse(kWrite, key, answer);
    }
  }

  void remove(const std::string& key) override {
    const HttpAnswer answer = send(kRemove, key, {.method = "DELETE", .url = object_url(key)});
    if (answer.status / 100 != 2 && answer.status != 404) refuse(kRemove, key, answer);
  }

 private:
  std::string bucket_url() const {
    return cat(origin_, "/storage/v1/b/", percent_encoded(address_.bucket));
  }
  std::string object_url(const std::string& key) const {
    return cat(bucket_url(), "/o/", percent_encoded(key));
  }
  std::string upload_url(const std::string& key, const char* type) const {
    return cat(origin_, "/upload/storage/v1/b/", percent_encoded(address_.bucket),
               "/o?uploadType=", type, "&name=", percent_encoded(key));
  }

  HttpAnswer send(const Purpose& purpose, const std::string& key, const HttpRequest& request,
                  const std::function<bool(const HttpAnswer&)>& again = {}) {
    const std::string what = cat(address_.at(key).text(), ": cannot ", purpose.action);
    for (int turn = 0;; ++turn) {
      HttpAnswer answer = http_.send(
          what,
          [&] {
            HttpRequest own = request;
            const std::string token = account_ ? account_->token() : "";
            if (!token.empty()) own.headers.push_back("Authorization: Bearer " + token);
            return own;
          },
          again);
      if (turn > 0 || answer.status != 401 || !account_) return answer;
      account_->forget_token();
    }
  }

  json parsed(const HttpAnswer& answer, const std::string& key) const {
    json value = json::parse(answer.body, nullptr, false);
    PODIUM_REQUIRE(value.is_object(), ExitCode::kData, address_.at(key).text(),
                   ": the answer is not one of Google's store; is STORAGE_EMULATOR_HOST right?");
    return value;
  }

  ObjectInfo object_of(const json& item, const std::string& key) const {
    const std::string size = text_in(item, "size");
    ObjectInfo object{text_in(item, "name"), std::atoll(size.c_str()), text_in(item, "generation")};
    PODIUM_REQUIRE(!object.key.empty() && !size.empty() && object.size >= 0 && !object.tag.empty(),
                   ExitCode::kData, address_.at(key).text(),
                   ": the store describes an object without its name, size or generation");
    return object;
  }

  std::string written(const HttpAnswer& answer, const std::string& key, const std::string& md5) {
    const json item = parsed(answer, key);
    const std::string found = text_in(item, "md5Hash");
    PODIUM_REQUIRE(found.empty() || found == md5, ExitCode::kData, address_.at(key).text(),
                   ": the store has bytes with the MD5 ", found, ", and ", md5,
                   " were sent; write it again");
    return object_of(item, key).tag;
  }

  static bool is_missing_bucket(const HttpAnswer& answer) {
    return answer.body.find("bucket does not exist") != std::string::npos;
  }

  [[noreturn]] void refuse(const Purpose& purpose, const std::string& key,
                           const HttpAnswer& answer) {
    const json body = json::parse(answer.body, nullptr, false);
    const std::string message = body.is_object() && body.contains("error")
                                    ? text_in(body["error"], "message")
                                    : answer.body.substr(0, 200);
    const std::string who = account_ ? account_->who() : "the emulator's user";
    std::string why;
    if (answer.status == 404 && is_missing_bucket(answer)) {
      why = cat("there is no bucket \"", address_.bucket, "\"; check its name");
    } else if (answer.status == 404) {
      why = "there is no such object; check the address";
    } else if (answer.status == 401 || answer.status == 403) {
      why = cat("access is denied to ", who, "; it takes the permission ",
                purpose.google_permission, message.empty() ? "" : ". The store says: ", message);
      if (account_ && !account_->searched().empty())
        why += cat(". Searched: ", account_->searched());
    } else if (answer.status == 507 || message.find("quota") != std::string::npos) {
      why = cat("the bucket is full: ", message);
    } else {
      why = cat("the store answers with status ", answer.status, ": ", message);
    }
    throw UserError(cat(address_.at(key).text(), ": cannot ", purpose.action, ": ", why),
                    ExitCode::kData);
  }

  const ObjectAddress address_;
  std::string origin_ = "https://storage.googleapis.com";
  std::unique_ptr<GoogleAccount> account_;  // none: an emulator
  Http http_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_gcs(const ObjectAddress& address, const HttpPatience& patience,
                                      StopToken stop) {
  return std::make_unique<GoogleStore>(address, patience, stop);
}

}  // namespace podium
