#include "parallel/mpi_transport.h"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/progress.h"
#include "parallel/direct_help.h"
#include "parallel/host_transport.h"
#include "parallel/mpi_notices.h"
#include "parallel/rank_guard.h"
#include "parallel/rank_watch.h"

namespace podium {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr int kRankLost = static_cast<int>(ExitCode::kRankLost);

// Long messages travel in pieces: whoever receives one sees that the other is alive.
constexpr std::int64_t kPiece = std::int64_t{16} << 20;
// Beside the channels, which are tags of their own.
constexpr int kLifeTag = Transport::kChannels, kNoticeTag = kLifeTag + 1;

// How the communication thread waits. While a worker is blocked in wait(), its core is free: the
// thread looks again and again for a while. Otherwise it sleeps between looks, since all cores
// compute.
constexpr double kEagerSeconds = 0.005;
constexpr auto kShortSleep = std::chrono::microseconds(50);
constexpr auto kSleep = std::chrono::milliseconds(1);
constexpr double kLongSleepSeconds = 0.05;  // nothing is under way

// The others know the step of a rank that falls silent, unless it was as young as this.
constexpr double kNewStepSeconds = 0.1;

// Once a launcher's signal has come, signs of life are frequent for a while, and whoever gives none
// for kLostSeconds of it is what the run ends for, if it does (rank_guard.h).
constexpr double kToldIntervalSeconds = 0.05, kAliveSeconds = 0.65, kLostSeconds = 0.4;
// For so long after the signal it is the launcher that ends the run, if anybody.
constexpr double kLauncherSeconds = 2.5;

constexpr double kNoticeSeconds = 0.1;  // for others to say that they end the run
constexpr double kAbortSeconds = 2;     // for MPI_Abort, which may hang

class MpiTransport final : public HostTransport {
 public:
  MpiTransport(const Launcher& launcher, double timeout)
      : timeout_(timeout),
        guard_(timeout, launcher.variable == "PMI_SIZE", how_to_start()),
        watch_(0, 1, timeout) {
    started_.reserve(kChannels);
    posting_.reserve(kChannels);
    thread_ = std::thread([this, launcher] { run(launcher); });
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, Seconds(timeout), [&] { return is_ready_ || !refusal_.empty(); }))
      end_process(cat("this rank has waited for the others for ", timeout,
                      " s (--rank-timeout) at the start; not all ranks have started"),
                  kRankLost);
    if (refusal_.empty()) return;
    lock.unlock();
    thread_.join();
    throw UserError(refusal_);
  }

  ~MpiTransport() override {
    if (!has_left_) abort("it ended before the others", ExitCode::kInternal);
  }

  void at(std::int64_t step, const char* doing) override { guard_.at(step, doing); }
  void record_in(const std::string& folder, const std::string& lock) override {
    guard_.record_in(folder, lock);
  }

  [[noreturn]] void abort(const std::string& why, ExitCode code) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!abort_wanted_) {
        abort_text_ = why;
        abort_code_ = static_cast<int>(code);
        abort_wanted_ = true;
      }
    }
    work_.notify_one();
    for (;;) pause();  // the communication thread ends the process
  }

  bool call_library(const std::function<void()>& work) override {
    std::unique_lock lock(mutex_);
    call_ = &work;
    work_.notify_one();
    changed_.wait(lock, [&] { return call_ == nullptr; });
    return true;
  }

  bool has_left() const override { return has_left_; }
  void leave() override {
    if (has_left_) return;
    barrier();
    {
      const std::scoped_lock lock(mutex_);
      leaving_ = true;
    }
    work_.notify_one();
    thread_.join();
    has_left_ = true;
  }

 protected:
  void begin(int channel, std::span<const HostMessage> out,
             std::span<const HostMessage> in) override {
    {
      const std::scoped_lock lock(mutex_);
      Operation& operation = operations_[static_cast<std::size_t>(channel)];
      operation.out = out;
      operation.in = in;
      operation.pieces = 0;
      for (const HostMessage& message : out) operation.pieces += pieces_of(message.bytes);
      for (const HostMessage& message : in) operation.pieces += pieces_of(message.bytes);
      operation.ended = Clock::now();
      if (operation.pieces == 0) return;
      started_.push_back(channel);
    }
    work_.notify_one();
  }

  Clock::time_point finish(int channel) override {
    Operation& operation = operations_[static_cast<std::size_t>(channel)];
    std::unique_lock lock(mutex_);
    if (operation.pieces == 0) return operation.ended;
    operation.awaited_for = 0;
    operation.is_awaited = true;
    ++awaited_;
    work_.notify_one();
    changed_.wait(lock, [&] { return operation.pieces == 0; });  // or the process ends
    --awaited_;
    operation.is_awaited = false;
    return operation.ended;
  }

  bool finished(int channel) override {
    const std::scoped_lock lock(mutex_);
    return operations_[static_cast<std::size_t>(channel)].pieces == 0;
  }

 private:
  struct Operation {  // of a channel; under mutex_
    std::span<const HostMessage> out, in;
    std::int64_t pieces = 0;  // still under way
    Clock::time_point ended;  // when there were none any more
    bool is_awaited = false;
    double awaited_for = 0;  // without anything coming
  };
  struct Piece {
    int channel, rank;
    bool is_in;
  };
  struct Life {  // to or from one rank
    int rank = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    SignOfLife sign;
  };

  static std::int64_t pieces_of(std::int64_t bytes) { return (bytes + kPiece - 1) / kPiece; }

  // --- all of what follows runs on the communication thread, the only one that calls MPI ---

  void run(const Launcher& launcher) {
    if (!start_mpi(launcher)) return;
    auto last = Clock::now(), moved = last, launcher_seen = last;
    for (;;) {
      const auto now = Clock::now();
      const double passed = std::chrono::duration<double>(now - last).count();
      last = now;
      guard_.beat();
      post_started();
      make_call();
      if (progress()) moved = Clock::now();
      give_signs(now);
      hear_signs();
      say_busy(now);
      const double counted = std::min(passed, RankWatch::kMostStep);
      watch_.pass(counted);
      look_for_told(counted);
      look_for_lost(counted);
      if (seconds_since(launcher_seen) > 0.5) {
        launcher_seen = now;
        if (getppid() != parent_)
          end_run(cat(guard_.place(), ": its launcher has ended"), kRankLost, 0);
      }
      if (is_over()) break;
      rest(seconds_since(moved));
    }
    notices_.end();
    guard_.expect_end();
    MPI_Finalize();
  }

  bool start_mpi(const Launcher& launcher) {
    int provided = 0, rank = 0, ranks = 0;
    const DirectHelp direct_help;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    direct_help.restore();
    world_ = MPI_COMM_WORLD;
    MPI_Comm_rank(world_, &rank);
    MPI_Comm_size(world_, &ranks);
    try {
      check_world(launcher, ranks, mpi_library_version());
    } catch (const UserError& error) {
      MPI_Finalize();
      const std::scoped_lock lock(mutex_);
      refusal_ = error.what();
      changed_.notify_all();
      return false;
    }
    std::vector<std::string> hosts = mpi_hosts(ranks);

    parent_ = getppid();
    watch_ = RankWatch(rank, ranks, timeout_);
    lives_out_.resize(watch_.watchers().size());
    for (std::size_t i = 0; i < lives_out_.size(); ++i) lives_out_[i].rank = watch_.watchers()[i];
    lives_in_.resize(watch_.watched().size());
    for (std::size_t i = 0; i < lives_in_.size(); ++i) {
      lives_in_[i].rank = watch_.watched()[i];
      await_sign(lives_in_[i]);
    }
    notices_.begin(world_, kNoticeTag, rank, ranks);
    const std::scoped_lock lock(mutex_);
    set_ranks(rank, hosts);
    hosts_ = std::move(hosts);
    guard_.watch(name(rank), ranks);
    is_ready_ = true;
    changed_.notify_all();
    return true;
  }

  void post_started() {
    {
      const std::scoped_lock lock(mutex_);
      posting_.swap(started_);
    }
    for (const int channel : posting_) {
      const Operation& operation = operations_[static_cast<std::size_t>(channel)];
      for (const HostMessage& message : operation.in) post(channel, message, true);
      for (const HostMessage& message : operation.out) post(channel, message, false);
    }
    posting_.clear();
  }

  void make_call() {
    std::unique_lock lock(mutex_);
    if (call_ == nullptr) return;
    lock.unlock();
    (*call_)();
    lock.lock();
    call_ = nullptr;
    changed_.notify_all();
  }

  void post(int channel, const HostMessage& message, bool is_in) {
    for (std::int64_t at = 0; at < message.bytes; at += kPiece) {
      const int count = static_cast<int>(std::min(kPiece, message.bytes - at));
      MPI_Request request = MPI_REQUEST_NULL;
      if (is_in) {
        MPI_Irecv(message.memory + at, count, MPI_BYTE, message.rank, channel, world_, &request);
      } else {
        MPI_Isend(message.memory + at, count, MPI_BYTE, message.rank, channel, world_, &request);
      }
      requests_.push_back(request);
      pieces_.push_back({channel, message.rank, is_in});
    }
  }

  // Whether anything has come or gone.
  bool progress() {
    if (requests_.empty()) return false;
    int done = 0;
    indices_.resize(requests_.size());
    MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, indices_.data(),
                 MPI_STATUSES_IGNORE);
    if (done <= 0) return false;
    bool is_complete = false;
    {
      const std::scoped_lock lock(mutex_);
      for (int i = 0; i < done; ++i) {
        const Piece& piece =
            pieces_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
        Operation& operation = operations_[static_cast<std::size_t>(piece.channel)];
        operation.awaited_for = 0;
        if (--operation.pieces == 0) {
          is_complete = true;
          operation.ended = Clock::now();
        }
        if (piece.is_in) watch_.hear(piece.rank);
      }
    }
    if (is_complete) changed_.notify_all();
    // Those that are left keep their order.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      pieces_[kept++] = pieces_[i];
    }
    requests_.resize(kept);
    pieces_.resize(kept);
    return true;
  }

  // --- signs of life ---

  void give_signs(Clock::time_point now) {
    const bool is_last = leaving(), is_new = guard_.step() != step_given_;
    const double interval = told_for_ > 0 || others_told_for_ > 0 ? kToldIntervalSeconds
                            : is_new                              ? kNewStepSeconds
                                                                  : std::min(1.0, timeout_ / 8);
    if (!is_last && std::chrono::duration<double>(now - signs_given_).count() < interval) return;
    signs_given_ = now;
    step_given_ = guard_.step();
    for (Life& life : lives_out_) {
      int is_sent = 1;
      if (life.request != MPI_REQUEST_NULL) MPI_Test(&life.request, &is_sent, MPI_STATUS_IGNORE);
      if (is_sent == 0 || life.sign.is_last != 0) continue;
      life.sign.step = guard_.step();
      std::strncpy(life.sign.doing.data(), guard_.doing(), life.sign.doing.size() - 1);
      life.sign.is_last = is_last ? 1 : 0;
      life.sign.is_told = told_for_ > 0 ? 1 : 0;
      MPI_Isend(&life.sign, sizeof life.sign, MPI_BYTE, life.rank, kLifeTag, world_, &life.request);
    }
  }

  void await_sign(Life& life) {
    MPI_Irecv(&life.sign, sizeof life.sign, MPI_BYTE, life.rank, kLifeTag, world_, &life.request);
  }

  void hear_signs() {
    for (Life& life : lives_in_) {
      if (life.request == MPI_REQUEST_NULL) continue;
      int has_come = 0;
      MPI_Test(&life.request, &has_come, MPI_STATUS_IGNORE);
      if (has_come == 0) continue;
      watch_.hear(life.rank, life.sign);
      if (life.sign.is_told != 0) others_told_for_ = 2 * kAliveSeconds;
      if (life.sign.is_last == 0) await_sign(life);
    }
    Notice notice;
    while (notices_.hear(notice)) heed(notice);
  }

  void heed(const Notice& notice) {
    switch (notice.kind) {
      case Notice::Kind::kEnd: end_quietly(notice);
      case Notice::Kind::kWouldEnd: guard_.overhear(notice.why.data(), notice.heard); break;
      case Notice::Kind::kBusy: wait_on_for(notice.rank); break;
    }
  }

  // Others may await this rank while it does what takes long and is none of its messages, as a
  // checkpoint on a slow disk does.
  void say_busy(Clock::time_point now) {
    if (std::chrono::duration<double>(now - busy_said_).count() < timeout_ / 4) return;
    int is_sent = 1;
    MPI_Testall(static_cast<int>(busy_requests_.size()), busy_requests_.data(), &is_sent,
                MPI_STATUSES_IGNORE);
    const std::uint64_t progress = noted_progress();
    const bool is_busy = progress != progress_said_ && requests_.empty() && !leaving();
    busy_said_ = now;
    progress_said_ = progress;
    if (!is_busy || is_sent == 0) return;
    busy_ = {.rank = rank(), .kind = Notice::Kind::kBusy};
    busy_requests_ = notices_.tell_all(busy_);
  }

  void wait_on_for(int other) {
    const std::scoped_lock lock(mutex_);
    for (const Piece& piece : pieces_) {
      if (piece.rank == other) operations_[static_cast<std::size_t>(piece.channel)].awaited_for = 0;
    }
  }

  bool leaving() {
    const std::scoped_lock lock(mutex_);
    return leaving_;
  }

  bool is_over() {
    if (!leaving() || !watch_.all_are_done()) return false;
    return std::ranges::all_of(lives_out_, [](const Life& life) {
      return life.sign.is_last != 0 && life.request == MPI_REQUEST_NULL;
    });
  }

  // --- failure ---

  // Of a host that is lost with all its processes.
  void look_for_told(double passed) {
    others_told_for_ -= passed;
    if (!guard_.is_told()) {
      told_for_ = 0;
      has_looked_ = false;
      return;
    }
    told_for_ += passed;
    if (told_for_ < kAliveSeconds || has_looked_) return;
    has_looked_ = true;
    const std::vector<int> lost = watch_.lost_with_hosts(kLostSeconds, hosts_);
    if (lost.empty() || !watch_.speaks_of(lost) || told_.rank >= 0) return;
    double silence = 0;
    std::int64_t step = 0;
    std::string doing;
    for (const int rank : lost) {
      silence = std::max(silence, watch_.silence(rank));
      const SignOfLife& sign = watch_.last_sign(rank);
      if (sign.step >= step) step = sign.step, doing = sign.doing.data();
    }
    const std::string why = cat(
        place(names_of_ranks(lost, hosts_), step, doing), ": silent for ",
        std::round(silence * 10) / 10,
        " s when the launcher ended the run: down, disconnected, or all its processes have ended");
    const auto heard = static_cast<int>(std::ranges::count_if(
        watch_.watched(), [&](int rank) { return watch_.silence(rank) < kLostSeconds; }));
    guard_.prepare(why, heard + 1);
    told_ = {.rank = rank(), .kind = Notice::Kind::kWouldEnd, .heard = heard + 1};
    told_.say(why);
    notices_.tell_all(told_);
  }

  void look_for_lost(double passed) {
    int late = -1;
    {
      const std::scoped_lock lock(mutex_);
      if (abort_wanted_) {
        end_run(abort_text_.empty() ? "" : cat(guard_.place(), ": ", abort_text_), abort_code_,
                ranks());
      }
      if (awaited_ > 0) {
        for (std::size_t channel = 0; channel < operations_.size(); ++channel) {
          Operation& operation = operations_[channel];
          if (!operation.is_awaited || operation.pieces == 0) continue;
          operation.awaited_for += passed;
          if (operation.awaited_for > timeout_) late = late_rank(static_cast<int>(channel));
        }
      }
    }
    if (told_for_ > 0 && told_for_ < kLauncherSeconds) return;
    int silent = watch_.silent();
    // It was awaited before it fell silent, or the two came together.
    if (silent < 0 && late >= 0 && watch_.silence(late) > timeout_ / 2) silent = late;
    if (silent >= 0) {
      end_run(cat(place_of(silent), ": not heard for ", timeout_, " s (--rank-timeout) by ",
                  guard_.place(), ": it is stopped, disconnected or has ended"),
              kRankLost, ranks() - 1);
    }
    if (late >= 0)
      end_run(late_text(place_of(late), guard_.place(), timeout_), kRankLost, ranks() - 1);
  }

  // Whose message has not come, or who has not taken this rank's.
  int late_rank(int channel) const {
    int late = -1;
    for (const Piece& piece : pieces_) {
      if (piece.channel != channel) continue;
      if (piece.is_in) return piece.rank;
      late = piece.rank;
    }
    return late;
  }

  std::string place_of(int rank) const {
    const SignOfLife& sign = watch_.last_sign(rank);
    return place(name(rank), sign.step, sign.doing.data());
  }

  // Says why, unless a lower rank does so at this moment, and ends all ranks.
  [[noreturn]] void end_run(const std::string& why, int code, int heard) {
    guard_.expect_end();
    Notice notice = {.rank = rank(), .kind = Notice::Kind::kEnd, .heard = heard}, other;
    if (is_failure(code)) notice.say(why);
    std::vector<MPI_Request> requests = notices_.tell_all(notice);
    const auto start = Clock::now();
    while (seconds_since(start) < kNoticeSeconds) {
      if (notices_.hear(other) && other.kind == Notice::Kind::kEnd && other.rank < rank())
        end_quietly(other);
      int done = 0;
      MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &done,
                   (indices_.resize(requests.size()), indices_.data()), MPI_STATUSES_IGNORE);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (is_failure(code)) guard_.note(why, heard);
    end_process(why, code);
  }

  // A run that was stopped has not failed.
  static bool is_failure(int code) { return code != static_cast<int>(ExitCode::kStopped); }

  // Another rank has said why, and is about to end all.
  [[noreturn]] void end_quietly(const Notice& notice) {
    guard_.expect_end();
    if (notice.why[0] != '\0') guard_.note(notice.why.data(), notice.heard);
    std::this_thread::sleep_for(Seconds(kAbortSeconds));
    _exit(kRankLost);
  }

  [[noreturn]] void end_process(const std::string& why, int code) {
    guard_.expect_end();
    if (!why.empty()) {
      const std::string line = cat("podium: ", why, "; the run ends\n");
      static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
      // The launcher may forget what it has not read when the run is aborted.
      std::this_thread::sleep_for(Seconds(kNoticeSeconds));
    }
    std::thread([code] {
      std::this_thread::sleep_for(Seconds(kAbortSeconds));
      _exit(code);
    }).detach();
    if (std::this_thread::get_id() == thread_.get_id()) MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
  }

  void rest(double still_for) {
    std::unique_lock lock(mutex_);
    if (!started_.empty() || call_ != nullptr) return;
    if (requests_.empty()) {
      const double longest = leaving_ ? 0.0005 : std::min(kLongSleepSeconds, timeout_ / 16);
      work_.wait_for(lock, Seconds(longest));
      return;
    }
    if (awaited_ == 0) {  // until somebody waits
      work_.wait_for(lock, kSleep);
      return;
    }
    lock.unlock();
    if (still_for < kEagerSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kShortSleep);
    }
  }

  const double timeout_;
  RankGuard guard_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable work_;     // for the communication thread
  std::condition_variable changed_;  // for those who wait
  // Under mutex_:
  std::array<Operation, kChannels> operations_;
  std::vector<int> started_;  // channels
  int awaited_ = 0;           // channels that somebody waits for
  const std::function<void()>* call_ = nullptr;
  bool is_ready_ = false, leaving_ = false, abort_wanted_ = false;
  std::string refusal_, abort_text_;
  int abort_code_ = 0;

  // The communication thread's own:
  MPI_Comm world_ = MPI_COMM_NULL;
  pid_t parent_ = 0;
  RankWatch watch_;
  std::vector<int> posting_;
  std::vector<MPI_Request> requests_;  // of pieces_, which are under way
  std::vector<Piece> pieces_;
  std::vector<int> indices_;
  std::vector<Life> lives_out_, lives_in_;
  Clock::time_point signs_given_;
  std::int64_t step_given_ = 0;
  MpiNotices notices_;
  std::vector<std::string> hosts_;
  double told_for_ = 0, others_told_for_ = 0;
  bool has_looked_ = false;
  Notice told_ = {.rank = -1};  // what this rank has told the others; it is on its way
  Notice busy_;                 // likewise
  std::vector<MPI_Request> busy_requests_;
  Clock::time_point busy_said_;
  std::uint64_t progress_said_ = 0;

  bool has_left_ = false;  // the caller's
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(const Launcher& launcher, double timeout) {
  return std::make_unique<MpiTransport>(launcher, timeout);
}

}  // namespace podium
