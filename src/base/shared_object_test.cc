#include "base/shared_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

std::string why(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  const SharedObject object = load_shared_object(path);
  EXPECT_EQ(object.handle, nullptr);
  return object.problem;
}

// The head of a shared object, little endian, of 64 bits.
std::string head(int machine) {
  std::string bytes(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  bytes.resize(64);
  bytes[16] = 3;
  bytes[18] = static_cast<char>(machine & 255);
  bytes[19] = static_cast<char>(machine >> 8);
  return bytes;
}

TEST(SharedObject, of_another_machine_is_named_as_such) {
  const TestFolder folder;
  EXPECT_NE(why(folder / "x.so", head(22)).find("it was built for IBM Z, and this machine is "),
            std::string::npos);
  EXPECT_NE(why(folder / "y.so", head(4711)).find("built for machine 4711 of ELF"),
            std::string::npos);
}

TEST(SharedObject, that_is_none_is_described_in_the_systems_words) {
  const TestFolder folder;
  for (const std::string& bytes : {std::string(), std::string("text"), head(22).substr(0, 19)}) {
    const std::string words = why(folder / "x.so", bytes);
    EXPECT_EQ(words.find("it was built for"), std::string::npos) << words;
    EXPECT_NE(words.find("x.so"), std::string::npos) << words;
  }
}

// A library that every machine has, cut anywhere: never a crash, and words from where its segments
// begin on.
TEST(SharedObject, that_is_cut_short_is_refused_unloaded) {
  const TestFolder folder;
  Dl_info info{};
  ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, "dlopen"), &info), 0);
  std::ifstream file(info.dli_fname, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 4096u);
  for (const std::size_t size :
       {whole.size() - 1, whole.size() / 2, std::size_t{4096}, std::size_t{200}, std::size_t{64}}) {
    const std::string words = why(folder / "cut.so", whole.substr(0, size));
    EXPECT_NE(words.find("it is cut short"), std::string::npos) << size << ": " << words;
  }
}

}  // namespace
}  // namespace podium
