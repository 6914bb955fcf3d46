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
#include "base/host_name.h"
#include "base/log.h"
#include "parallel/failure_record.h"
#include "parallel/transport.h"

namespace podium {

// Lies in memory that both processes see. Pointers to literals mean the same in both.
struct RankGuard::Page {
  std::atomic<std::int64_t> step{0};
  std::atomic<const char*> doing{""};
  std::atomic<std::uint64_t> pulse{0};
  std::atomic<bool> explained{false}, spoken{false};
  std::atomic<bool> is_marked{false};         // the guard has been told that its rank has spoken
  std::atomic<bool> is_started{false};        // MPI
  std::atomic<bool> is_told{false};           // the guard
  std::atomic<int> signal{0}, exit_code{-1};  // that ended the rank early
  double timeout = 0;
  bool kills_at_once = false;
  pid_t rank = 0, launcher = 0;
  int ranks = 1;
  std::array<char, 200> name = {};
  std::array<char, 300> remedy = {};

  // Filled once, before it is set.
  struct Text {
    std::atomic<bool> is_claimed{false}, is_set{false};
    std::array<char, 640> why = {};
    int heard = 0;
    void set(const char* text, int of) {
      if (is_claimed.exchange(true)) return;
      std::snprintf(why.data(), why.size(), "%s", text);
      heard = of;
      is_set.store(true);
    }
  };
  Text ended;     // why the run ends: for the folder
  Text prepared;  // why, if it is the launcher that ends this rank; and what another rank prepared:
  Text heard_of;

  std::atomic<bool> has_folder{false};
  std::array<char, 1024> folder = {};
  std::array<char, 64> lock = {};
  std::int64_t recorded_before = 0;  // bytes of earlier starts

  void say(const char* what);
  void say_whole(const char* why, int of);
  bool owns_folder() const;
  void say_prepared();
  void record() const;
  void speak_at_end(bool is_told_now);
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

// Until the run hears requests to stop, these end it.
constexpr std::array kEnding = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
std::atomic<int>* ended_by = nullptr;
pid_t rank_process = 0;

extern "C" void note_ending(int signal) {
  if (ended_by != nullptr && getpid() == rank_process) ended_by->store(signal);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: return "SIGUSR2";
  }
}

// --- in the guard ---

volatile sig_atomic_t told = 0, told_to_go_on = 0, told_to_end = 0;
extern "C" void note_told(int signal) {
  told = 1;
  (signal == SIGCONT ? told_to_go_on : told_to_end) = 1;
}

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
  std::array<char, 480> why;
  std::array<char, 32> number = {};
  const std::int64_t at = step.load();
  const char* const now = doing.load();
  std::snprintf(number.data(), number.size(), ", step %lld", static_cast<long long>(at));
  std::snprintf(why.data(), why.size(), "%s%s%s%s%s: %s", name.data(),
                at > 0 ? number.data() : ", before step 1", *now == '\0' ? "" : " (", now,
                *now == '\0' ? "" : ")", what);
  say_whole(why.data(), ranks);
}

void RankGuard::Page::say_whole(const char* why, int of) {
  if (explained.exchange(true)) return;
  spoken.store(true);
  ended.set(why, of);
  std::array<char, 700> line;
  const int length = std::snprintf(line.data(), line.size(), "podium: %s; the run ends\n", why);
  say_line(line.data(), std::min(length, static_cast<int>(line.size()) - 1));
}

// --- in the guard ---

bool RankGuard::Page::owns_folder() const {
  if (!has_folder.load()) return false;
  std::array<char, 64> text = {};
  const int file = open(cat(folder.data(), "/.lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  static_cast<void>(!read(file, text.data(), text.size() - 1));
  close(file);
  return std::strcmp(text.data(), lock.data()) == 0;
}

// Unless the folder says better: a lost rank's own guard does, where it can.
void RankGuard::Page::say_prepared() {
  if (owns_folder() && most_heard(folder.data(), recorded_before) > prepared.heard) {
    explained.store(true);
  } else {
    say_whole(prepared.why.data(), prepared.heard);
  }
}

void RankGuard::Page::record() const {
  if (!ended.is_set.load() || !owns_folder()) return;
  if (most_heard(folder.data(), recorded_before) >= ended.heard) return;
  record_failure(folder.data(), step.load(), ended.why.data(), ended.heard);
}

// The rank has ended.
void RankGuard::Page::speak_at_end(bool is_told_now) {
  if (explained.load()) return;
  const int code = exit_code.load();
  if (!is_started.load() && code >= 0) {
    if (!is_first(launcher)) return;  // it is the same with all of them
    std::array<char, 440> text;
    std::snprintf(text.data(), text.size(),
                  "MPI could not start, for the reason above (exit code %d); %s", code,
                  remedy.data());
    say(text.data());
  } else if (is_told_now) {
    if (prepared.is_set.load()) say_prepared();
    if (heard_of.is_set.load()) ended.set(heard_of.why.data(), heard_of.heard);
  } else if (const int by = signal.load(); by != 0) {
    std::array<char, 100> text;
    std::snprintf(text.data(), text.size(),
                  "%s ended it, from outside, before it heard requests to stop", name_of(by));
    say(text.data());
  } else if (!is_started.load()) {
    std::array<char, 440> text;
    std::snprintf(text.data(), text.size(),
                  "MPI did not start: if it says why above, %s; if it says nothing, the process "
                  "was killed from outside (SIGKILL)",
                  remedy.data());
    if (is_first(launcher)) say(text.data());
  } else if (!kills_at_once || is_first(launcher)) {
    say("it was killed from outside (SIGKILL: by a user, or by the kernel because memory ran out)");
  }
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
    const int changed = poll(&end, 1, page.is_told.load() ? 50 : 250);
    // Time in which this process itself was stopped counts little.
    const double passed = std::min(seconds_since(last), 1.0);
    last = Clock::now();
    told_ago += passed;
    if (told != 0) {
      told = 0;
      told_ago = 0;
    } else if (told_ago >= kToldSeconds) {
      told_to_go_on = 0;
      told_to_end = 0;
    }
    page.is_told.store(told_ago < kToldSeconds);
    if (told_to_end != 0) setpgid(0, 0);  // to outlive what the launcher does next
    // One of them alone may have come from elsewhere: a request to stop, or a stopped job's "fg".
    if (told_to_go_on != 0 && told_to_end != 0 && page.prepared.is_set.load()) page.say_prepared();
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
                    "its communication has made no progress for %.0f s: it is stopped or hangs, "
                    "and is killed",
                    page.timeout + kGrace);
      page.say(text.data());
      kill(page.rank, SIGKILL);
      still = 0;
    }
  }
  page.speak_at_end(told_ago < kToldSeconds);
  page.record();
  // Keeps the name while the others are killed, for which the launcher may await the end of output.
  close(STDERR_FILENO);
  if ((page.kills_at_once || !page.is_started.load()) && page.spoken.load()) sleep(1);
  _exit(0);
}

RankGuard::RankGuard(double timeout, bool kills_at_once, const std::string& remedy) {
  void* const memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  page_ = new (memory) Page;
  page_->timeout = timeout;
  page_->kills_at_once = kills_at_once;
  page_->rank = getpid();
  page_->launcher = getppid();
  std::snprintf(page_->name.data(), page_->name.size(), "process %d on host %s",
                static_cast<int>(getpid()), host_name().c_str());
  std::snprintf(page_->remedy.data(), page_->remedy.size(), "%s", remedy.c_str());
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
  ended_by = &page_->signal;
  rank_process = page_->rank;
  for (const int signal : kEnding) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = note_ending;
    sigaction(signal, &action, nullptr);
  }
  // A child of the rank may call exit(), too.
  on_exit(
      [](int status, void* argument) {
        auto* const exiting = static_cast<Page*>(argument);
        if (getpid() != exiting->rank || exiting->explained.load()) return;
        exiting->exit_code.store(status & 0xff);
        if (!exiting->is_started.load()) return;  // the guard speaks
        std::array<char, 100> text;
        std::snprintf(text.data(), text.size(), "it ended with exit code %d, before the others",
                      status & 0xff);
        if (say_of_rank != nullptr) say_of_rank(text.data());
      },
      page_);
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

void RankGuard::watch(const std::string& name, int ranks) {
  page_->ranks = ranks;
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
  page_->is_started.store(true);
}

void RankGuard::record_in(const std::string& folder, const std::string& lock) {
  if (folder.size() >= page_->folder.size() || lock.size() >= page_->lock.size()) return;
  std::snprintf(page_->folder.data(), page_->folder.size(), "%s", folder.c_str());
  std::snprintf(page_->lock.data(), page_->lock.size(), "%s", lock.c_str());
  page_->recorded_before = failure_bytes(folder);
  page_->has_folder.store(true);
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
bool RankGuard::is_told() const { return page_->is_told.load(); }
void RankGuard::prepare(const std::string& why, int heard) {
  page_->prepared.set(why.c_str(), heard);
}
void RankGuard::overhear(const std::string& why, int heard) {
  page_->heard_of.set(why.c_str(), heard);
}
void RankGuard::note(const std::string& why, int heard) { page_->ended.set(why.c_str(), heard); }

}  // namespace podium
