#include "store/signature.h"

#include <gtest/gtest.h>

#include "store/credentials.h"

namespace podium {
namespace {

// The example of Amazon's documentation, with the signature that it states.
TEST(Signature, is_that_of_the_published_example) {
  const S3Credentials credentials{"AKIAIOSFODNN7EXAMPLE",
                                  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", ""};
  const SignedRequest request{
      .method = "GET",
      .host = "examplebucket.s3.amazonaws.com",
      .path = "/test.txt",
      .query = {},
      .headers = {{"range", "bytes=0-9"}},
      .payload_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
  const std::vector<std::string> headers =
      signed_headers(request, credentials, "us-east-1", "20130524T000000Z");
  EXPECT_EQ(headers.back(),
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, sorts_the_encoded_parameters) {
  EXPECT_EQ(query_text({{"prefix", "a b/"}, {"list-type", "2"}, {"delete", ""}}),
            "delete=&list-type=2&prefix=a%20b%2F");
}

TEST(Profile, has_the_keys_of_its_section_alone) {
  const std::string text =
      "# mine\n[default]\naws_access_key_id = A\n\n[ work ]\naws_access_key_id=B\nregion = eu\n"
      "[profile far]\nregion = ap\n";
  EXPECT_EQ(profile_in(text, "work"),
            (std::map<std::string, std::string>{{"aws_access_key_id", "B"}, {"region", "eu"}}));
  EXPECT_EQ(profile_in(text, "far").at("region"), "ap");
  EXPECT_TRUE(profile_in(text, "other").empty());
}

}  // namespace
}  // namespace podium
