#include "store/address.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

TEST(Address, names_scheme_bucket_and_key) {
  const ObjectAddress address = parse_address("s3://photos/train/shard-{000..146}.tar");
  EXPECT_EQ(address.scheme, "s3");
  EXPECT_EQ(address.bucket, "photos");
  EXPECT_EQ(address.key, "train/shard-{000..146}.tar");
  EXPECT_EQ(address.text(), "s3://photos/train/shard-{000..146}.tar");
  EXPECT_EQ(parse_address("s3://photos").key, "");
  EXPECT_EQ(parse_address("https://host:81/a/b.csv?x=1").bucket, "host:81");
  EXPECT_EQ(parse_address("https://host:81/a/b.csv?x=1").key, "a/b.csv?x=1");
}

TEST(Address, is_no_path_of_a_file) {
  for (const char* path : {"s3:/photos", "/s3://x", "S3://photos", "photos", "s3", ""})
    EXPECT_FALSE(is_remote(path)) << path;
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { parse_address("s3:///key"); }),
                  "names no bucket; write s3://BUCKET/KEY");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { parse_address("s3://a b/key"); }),
                  "\"a b\" is no bucket");
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [] { parse_address("https://host"); }),
                  "names no file");
}

TEST(Address, is_percent_encoded_byte_by_byte) {
  EXPECT_EQ(percent_encoded("a b/ü~+%", false), "a%20b%2F%C3%BC~%2B%25");
  EXPECT_EQ(percent_encoded("a b/c", true), "a%20b/c");
}

}  // namespace
}  // namespace podium
