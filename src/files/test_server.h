// For tests of what is fetched: runs a server of ours in Python, which has chosen faults.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"

extern char** environ;

namespace podium::test_files {

// The server, until the object goes away. No python3: port() is 0.
class Server {
 public:
  // `path` is that of the script in the tree.
  explicit Server(const std::string& path, const std::string& argument = "") {
    int to_server[2];
    int from_server[2];
    if (::pipe2(to_server, O_CLOEXEC) != 0 || ::pipe2(from_server, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to_server[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, from_server[1], 1);
    // Tests run in the root of the tree.
    const std::string script = std::filesystem::absolute(path).string();
    EXPECT_TRUE(std::filesystem::is_regular_file(script)) << script;
    const char* const arguments[] = {"python3", script.c_str(), argument.c_str(), nullptr};
    if (::posix_spawnp(&process_, "python3", &actions, nullptr, const_cast<char**>(arguments),
                       environ) != 0) {
      process_ = 0;
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to_server[0]);
    ::close(from_server[1]);
    input_ = to_server[1];
    std::string line;
    for (char c = 0; process_ != 0 && ::read(from_server[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(from_server[0]);
    port_ = line.empty() ? 0 : std::stoi(line);
  }
  ~Server() {
    ::close(input_);
    if (process_ != 0) ::waitpid(process_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int port() const { return port_; }
  std::string address(const std::string& path) const {
    return cat("http://127.0.0.1:", port_, "/", path);
  }

 private:
  pid_t process_ = 0;
  int input_ = -1;
  int port_ = 0;
};

}  // namespace podium::test_files
