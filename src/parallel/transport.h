// Moves bytes between the ranks of a run, and adds nothing: every sum is Podium's own
// (exchange.h). A rank is a process that holds one or more workers; ranks may also be threads of
// one process, in tests. Use join_ranks() (ranks.h) to get the transport of this process.
//
//   transport.use(device);                       // whose views follow
//   transport.at(step, "gradients");             // for messages about a rank that is lost
//   transport.start(1, out, in);                 // all-to-all of any sizes; returns at once
//   ... compute ...
//   transport.wait(1);                           // all of `in` has come, all of `out` may change
//   if (transport.agree(stop ? 1 : 0) & 1) ...   // by all ranks, at the same step
//   transport.leave();                           // at the end, by all ranks
//
// Failure. No wait is for ever: a rank that has ended, is stopped, is cut off, or does not send
// within the timeout (--rank-timeout) ends the whole run, with its name, its step and the cause on
// stderr. With processes, the process then ends with ExitCode::kRankLost; between threads, the call
// throws RankFailure. A rank that cannot go on calls abort().
//
// Views that the host cannot read go by a network between devices where there is one
// (network_transport.h), otherwise through memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "base/clock.h"
#include "base/error.h"

namespace podium {

// Another rank is lost, where ranks are threads.
class RankFailure : public UserError {
 public:
  explicit RankFailure(const std::string& what) : UserError(what, ExitCode::kRankLost) {}
};

// Memory of the host as a buffer of no device. It must outlive the buffer.
class HostMemory : public Buffer {
 public:
  HostMemory(void* memory, std::int64_t bytes) : Buffer(bytes, static_cast<std::byte*>(memory)) {}
};

// Bytes for another rank, or from it.
struct Message {
  int rank = 0;
  View view;
};

class Transport {
 public:
  // Channels are numbered from 0; the last one is for agree(), gather() and what uses them.
  static constexpr int kChannels = 257;
  static constexpr int kControl = kChannels - 1;

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(names_.size()); }
  // "rank 3 on host b"
  const std::string& name(int rank) const { return names_[static_cast<std::size_t>(rank)]; }

  const std::string& host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  // How many ranks of this host come before this one; those that were left out count, too.
  int local_rank() const { return local_rank_; }

  // The device that the views of a device belong to, until release(). By all ranks.
  virtual void use(Device& device) { device_ = &device; }
  virtual void release() { device_ = nullptr; }
  // From now on, each message between hosts' memories has a checksum, which its receiver compares:
  // wait() throws UserError(kFault) where they differ. By all ranks alike, before start().
  virtual void check_messages(bool /*on*/) {}
  // What carries messages between devices, and if it is not a network of theirs, why; for people.
  virtual std::string carrier() const { return ""; }

  // Begins to send `out` and to receive `in`; neither list names this rank. The k-th message from a
  // to b on a channel, empty ones not counted, is the k-th that b awaits from a on it, and is as
  // long. Views must stay as they are until wait(). One exchange is under way on a channel at a
  // time; on different ones there may be many, started from any threads, in any order.
  virtual void start(int channel, std::span<const Message> out, std::span<const Message> in) = 0;
  // Ends what start() began. When the last of it came or went, as well as the transport knows.
  virtual Clock::time_point wait(int channel) = 0;
  // Whether wait() would return at once.
  virtual bool arrived(int channel) = 0;

  void exchange(int channel, std::span<const Message> out, std::span<const Message> in) {
    start(channel, out, in);
    wait(channel);
  }
  // all[r] holds the bytes of rank r; each rank has filled its own.
  virtual void all_gather(int channel, std::span<const View> all);
  virtual void broadcast(int channel, int root, View view);

  // The following are called by one thread at a time, by all ranks in the same order.

  // The bitwise or over all ranks. Allocates nothing.
  std::uint64_t agree(std::uint64_t flags);
  void barrier() { agree(0); }
  // The texts of all ranks.
  std::vector<std::string> gather(const std::string& mine);
  // Leaves and throws UserError, on all ranks alike, where not all have the same text; `what` is
  // "recipe".
  void agree_on(const std::string& what, const std::string& text);

  // As leave(), before an error that all ranks throw alike: none may look to a slower one as if it
  // had failed, and rank 0 has time to say why.
  void leave_before_refusal();

  // For benchmarks: `work` may call the library that carries the messages, and runs on its thread
  // while this one waits; no rank is watched meanwhile. False, and nothing runs, where there is
  // no such library.
  virtual bool call_library(const std::function<void()>& /*work*/) { return false; }

  // Where this rank is, for messages. `doing` must live for ever: a literal.
  virtual void at(std::int64_t step, const char* doing) = 0;
  // Where this rank may leave why the run ended (failure_record.h): a folder whose file .lock holds
  // the text `lock`. Transports whose ranks are not processes leave nothing.
  virtual void record_in(const std::string& /*folder*/, const std::string& /*lock*/) {}
  // Ends the run of all ranks. `why` is printed with this rank's name and step; where it is empty,
  // the caller has said so already.
  [[noreturn]] virtual void abort(const std::string& why, ExitCode code) = 0;
  // Leaves ranks out: by the others, which number themselves anew and keep their names. What they
  // get must not outlive this transport. Rank 0 stays. Each rank that is left out calls
  // await_end(), which returns when the others no longer need theirs.
  virtual std::unique_ptr<Transport> without(const std::vector<int>& left_out);
  void await_end();

  // The last call, by all ranks: returns once all have come; again, it does nothing. A rank that
  // ends without it has failed.
  virtual void leave() = 0;
  virtual bool has_left() const = 0;

 protected:
  Transport() = default;
  // Called once, before anything is sent.
  void set_ranks(int rank, const std::vector<std::string>& hosts);
  // Its hosts, names and place on its host are those of ranks of another one.
  void take_ranks(const Transport& of, const std::vector<int>& ranks);
  Device* device() const { return device_; }

 private:
  int rank_ = 0, local_rank_ = 0;
  std::vector<std::string> names_, hosts_;
  Device* device_ = nullptr;
  std::vector<std::uint64_t> flags_;  // of all ranks
  std::deque<HostMemory> flag_memory_;
  std::vector<Message> flags_out_, flags_in_;
};

// "rank 2 on host b, step 12 (gradients)"; steps count from 1, and before the first there is none.
std::string place(const std::string& name, std::int64_t step, const std::string& doing);

// "ranks 4 and 5 on host b, rank 7 on host c"; hosts[r] is rank r's.
std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

// What is said where a rank was awaited for longer than the timeout; `late` and `by` are places.
std::string late_text(const std::string& late, const std::string& by, double timeout);

// The place of the first difference between two texts, of one line where they have several:
// `line 3: "seed = 1", not "seed = 2"`.
std::string first_difference(const std::string& is, const std::string& should_be);

}  // namespace podium
