#include "cli/signals.h"

#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/sanitizers.h"
#include "cli/talk.h"
#include "store/local_copy.h"

namespace podium {
namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may write it");
sem_t noted;

extern "C" void note_request(int signal) {
  const int error = errno;
  requested.store(signal);
  struct sigaction end = {};
  end.sa_handler = SIG_DFL;
  sigaction(SIGINT, &end, nullptr);
  sem_post(&noted);
  errno = error;
}

std::string name_of(int signal) {
  switch (signal) {
    case SIGINT: return "Ctrl-C";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    default: return "SIGUSR1";
  }
}

// A handler may not write through the log, and the step under way may take long: a thread says it.
void tell() {
  while (sem_wait(&noted) != 0) {
  }
  const int signal = requested.load();
  if (signal == 0) return;  // the program ends
  say(cat(name_of(signal), ": stopping; a run saves after the current step. Ctrl-C",
          signal == SIGINT ? " again" : "", " ends it at once, without saving"));
}

bool hangup_was_ignored = false;

void note_hangup() {
  // The system call itself, since no library is initialised yet. It writes the handler first.
  std::array<std::uintptr_t, 8> action = {};
  constexpr std::size_t kMaskBytes = 8;
  if (syscall(SYS_rt_sigaction, SIGHUP, nullptr, action.data(), kMaskBytes) == 0)
    hangup_was_ignored = action[0] == reinterpret_cast<std::uintptr_t>(SIG_IGN);
}

// Sanitizers allow nothing as early as this.
#if !defined(PODIUM_ADDRESS_SANITIZER) && !defined(PODIUM_THREAD_SANITIZER)
// As nohup left it: UCX, which some MPIs bring, catches SIGHUP when it is loaded, before main().
[[gnu::section(".preinit_array"), gnu::used]] void (*const kNotedHangup)() = note_hangup;
#endif

class Listener {
 public:
  Listener();
  // When the program ends, the log must outlive the thread that writes to it.
  ~Listener() {
    sem_post(&noted);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

Listener::Listener() {
#if defined(PODIUM_ADDRESS_SANITIZER) || defined(PODIUM_THREAD_SANITIZER)
  note_hangup();
#endif
  sem_init(&noted, 0, 0);
  try {
    thread_ = std::thread(tell);
  } catch (const std::system_error&) {
    // The system starts no further thread: the run stops all the same, and says so when it has.
  }
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    struct sigaction action = {};
    action.sa_handler = signal == SIGHUP && hangup_was_ignored ? SIG_IGN : note_request;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
  stop_copies_at(&requested);
}

}  // namespace

const std::atomic<int>* stop_request() {
  static const Listener listener;
  return &requested;
}

}  // namespace podium
