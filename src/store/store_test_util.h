// For tests: a store with chosen faults (store_test_server.py), and the environment that names it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/scratch_test_util.h"
#include "files/test_files.h"
#include "files/test_server.h"
#include "store/object_store.h"

namespace podium {

using test_files::ScopedEnvironment;
using test_files::Server;

inline constexpr HttpPatience kQuick = {.deadline_seconds = 4,
                                        .first_pause_seconds = 0.01,
                                        .longest_pause_seconds = 0.1,
                                        .silent_seconds = 1,
                                        .connect_seconds = 1};

class Store : public ::testing::Test {
 protected:
  void SetUp() override {
    if (server_.port() == 0) GTEST_SKIP() << "needs python3";
  }

  std::unique_ptr<ObjectStore> open(const std::string& address = "s3://data") {
    return open_store(parse_address(address), kQuick);
  }
  std::string ask(const std::string& path, std::string_view body = "") {
    Http http(kQuick);
    return http
        .send("the server",
              [&] {
                return HttpRequest{
                    .method = path[1] == '_' && path != "/_requests" ? "POST" : "GET",
                    .url = endpoint() + path,
                    .body = body};
              })
        .body;
  }
  void put(const std::string& key, std::string_view body, const std::string& bucket = "data") {
    ask(cat("/_put?bucket=", bucket, "&key=", percent_encoded(key)), body);
  }
  void fault(const std::string& kind, int count = 1) {
    ask(cat("/_fault?kind=", kind, "&count=", count));
  }
  std::int64_t requests() {
    const std::string all = ask("/_requests");
    return std::ranges::count(all, '\n');
  }
  // Reads, lists and writes, while each of these faults comes twice.
  void expect_to_outlast(ObjectStore& store) {
    put("object", std::string(1000, 'x'));
    const auto object = store.find("object");
    for (const char* kind : {"cut", "short", "500", "503", "slow", "lost"}) {
      SCOPED_TRACE(kind);
      fault(kind, 2);
      EXPECT_EQ(store.read(*object, 0, 1000), std::string(1000, 'x'));
      fault(kind, 2);
      EXPECT_EQ(store.list("obj").size(), 1U);
      fault(kind, 2);
      EXPECT_TRUE(store.write("new", "bytes", {}).has_value());
    }
  }
  // So many MiB, no part like another.
  static std::string large_bytes(std::size_t mib) {
    std::string bytes(mib << 20, '\0');
    for (std::size_t i = 0; i < bytes.size(); i += 997) bytes[i] = static_cast<char>(i / 997);
    return bytes;
  }
  std::string endpoint() const { return cat("http://127.0.0.1:", server_.port()); }

  TestFolder folder_;
  Server server_{"src/store/store_test_server.py"};
  ScopedEnvironment endpoint_{"AWS_ENDPOINT_URL_S3", endpoint()};
  ScopedEnvironment id_{"AWS_ACCESS_KEY_ID", "AKIDTEST"};
  ScopedEnvironment secret_{"AWS_SECRET_ACCESS_KEY", "secret/test"};
  ScopedEnvironment token_{"AWS_SESSION_TOKEN", ""};
  ScopedEnvironment region_{"AWS_REGION", "us-east-1"};
  ScopedEnvironment home_{"HOME", folder_ / "home"};
  ScopedEnvironment cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  ScopedEnvironment machine_{"AWS_EC2_METADATA_DISABLED", "true"};
  ScopedEnvironment emulator_{"STORAGE_EMULATOR_HOST", endpoint()};
};

}  // namespace podium
