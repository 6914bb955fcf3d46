#include "train/machine/environment.h"

#include <nlohmann/json.hpp>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

TEST(Environment, says_where_it_ran) {
  const Environment e = collect_environment({"podium", "train", "mnist"}, "avx2", 2);
  EXPECT_FALSE(e.cpu.empty());
  EXPECT_FALSE(e.compiler.empty());
  EXPECT_FALSE(e.podium_version.empty());
  EXPECT_FALSE(e.git_commit.empty());
  EXPECT_FALSE(e.hostname.empty());
  EXPECT_EQ(e.date.size(), std::string("2026-03-01T12:00:00Z").size());
  EXPECT_GE(e.cores, e.usable_cores);
  EXPECT_GE(e.usable_cores, 1);
  EXPECT_GT(e.memory_bytes, 1 << 20);
  EXPECT_GT(peak_memory_bytes(), 1 << 20);
  const std::int64_t before = resident_memory_bytes();
  EXPECT_GT(before, 1 << 20);
  std::vector<char> more(64 << 20, 1);
  EXPECT_NEAR(static_cast<double>(resident_memory_bytes() - before), 64 << 20, 4 << 20);
}

TEST(Environment, every_start_of_a_run_is_recorded) {
  const TestFolder folder;
  record_environment(folder.path(), collect_environment({"podium"}, "avx2", 2), 0);
  record_environment(folder.path(), collect_environment({"podium"}, "avx512", 3), 470);
  const auto json = nlohmann::json::parse(file_text(folder / "environment.json"));
  ASSERT_EQ(json["starts"].size(), 2u);
  EXPECT_EQ(json["starts"][0]["vector_target"], "avx2");
  EXPECT_EQ(json["starts"][1]["from_step"], 470);
  EXPECT_EQ(json["starts"][1]["workers"], 3);
  EXPECT_EQ(json["starts"][1]["command_line"][0], "podium");
}

TEST(Environment, a_damaged_record_is_begun_anew) {
  const TestFolder folder;
  put_text(folder / "environment.json", "{\"starts\": [");
  record_environment(folder.path(), collect_environment({}, "avx2", 1), 5);
  const auto json = nlohmann::json::parse(file_text(folder / "environment.json"));
  EXPECT_EQ(json["starts"].size(), 1u);
}

}  // namespace
}  // namespace podium
