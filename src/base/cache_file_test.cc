#include "base/cache_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

TEST(CacheFile, is_read_as_it_was_kept_and_replaced_whole) {
  const TestFolder folder;
  const std::string path = (folder / "new" / "deeper" / "file").string();
  EXPECT_FALSE(read_cache_file(path).has_value());
  const std::string bytes("a\0b\n", 4);
  EXPECT_TRUE(keep_cache_file(path, bytes));
  EXPECT_EQ(read_cache_file(path), bytes);
  EXPECT_TRUE(keep_cache_file(path, ""));
  EXPECT_EQ(read_cache_file(path), "");
  const auto entries = std::filesystem::directory_iterator(folder / "new" / "deeper");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "something was left beside it";
}

TEST(CacheFile, that_cannot_be_kept_leaves_nothing_behind) {
  const TestFolder folder;
  put_text(folder / "file", "no folder");
  EXPECT_FALSE(keep_cache_file((folder / "file" / "below").string(), "x"));
  std::filesystem::create_directories(folder / "taken" / "inside");
  EXPECT_FALSE(keep_cache_file((folder / "taken").string(), "x"));
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2);
  EXPECT_FALSE(read_cache_file((folder / "taken").string()).has_value());
}

}  // namespace
}  // namespace podium
