#include "base/shared_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

std::string why(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
  return why_not_loaded(path);
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

}  // namespace
}  // namespace podium
