#include "tests/cli/run_podium.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace podium::test {
namespace {

namespace fs = std::filesystem;

std::string output_name(pid_t process, const char* stream) {
  return std::string(".") + stream + "-" + std::to_string(process);
}

void redirect(const std::string& file, int descriptor) {
  const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || dup2(opened, descriptor) < 0) _exit(126);
  close(opened);
}

}  // namespace

pid_t CommandLine::start(const std::vector<std::string>& words, const RunOptions& options) const {
  std::vector<std::string> all = {PODIUM_PROGRAM};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const std::string recipes = (fs::current_path() / "recipes").string();
  const std::string prices = (fs::current_path() / "prices").string();
  const std::string devices = (fs::current_path() / "devices").string();
  const pid_t process = fork();
  if (process != 0) return process;
  if (chdir(folder_.path().c_str()) != 0) _exit(126);
  redirect(output_name(getpid(), "out"), STDOUT_FILENO);
  redirect(output_name(getpid(), "err"), STDERR_FILENO);
  if (options.nobody_reads) {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
  }
  if (options.ignore_hangup) signal(SIGHUP, SIG_IGN);
  if (!options.stdout_file.empty()) {
    const int file = open(options.stdout_file.c_str(), O_WRONLY);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) _exit(126);
    close(file);
  }
  if (options.closed_stdout) close(STDOUT_FILENO);
  if (options.thread_stack_bytes != 0) {
    const rlimit limit = {options.thread_stack_bytes, RLIM_INFINITY};
    if (setrlimit(RLIMIT_STACK, &limit) != 0) _exit(126);
  }
  setenv("PODIUM_RECIPES", recipes.c_str(), 1);
  setenv("PODIUM_PRICES", prices.c_str(), 1);
  setenv("PODIUM_DEVICES", devices.c_str(), 1);
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  unsetenv("PODIUM_DATA");
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.most_file_bytes != 0) {
    const rlimit limit = {options.most_file_bytes, options.most_file_bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
  }
  execv(arguments[0], arguments.data());
  _exit(127);
}

Outcome CommandLine::wait_for(pid_t process) const {
  int status = 0;
  waitpid(process, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          file_text(folder_ / output_name(process, "out")),
          file_text(folder_ / output_name(process, "err"))};
}

std::string CommandLine::talk_of(pid_t process) { return output_name(process, "err"); }

bool CommandLine::wait_for_output(pid_t process, const std::string& name,
                                  const std::string& part) const {
  siginfo_t ended = {};
  const auto is_there = [&] {
    const std::string text = read(name);
    return !text.empty() && text.find(part) != std::string::npos;
  };
  while (!is_there()) {
    // WNOWAIT leaves the outcome for wait_for().
    ended.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid != 0)
      return false;
    usleep(20000);
  }
  return true;
}

Outcome CommandLine::podium(const std::vector<std::string>& words,
                            const RunOptions& options) const {
  return wait_for(start(words, options));
}

std::vector<std::string> CommandLine::train_small(const std::string& out,
                                                  const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "train",    "glyphs",     "train_examples=256", "test_examples=100",
      "batch=32", "replicas=4", "epochs=2",           "--out",
      out};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string CommandLine::read(const std::string& name) const { return file_text(folder_ / name); }

void CommandLine::write(const std::string& name, const std::string& text) const {
  fs::create_directories((folder_ / name).parent_path());
  std::ofstream(folder_ / name, std::ios::binary) << text;
}

double children_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void expect_refusal(const Outcome& outcome, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "\"" << part << "\" is not said in:\n"
                                                         << outcome.err;
  }
}

}  // namespace podium::test
