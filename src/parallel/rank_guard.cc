#include "parallel/rank_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "base/clock.h"
#include "base/log.h"
#include "parallel/transport.h"

namespace podium {

// Lies in memory that both processes see. Pointers to literals mean the same in both.
struct RankGuard::Page {
  std::atomic<std::int64_t> step{0};
  std::atomic<const char*> doing{""};
  std::atomic<std::uint64_t> pulse{0};
  std::atomic<bool> explained{false}, spoken{false};
  std::atomic<bool> is_marked{false};  // the guard has been told that its rank has spoken
  double timeout = 0;
  bool kills_at_once = false;
  pid_t rank = 0, launcher = 0;
  std::array<char, 200> name = {};

  void say(const char* what);
};

namespace {

constexpr std::array kDeadly = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
// For how long what the launcher tells a guard explains the end of its rank.
constexpr double kToldSeconds = 10;

const char* cause(int signal) {
  switch (signal) {
    case SIGSEGV: return "a segmentation fault (SIGSEGV) ended it";
    case SIGBUS: return "a bus error (SIGBUS) ended it";
    case SIGILL: return "an illegal instruction (SIGILL) ended it";
    case SIGFPE: return "an arithmetic error (SIGFPE) ended it";
    default: return "it aborted (SIGABRT)";
  }
}

// --- in the rank ---

void (*say_of_rank)(const char* what) = nullptr;
std::array<struct sigaction, kDeadly.size()> former;

extern "C" void note_deadly(int signal) {
  if (say_of_rank != nullptr) say_of_rank(cause(signal));
  // The former handler, or the default, does the rest.
  for (std::size_t i = 0; i < kDeadly.size(); ++i) {
    if (kDeadly[i] == signal) sigaction(signal, &former[i], nullptr);
  }
  raise(signal);
}

// --- in the guard ---

volatile sig_atomic_t told = 0;
extern "C" void note_told(int) { told = 1; }

// Of the guards of one launcher on this host, who asks first. A name holds for as long as the
// process that has it.
bool is_first(pid_t launcher) {
  const int mark = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                   "podium-guard-%d", static_cast<int>(launcher));
  return mark < 0 || bind(mark, reinterpret_cast<const sockaddr*>(&address),
                          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
                              static_cast<socklen_t>(length)) == 0;
}

void say_line(const char* text, int length) {
  while (length > 0) {
    const ssize_t written = write(STDERR_FILENO, text, static_cast<std::size_t>(length));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    length -= static_cast<int>(written);
  }
}

}  // namespace

// Called in signal handlers: nothing here allocates.
void RankGuard::Page::say(const char* what) {
  if (explained.exchange(true)) return;
  spoken.store(true);
  std::array<char, 512> line;
  std::array<char, 32> number = {};
  const std::int64_t at = step.load();
  const char* const now = doing.load();
  std::snprintf(number.data(), number.size(), ", step %lld", static_cast<long long>(at));
  const int length =
      std::snprintf(line.data(), line.size(), "podium: %s%s%s%s%s: %s; the run ends\n", name.data(),
                    at > 0 ? number.data() : ", before step 1", *now == '\0' ? "" : " (", now,
                    *now == '\0' ? "" : ")", what);
  say_line(line.data(), std::min(length, static_cast<int>(line.size()) - 1));
}

void RankGuard::guard(Page& page, int parent_pipe) {
  struct sigaction note = {}, ignore = {};
  note.sa_handler = note_told;
  for (const int signal : {SIGCONT, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    sigaction(signal, &note, nullptr);
  ignore.sa_handler = SIG_IGN;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP}) sigaction(signal, &ignore, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (page.kills_at_once) setpgid(0, 0);
  prctl(PR_SET_NAME, "podium-guard");
  // It must not hold open what belongs to the rank.
  dup2(parent_pipe, STDIN_FILENO);
  close(STDOUT_FILENO);
  syscall(SYS_close_range, 3U, ~0U, 0U);

  double told_ago = kToldSeconds, still = 0;
  std::uint64_t pulse = 0;
  auto last = Clock::now();
  for (;;) {
    pollfd end = {STDIN_FILENO, POLLIN, 0};
    const int changed = poll(&end, 1, 250);
    // Time in which this process itself was stopped counts little.
    const double passed = std::min(seconds_since(last), 1.0);
    last = Clock::now();
    told_ago += passed;
    if (told != 0) {
      told = 0;
      told_ago = 0;
    }
    if (changed > 0 && (end.revents & POLLIN) != 0) {
      // The rank is about to end, and has said why: nobody else of this launcher need speak.
      char byte = 0;
      if (read(STDIN_FILENO, &byte, 1) == 1) {
        if (page.kills_at_once) is_first(page.launcher);
        page.is_marked.store(true);
        continue;
      }
    }
    if (changed > 0) break;
    const std::uint64_t now = page.pulse.load();
    still = now == pulse ? still + passed : 0;
    pulse = now;
    if (pulse != 0 && still > page.timeout + kGrace) {
      std::array<char, 120> text;
      std::snprintf(text.data(), text.size(),
                    "its communication has stood still for %.0f s: stopped, or hung; it is killed",
                    page.timeout + kGrace);
      page.say(text.data());
      kill(page.rank, SIGKILL);
      still = 0;
    }
  }
  const bool speaks = !page.explained.load() && told_ago >= kToldSeconds;
  if (speaks && page.kills_at_once && !is_first(page.launcher)) _exit(0);
  if (speaks)
    page.say(
        "it was killed from outside (SIGKILL: by a person, or by the kernel for want of memory)");
  // Keeps the name while the others are killed, for which the launcher may await the end of output.
  close(STDERR_FILENO);
  if (page.kills_at_once && page.spoken.load()) sleep(1);
  _exit(0);
}

RankGuard::RankGuard(double timeout, bool kills_at_once) {
  void* const memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  page_ = new (memory) Page;
  page_->timeout = timeout;
  page_->kills_at_once = kills_at_once;
  page_->rank = getpid();
  page_->launcher = getppid();
  std::snprintf(page_->name.data(), page_->name.size(), "process %d", static_cast<int>(getpid()));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) == 0) {
    process_ = fork();
    if (process_ == 0) {
      close(ends[1]);
      guard(*page_, ends[0]);
    }
    close(ends[0]);
    pipe_ = ends[1];
  }
  if (process_ < 0) log(LogLevel::kWarning, "no process can be started to guard this rank");
}

RankGuard::~RankGuard() {
  expect_end();
  say_of_rank = nullptr;
  if (pipe_ >= 0) close(pipe_);
  if (process_ > 0) {
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  // The page stays: exit handlers may still look at it.
}

void RankGuard::watch(const std::string& name) {
  std::snprintf(page_->name.data(), page_->name.size(), "%s", name.c_str());
  static Page* page = nullptr;
  static int pipe = -1;
  page = page_;
  pipe = pipe_;
  say_of_rank = [](const char* what) {
    page->say(what);
    if (!page->kills_at_once || !page->spoken.load() || write(pipe, "", 1) != 1) return;
    // The launcher must have read that, and must not be faster than the guard.
    const timespec moment = {0, 1'000'000};
    for (int i = 0; i < 200 && (i < 50 || !page->is_marked.load()); ++i)
      nanosleep(&moment, nullptr);
  };
  struct sigaction action = {};
  action.sa_handler = note_deadly;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  for (std::size_t i = 0; i < kDeadly.size(); ++i) sigaction(kDeadly[i], &action, &former[i]);
  // A child of the rank may call exit(), too.
  on_exit(
      [](int status, void* argument) {
        auto* const exiting = static_cast<Page*>(argument);
        if (getpid() != exiting->rank || exiting->explained.load()) return;
        std::array<char, 100> text;
        std::snprintf(text.data(), text.size(), "it ended with exit code %d, before the others",
                      status & 0xff);
        if (say_of_rank != nullptr) say_of_rank(text.data());
      },
      page_);
}

void RankGuard::at(std::int64_t step, const char* doing) {
  page_->step.store(step);
  page_->doing.store(doing);
}

std::string RankGuard::place() const { return podium::place(page_->name.data(), step(), doing()); }
std::int64_t RankGuard::step() const { return page_->step.load(); }
const char* RankGuard::doing() const { return page_->doing.load(); }
void RankGuard::beat() { page_->pulse.fetch_add(1); }
void RankGuard::expect_end() { page_->explained.store(true); }

}  // namespace podium
