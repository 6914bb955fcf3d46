#include "files/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace podium {

ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options,
                       const std::string& remedy) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> text = {-1, -1};
  if (options.keep_text)
    PODIUM_REQUIRE(pipe2(text.data(), O_CLOEXEC) == 0, ExitCode::kUsage, words.front(),
                   ": cannot be started: ", std::strerror(errno), remedy);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!options.input.empty())
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, options.input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, options.keep_text ? text[1] : STDERR_FILENO,
                                   STDOUT_FILENO);
  if (options.keep_text) posix_spawn_file_actions_adddup2(&actions, text[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  struct sigaction ignored = {}, before = {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignored, &before);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ProgramEnd end;
  if (options.keep_text) {
    close(text[1]);
    std::array<char, 4096> part;
    while (error == 0) {
      const ssize_t count = read(text[0], part.data(), part.size());
      if (count > 0) end.text.append(part.data(), static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) break;
    }
    close(text[0]);
  }
  int status = 0;
  if (error == 0) {
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
  }
  sigaction(SIGINT, &before, nullptr);
  PODIUM_REQUIRE(error == 0, ExitCode::kUsage, words.front(),
                 ": cannot be started: ", std::strerror(error), remedy);
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace podium
