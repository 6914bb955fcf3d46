// Stores against a server of S3's kind with chosen faults (store_test_server.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/scratch_test_util.h"
#include "store/curl.h"
#include "store/gcs.h"
#include "store/local_copy.h"
#include "store/object_store.h"
#include "store/store_test_util.h"

namespace podium {
namespace {

TEST_F(Store, lists_writes_reads_and_removes) {
  const auto store = open();
  for (const char* key : {"a/1", "a/ü +%&'2", "a/3", "a/4", "a/5", "a/6", "a/7", "b"})
    EXPECT_TRUE(store->write(key, cat("bytes of ", key), {}).has_value());
  const std::vector<ObjectInfo> listed = store->list("a/");
  ASSERT_EQ(listed.size(), 7U);  // three a page
  EXPECT_EQ(listed[6].key, "a/ü +%&'2");
  EXPECT_EQ(store->read(listed[6], 9, listed[6].size - 9), "a/ü +%&'2");
  EXPECT_EQ(store->find("b")->size, 10);
  store->remove("b");
  store->remove("b");
  EXPECT_FALSE(store->find("b").has_value());
  EXPECT_TRUE(store->list("c").empty());
}

TEST_F(Store, writes_on_a_condition) {
  const auto store = open();
  const auto first = store->write("lock", "one", {.absent = true});
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(store->write("lock", "two", {.absent = true}).has_value());
  const auto second = store->write("lock", "three", {.tag = *first});
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(store->write("lock", "four", {.tag = *first}).has_value());
  EXPECT_EQ(store->read(*store->find("lock"), 0, 5), "three");
  store->remove("lock");
  EXPECT_FALSE(store->write("lock", "five", {.tag = *second}).has_value());
}

TEST_F(Store, writes_a_large_file_in_parts_that_appear_together) {
  const std::string bytes = large_bytes(40);
  put_text(folder_ / "large", bytes);
  const auto store = open();
  fault("503", 2);
  store->write_file("large", folder_ / "large");
  const auto written = store->find("large");
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->size, std::ssize(bytes));
  EXPECT_EQ(store->read(*written, 20 << 20, 1 << 20), bytes.substr(20 << 20, 1 << 20));
  fault("QuotaExceeded", 1);
  EXPECT_CONTAINS(
      user_error(ExitCode::kData, [&] { store->write_file("other", folder_ / "large"); }),
      "s3://data/other: cannot write: the bucket is full");
  EXPECT_FALSE(store->find("other").has_value());
}

TEST_F(Store, outlasts_what_passes) {
  const auto store = open();
  expect_to_outlast(*store);
  fault("BadDigest", 2);
  EXPECT_TRUE(store->write("new", "bytes", {}).has_value());
}

TEST_F(Store, gives_up_within_its_deadline) {
  HttpPatience patience = kQuick;
  patience.deadline_seconds = 1;
  const auto store = open_store(parse_address("s3://data"), patience);
  put("object", std::string(1000, 'x'));
  const auto object = store->find("object");
  for (const char* kind : {"cut", "short", "500", "mute"}) {
    SCOPED_TRACE(kind);
    const auto begun = Clock::now();
    fault(kind, 1000);
    const std::string text = user_error(ExitCode::kData, [&] { store->read(*object, 0, 1000); });
    EXPECT_TRUE(text.starts_with("s3://data/object: ")) << text;
    EXPECT_LT(seconds_since(begun), 4);
    fault("none");  // clears what is left
  }
}

TEST_F(Store, says_who_may_not_do_what) {
  put("object", "x");
  const auto refusal = [&](const std::string& address, auto action) {
    const auto store = open(address);
    return user_error(ExitCode::kData, [&] { action(*store); });
  };
  const auto list = [](ObjectStore& store) { store.list(""); };
  const auto find = [](ObjectStore& store) { store.find("object"); };
  const auto write = [](ObjectStore& store) { store.write("object", "y", {}); };
  EXPECT_CONTAINS(refusal("s3://none", list), "there is no bucket \"none\" at http://127.0.0.1:");
  {
    const ScopedEnvironment id("AWS_ACCESS_KEY_ID", "AKIDREAD");
    open()->list("");
    EXPECT_CONTAINS(refusal("s3://data", write),
                    "s3://data/object: cannot write: access is denied to key AKIDREAD (from "
                    "AWS_ACCESS_KEY_ID); it takes the permission s3:PutObject");
  }
  {
    const ScopedEnvironment id("AWS_ACCESS_KEY_ID", "AKIDNONE");
    EXPECT_CONTAINS(refusal("s3://data", list),
                    "the store does not accept key AKIDNONE (from AWS_ACCESS_KEY_ID): "
                    "InvalidAccessKeyId");
  }
  {
    const ScopedEnvironment secret("AWS_SECRET_ACCESS_KEY", "wrong");
    EXPECT_CONTAINS(refusal("s3://data", find), "SignatureDoesNotMatch; check id and secret");
  }
  {
    const ScopedEnvironment id("AWS_ACCESS_KEY_ID", ""), secret("AWS_SECRET_ACCESS_KEY", "");
    EXPECT_CONTAINS(refusal("s3://data", list),
                    "access is denied to nobody: no credentials were found; it takes the "
                    "permission s3:ListBucket. Searched: AWS_ACCESS_KEY_ID, profile \"default\"");
    put("object", "free", "public");
    EXPECT_EQ(open("s3://public")->find("object")->size, 4);
  }
  {
    const ScopedEnvironment id("AWS_ACCESS_KEY_ID", "");
    EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { open(); }),
                    "AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not");
  }
  fault("RequestTimeTooSkewed");
  EXPECT_CONTAINS(refusal("s3://data", list), "set the clock");
  fault("ExpiredToken");
  EXPECT_CONTAINS(refusal("s3://data", list), "have expired; renew them");
  fault("QuotaExceeded");
  EXPECT_CONTAINS(refusal("s3://data", write), "the bucket is full");
}

TEST_F(Store, takes_credentials_of_a_profile_and_the_region_of_an_answer) {
  const ScopedEnvironment id("AWS_ACCESS_KEY_ID", ""), secret("AWS_SECRET_ACCESS_KEY", "");
  const ScopedEnvironment profile("AWS_PROFILE", "work");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { open(); }), "AWS_PROFILE is \"work\"");
  std::filesystem::create_directories(folder_ / "home/.aws");
  put_text(folder_ / "home/.aws/credentials",
           "[work]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret/test\n");
  EXPECT_TRUE(open()->list("").empty());
  EXPECT_TRUE(open("s3://far")->list("").empty());
}

TEST_F(Store, tells_an_object_that_changed_while_it_was_read) {
  put("object", "old bytes");
  const auto store = open();
  const auto object = store->find("object");
  put("object", "new bytes");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { store->read(*object, 0, 9); }),
                  "s3://data/object: the object changed while it was read");
}

// Google's store, by the same tests where the two are alike.
TEST_F(Store, of_google_lists_writes_reads_and_removes) {
  const auto store = open("gs://data");
  for (const char* key : {"a/1", "a/\u00fc +%&'2", "a/3", "a/4", "b"})
    EXPECT_TRUE(store->write(key, cat("bytes of ", key), {}).has_value());
  const std::vector<ObjectInfo> listed = store->list("a/");
  ASSERT_EQ(listed.size(), 4U);
  EXPECT_EQ(store->read(listed[3], 9, listed[3].size - 9), listed[3].key);
  const auto first = store->write("lock", "one", {.absent = true});
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(store->write("lock", "two", {.absent = true}).has_value());
  const auto second = store->write("lock", "three", {.tag = *first});
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(store->write("lock", "four", {.tag = *first}).has_value());
  const auto object = store->find("lock");
  EXPECT_EQ(store->read(*object, 0, 5), "three");
  put("lock", "other");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { store->read(*object, 0, 5); }),
                  "gs://data/lock: the object changed while it was read");
  store->remove("lock");
  EXPECT_FALSE(store->find("lock").has_value());
  const std::string bytes = large_bytes(40);
  put_text(folder_ / "large", bytes);
  fault("503", 2);
  store->write_file("large", folder_ / "large");
  EXPECT_TRUE(file_text(local_copy("gs://data/large", {.patience = kQuick})) == bytes);
}

TEST_F(Store, of_google_outlasts_what_passes_and_says_who_may_not) {
  const auto store = open("gs://data");
  expect_to_outlast(*store);
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { open("gs://none")->list(""); }),
                  "there is no bucket \"none\"");
  fault("QuotaExceeded");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { store->write("new", "x", {}); }),
                  "gs://data/new: cannot write: ");
}

// The account's key is made by openssl, and the server checks what is signed with it.
TEST_F(Store, of_google_is_asked_by_a_service_account) {
  const std::string key = folder_ / "key.pem", pub = folder_ / "pub.pem";
  const std::string make = cat("openssl genrsa -out ", key, " 2048 2>/dev/null && openssl rsa -in ",
                               key, " -pubout -out ", pub, " 2>/dev/null");
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "needs openssl";
  std::string lines;
  for (const char c : file_text(key)) lines += c == '\n' ? std::string("\\n") : std::string(1, c);
  const std::filesystem::path file = folder_ / "account.json";
  put_text(file,
           cat("{\"type\": \"service_account\", \"client_email\": \"a@b\", \"private_key\": \"",
               lines, "\", \"token_uri\": \"", endpoint(), "/token\"}"));
  ask(cat("/_account?key=", percent_encoded(pub)));
  // There is no emulator: an account is asked for. The store is the same.
  const ScopedEnvironment none("STORAGE_EMULATOR_HOST", "");
  const ScopedEnvironment named("GOOGLE_APPLICATION_CREDENTIALS", file);
  GoogleAccount account;
  const std::string token = account.token();
  EXPECT_EQ(token, "token-0");
  EXPECT_EQ(account.token(), token);
  account.forget_token();
  EXPECT_EQ(account.token(), "token-1");
  put_text(file, "{\"type\": \"other\"}");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { GoogleAccount(); }),
                  "it is no JSON of a service account");
  const ScopedEnvironment wrong("GOOGLE_APPLICATION_CREDENTIALS", folder_ / "none.json");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { GoogleAccount(); }), "there is no such file");
}

TEST_F(Store, over_tls_is_trusted_by_its_certificate_alone) {
  const std::string pem = folder_ / "server.pem";
  const std::string make = cat("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here ",
                               "-addext subjectAltName=IP:127.0.0.1 -keyout ", pem, " -out ", pem,
                               ".crt 2>/dev/null && cat ", pem, ".crt >> ", pem);
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "needs openssl";
  const Server tls("src/store/store_test_server.py", pem);
  const auto ask_it = [&] {
    const std::string url = cat("https://127.0.0.1:", tls.port(), "/_requests");
    return Http(kQuick).send("the server", [&] { return HttpRequest{.url = url}; }).status;
  };
  const auto begun = Clock::now();
  EXPECT_CONTAINS(user_error(ExitCode::kData, ask_it),
                  "; SSL_CERT_FILE names the file of the certificates that are trusted");
  EXPECT_LT(seconds_since(begun), kQuick.deadline_seconds) << "it was asked again";
  const ScopedEnvironment none("SSL_CERT_FILE", folder_ / "none.pem");
  EXPECT_CONTAINS(user_error(ExitCode::kData, ask_it), "SSL_CERT_FILE");
  const ScopedEnvironment trusted("SSL_CERT_FILE", pem + ".crt");
  EXPECT_EQ(ask_it(), 200);
}

TEST_F(Store, looks_for_certificates_where_other_distributions_keep_them) {
  const ScopedEnvironment not_named("SSL_CERT_FILE", "");
  const std::string here = folder_ / "here.pem", none = folder_ / "none.pem";
  put_text(here, "");
  using Paths = std::vector<std::string>;
  EXPECT_EQ(certificates_to_trust(Paths{here}, Paths{here}), "") << "libcurl's own are there";
  EXPECT_EQ(certificates_to_trust(Paths{none}, Paths{none, here}), here);
  EXPECT_EQ(certificates_to_trust(Paths{}, Paths{none}), "");
  const ScopedEnvironment named("SSL_CERT_FILE", none);
  EXPECT_EQ(certificates_to_trust(Paths{here}, Paths{here}), none);
}

class Copies : public Store {
 protected:
  std::string copy(const std::string& address) { return local_copy(address, {.patience = kQuick}); }
};

TEST_F(Copies, are_files_as_objects_were) {
  put("photos/cat/1.jpg", "cat");
  put("photos/dog/2.jpg", "dog");
  put("photos/dog/", "");
  put("photos2/x", "other");
  const std::filesystem::path photos = copy("s3://data/photos");
  EXPECT_EQ(photos.filename(), "photos");
  EXPECT_EQ(file_text(photos / "cat/1.jpg"), "cat");
  EXPECT_EQ(file_text(photos / "dog/2.jpg"), "dog");
  EXPECT_FALSE(std::filesystem::exists(photos.parent_path() / "photos2"));
  EXPECT_EQ(file_text(copy("s3://data/photos2/x")), "other");
  EXPECT_EQ(file_text(std::filesystem::path(copy("s3://data")) / "photos2/x"), "other");
  put("shards/a-0.tar", "0");
  put("shards/a-1.tar", "1");
  const std::filesystem::path pattern = copy("s3://data/shards/a-{0..1}.tar");
  EXPECT_EQ(pattern.filename(), "a-{0..1}.tar");
  EXPECT_EQ(file_text(pattern.parent_path() / "a-1.tar"), "1");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { copy("s3://data/nothing"); }),
                  "there is no object of this name, and none below it");
}

TEST_F(Copies, are_made_anew_only_where_objects_changed) {
  put("d/a", "first");
  put("d/b", "second");
  const std::filesystem::path d = copy("s3://data/d");
  const std::int64_t before = requests();
  copy("s3://data/d");
  EXPECT_EQ(requests() - before, 1);  // the list
  put("d/a", "FIRST");
  open()->remove("d/b");
  put_text(d / "b", "of somebody else");
  copy("s3://data/d");
  EXPECT_EQ(file_text(d / "a"), "FIRST");
  EXPECT_FALSE(std::filesystem::exists(d / "b"));
  put_text(d / "a", "touch");  // as long as it was
  copy("s3://data/d");
  EXPECT_EQ(file_text(d / "a"), "FIRST");
}

TEST_F(Copies, of_large_objects_are_read_in_parts) {
  const std::string bytes = large_bytes(35);
  put("large", bytes);
  fault("slow");
  EXPECT_TRUE(file_text(copy("s3://data/large")) == bytes);
}

TEST_F(Copies, are_not_taken_from_damaged_bytes) {
  put("d/a", "some bytes");
  open()->list("");
  // The list comes first.
  fault("slow");
  fault("corrupt");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { copy("s3://data/d"); }),
                  "s3://data/d/a: the bytes that arrived have the MD5 ");
  EXPECT_EQ(file_text(std::filesystem::path(copy("s3://data/d")) / "a"), "some bytes");
}

TEST_F(Copies, keep_within_the_limit) {
  put("old/a", std::string(600, 'a'));
  put("new/b", std::string(600, 'b'));
  const std::filesystem::path old_copy = copy("s3://data/old");
  const CopyOptions small{.patience = kQuick, .limit_bytes = 1000};
  const std::filesystem::path new_copy = local_copy("s3://data/new", small);
  EXPECT_TRUE(std::filesystem::exists(new_copy / "b"));
  EXPECT_FALSE(std::filesystem::exists(old_copy / "a"));
  put("new/c", std::string(600, 'c'));
  EXPECT_CONTAINS(
      user_error(ExitCode::kData, [&] { local_copy("s3://data/new", small); }),
      "its 2 objects have 1.17 KiB, and copies may take 1000 B; raise PODIUM_CACHE_LIMIT");
}

TEST_F(Copies, stop_on_request) {
  put("d/a", std::string(1000, 'x'));
  std::atomic<int> request{0};
  stop_copies_at(&request);
  fault("503", 1000);
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    request = 2;
  });
  EXPECT_THROW(local_copy("s3://data/d", {.stop = StopToken(&request)}), Stopped);
  user.join();
  fault("none");
  EXPECT_THROW(local_path("s3://data/d"), Stopped);
  stop_copies_at(nullptr);
  EXPECT_EQ(file_text(std::filesystem::path(local_path("s3://data/d")) / "a").size(), 1000U);
}

TEST_F(Copies, stay_in_their_folder) {
  for (const char* key : {"d/../../x", "d//x", "d/./x"}) {
    SCOPED_TRACE(key);
    put(key, "x");
    EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { copy("s3://data/d"); }),
                    "the key is no path of a file");
    open()->remove(key);
  }
}

TEST_F(Copies, of_a_file_on_the_web) {
  put("rows.csv", "a,b\n1,2\n", "public");
  const std::string address = endpoint() + "/public/rows.csv";
  EXPECT_EQ(file_text(copy(address)), "a,b\n1,2\n");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { copy(endpoint() + "/public/none.csv"); }),
                  "there is no object of this name");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { open(address)->write("rows.csv", "x", {}); }),
                  "can only be read");
}

}  // namespace
}  // namespace podium
