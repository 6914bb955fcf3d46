// For tests: a folder of their own, errors that must come, and Python where it is there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace podium {

// An empty folder, removed with all that is in it.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "podium-test-XXXXXX").string();
    PODIUM_CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The text of the UserError with this code that `action` must throw; empty, with a failure, where
// it throws none.
template <typename Action>
std::string user_error(ExitCode code, const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no UserError";
  return {};
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "expected \"" << (part) << "\" in: " << (text)

// PODIUM_PYTHON, or python3.
inline std::string python() {
  const char* named = std::getenv("PODIUM_PYTHON");
  return named != nullptr ? named : "python3";
}

inline bool python_has(const std::string& module) {
  return std::system((python() + " -c 'import " + module + "' >/dev/null 2>&1").c_str()) == 0;
}

// Runs a script with one argument; its stdout goes to `output`. True for exit 0.
inline bool run_python(const std::string& script, const std::filesystem::path& argument,
                       std::string* output) {
  const TestFolder folder;
  put_text(folder / "script.py", script);
  const std::string command = python() + " " + (folder / "script.py").string() + " '" +
                              argument.string() + "' >" + (folder / "out").string();
  const bool done = std::system(command.c_str()) == 0;
  *output = file_text(folder / "out");
  return done;
}

}  // namespace podium
