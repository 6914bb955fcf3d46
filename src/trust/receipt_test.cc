#include "trust/receipt.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_test_util.h"

namespace podium {
namespace {

Receipt some_receipt() {
  Receipt receipt;
  receipt.podium = "0.1.0", receipt.date = "2026-01-01T00:00:00Z", receipt.recipe = "mnist";
  receipt.kind = "exact fp32", receipt.contract = 3, receipt.steps = 7;
  receipt.files = {{"recipe.toml", 12, "ab"}, {"checkpoints/step-1/state.safetensors", 9, "cd"}};
  return receipt;
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    parse_receipt(text, "r.json");
    FAIL() << text;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("r.json: " + part), std::string::npos) << error.what();
  }
}

std::string with(std::string text, const std::string& before, const std::string& after) {
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, before.size(), after);
}

TEST(Receipt, is_read_as_it_was_written) {
  const Receipt receipt = some_receipt();
  const Receipt read = parse_receipt(receipt_text(receipt), "r.json");
  EXPECT_EQ(read.files, receipt.files);
  EXPECT_EQ(receipt_text(read), receipt_text(receipt));
}

TEST(Receipt, that_is_not_one_is_refused) {
  const std::string text = receipt_text(some_receipt());
  expect_refused("", "it cannot be read");
  expect_refused("{}", "it is no receipt");
  expect_refused("[1]", "it is no receipt");
  expect_refused(text.substr(0, text.size() / 2), "it cannot be read");
  expect_refused(with(text, "\"version\": 1", "\"version\": 2"), "it is a receipt of version 2");
  expect_refused(with(text, "recipe.toml", "../recipe.toml"), "\"../recipe.toml\" is not a path");
  expect_refused(with(text, "recipe.toml", "/etc/passwd"), "\"/etc/passwd\" is not a path");
  expect_refused(with(text, "\"bytes\": 12", "\"bytes\": \"x\""), "it cannot be read");
}

// The values are those of a few lines of Python with hashlib (docs/trust.md).
TEST(Receipt, roots_are_those_of_other_programs) {
  EXPECT_EQ(merkle_root({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(merkle_root({""}), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  EXPECT_EQ(merkle_root({"a", "b", "c"}),
            "36642e73c2540ab121e3a6bf9545b0a24982cd830eb13d3cd19de3ce6c021ec1");
}

}  // namespace
}  // namespace podium
