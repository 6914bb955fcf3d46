#include "backend/pjrt/program_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/log.h"
#include "base/scratch_test_util.h"

namespace podium::pjrt {
namespace {

class ProgramCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, const std::string& line) { talk_ += line + "\n"; });
  }
  void TearDown() override { set_log_sink({}); }

  std::string folder() const { return (folder_ / "programs").string(); }

  TestFolder folder_;
  std::string talk_;
};

TEST_F(ProgramCacheTest, a_program_is_found_by_its_module_and_its_maker) {
  const ProgramCache cache(folder(), "maker");
  EXPECT_FALSE(cache.find("module").has_value());
  const std::string program("\0bytes\n", 7);
  cache.keep("module", program);
  cache.keep("other", "");
  EXPECT_EQ(cache.find("module"), program);
  EXPECT_EQ(cache.find("other"), "");
  EXPECT_FALSE(ProgramCache(folder(), "another").find("module").has_value());
  EXPECT_EQ(talk_, "");
}

TEST_F(ProgramCacheTest, a_damaged_or_foreign_file_is_passed_over_with_a_line_and_written_anew) {
  const ProgramCache cache(folder(), "maker");
  cache.keep("module", "program");
  const std::string path = cache.path_of("module"), whole = file_text(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ 4);
    put_text(path, text);
    EXPECT_FALSE(cache.find("module").has_value()) << "byte " << at;
    put_text(path, whole.substr(0, at));
    EXPECT_FALSE(cache.find("module").has_value()) << "cut to " << at;
  }
  EXPECT_CONTAINS(talk_, path + ": is damaged");
  EXPECT_CONTAINS(talk_, "compiled anew");
  cache.keep("other", "another program");
  std::filesystem::copy_file(cache.path_of("other"), path,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.find("module").has_value());
  EXPECT_CONTAINS(talk_, path + ": is of another program");
  cache.keep("module", "program");
  EXPECT_EQ(cache.find("module"), "program");
}

TEST_F(ProgramCacheTest, the_environment_names_the_folder_or_none) {
  setenv("PODIUM_PJRT_CACHE", folder().c_str(), 1);
  ProgramCache::of_environment("maker").keep("module", "program");
  EXPECT_EQ(ProgramCache(folder(), "maker").find("module"), "program");
  setenv("PODIUM_PJRT_CACHE", "", 1);
  EXPECT_FALSE(ProgramCache::of_environment("maker").keeps());
  unsetenv("PODIUM_PJRT_CACHE");
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  ProgramCache::of_environment("maker").keep("module", "program");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "podium" / "programs"));
}

TEST_F(ProgramCacheTest, what_cannot_be_kept_is_said) {
  put_text(folder_ / "programs", "a file in the place of the folder");
  const ProgramCache cache(folder(), "maker");
  cache.keep("module", "program");
  EXPECT_CONTAINS(talk_, "could not be kept");
  EXPECT_FALSE(cache.find("module").has_value());
}

}  // namespace
}  // namespace podium::pjrt
