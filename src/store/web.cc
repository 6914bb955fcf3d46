#include "store/web.h"

#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "store/answer.h"

namespace podium {
namespace {

class WebStore final : public ObjectStore {
 public:
  WebStore(const ObjectAddress& address, const HttpPatience& patience, StopToken stop)
      : address_(address), http_(patience, stop) {}

  std::vector<ObjectInfo> list(const std::string& prefix) override {
    const auto found = find(prefix);
    return found ? std::vector<ObjectInfo>{*found} : std::vector<ObjectInfo>{};
  }

  std::optional<ObjectInfo> find(const std::string& key) override {
    const HttpAnswer answer = send(key, {.method = "HEAD", .url = address_.at(key).text()});
    if (answer.status == 404) return std::nullopt;
    require_success(answer, key);
    const std::string size = answer.header("content-length"), tag = answer.header("etag");
    PODIUM_REQUIRE(!size.empty(), ExitCode::kData, address_.at(key).text(),
                   ": the server does not say how long the file is; download it by hand");
    return ObjectInfo{key, std::atoll(size.c_str()),
                      tag.empty() ? answer.header("last-modified") : tag};
  }

  std::string read(const ObjectInfo& object, std::int64_t offset, std::int64_t size) override {
    if (size == 0) return "";
    HttpRequest request{.url = address_.at(object.key).text()};
    const bool whole = offset == 0 && size == object.size;
    if (!whole) request.headers.push_back(cat("Range: bytes=", offset, "-", offset + size - 1));
    if (object.tag.starts_with('"')) request.headers.push_back("If-Match: " + object.tag);
    HttpAnswer answer = send(object.key, request, [&](const HttpAnswer& got) {
      return got.status == (whole ? 200 : 206) && std::ssize(got.body) != size;
    });
    // A server that knows no ranges sends all.
    if (answer.status == 200 && !whole && std::ssize(answer.body) == object.size)
      return answer.body.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    return part_of(std::move(answer), request.url, size,
                   [&](const HttpAnswer& got) { require_success(got, object.key); });
  }

  std::optional<std::string> write(const std::string& key, std::string_view,
                                   const WriteIf&) override {
    refuse_to_write(key);
  }
  void write_parts(const std::string& key, const std::string&) override { refuse_to_write(key); }
  void remove(const std::string& key) override { refuse_to_write(key); }

 private:
  HttpAnswer send(const std::string& key, const HttpRequest& request,
                  const std::function<bool(const HttpAnswer&)>& again = {}) {
    return http_.send(
        address_.at(key).text(), [&] { return request; }, again);
  }

  void require_success(const HttpAnswer& answer, const std::string& key) const {
    PODIUM_REQUIRE(answer.status / 100 == 2, ExitCode::kData, address_.at(key).text(),
                   ": the server answers with status ", answer.status,
                   answer.status == 404 ? ": there is no such file; check the address"
                   : answer.status == 401 || answer.status == 403
                       ? ": it takes a permission that podium cannot give; download it by hand"
                       : "; check the address");
  }

  [[noreturn]] void refuse_to_write(const std::string& key) const {
    throw UserError(cat(address_.at(key).text(),
                        " can only be read; name a folder, s3://BUCKET/KEY or gs://BUCKET/KEY"),
                    ExitCode::kUsage);
  }

  const ObjectAddress address_;
  Http http_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_web(const ObjectAddress& address, const HttpPatience& patience,
                                      StopToken stop) {
  return std::make_unique<WebStore>(address, patience, stop);
}

}  // namespace podium
