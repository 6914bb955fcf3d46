// The GPUs of a process, and memory that several of them have.
//
// A buffer is one vector of bytes for its users. Where a process has several cards, each that uses
// the buffer has a copy of the parts that it uses, and it is known which cards have the newest
// value of each byte. A card that reads bytes which another one has written gets them first, from
// card to card. Nothing is added on the way, so no result depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/device.h"

namespace podium::PODIUM_CUDA_SPACE {

// Memory of the GPU, freed with the object.
class Allocation {
 public:
  Allocation() = default;
  explicit Allocation(std::int64_t bytes) : memory_(runtime::allocate(bytes)), bytes_(bytes) {}
  // Whose values are written before they are read.
  static Allocation scratch(std::int64_t bytes) {
    Allocation allocation;
    allocation.memory_ = runtime::allocate_scratch(bytes);
    allocation.bytes_ = bytes;
    return allocation;
  }
  ~Allocation() { reset(); }
  Allocation(Allocation&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::int64_t bytes() const { return bytes_; }
  void reset() {
    if (memory_ != nullptr) runtime::deallocate(std::exchange(memory_, nullptr));
    bytes_ = 0;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Work that must be enqueued before anything that depends on it.
class Pending {
 public:
  virtual ~Pending() = default;
  // Called with the queue's mutex held, and once: `pending` is null by then.
  virtual void finish() = 0;
};

// A part of a buffer that a card has written before other work that it was asked for earlier ends.
struct ReadyPart {
  View view;
  std::shared_ptr<runtime::Event> event;  // when it was written
};

// What all that runs on a card shares. The mutex guards the streams: launches of two programs do
// not mix, and what is recorded is one program's.
struct Queue {
  std::mutex mutex;
  Stream stream = nullptr;
  // For calls that do not wait for all of `stream` (call_ahead()).
  Stream beside = nullptr;
  std::thread::id ahead;  // whose calls these are; nobody's
  int device = 0;         // of the runtime
  int card = 0;           // of the process
  Pending* pending = nullptr;
  std::vector<ReadyPart> ready;  // under Cards::mutex_
  bool warpgroups = false;  // whether its products of BF16 may be those of warpgroups (launch.h)

  // Before a call on the stream, with the mutex held.
  void settle() {
    runtime::use(device);
    if (Pending* const work = std::exchange(pending, nullptr)) work->finish();
  }
  // The stream for this thread's calls, with the mutex held and the card in use. Another thread's
  // calls come after those that go ahead, too.
  Stream current() {
    if (ahead == std::this_thread::get_id()) return beside;
    if (ahead != std::thread::id()) runtime::follow(stream, beside);
    return stream;
  }
  // Runs `calls`, in which this thread asks the card for copies, sums and messages. They come after
  // the event, but not after what the card was asked for since, and must touch nothing of that.
  // What it is asked for afterwards comes after them. One thread at a time: a second one makes
  // ordinary calls. Without the mutex held.
  void call_ahead(runtime::Event& event, const std::function<void()>& calls);
};

class CudaBuffer : public Buffer {
 public:
  // With one card, its memory is allocated here; with several, where they first use it.
  CudaBuffer(std::int64_t bytes, int cards);
  // Where the card has this byte, which it has been given room for.
  std::byte* data(int card, std::int64_t offset) const {
    const Piece* const piece = piece_of(card, offset, offset + 1);
    return piece == nullptr ? nullptr : piece->memory.data() + (offset - piece->begin);
  }

 private:
  friend class Cards;
  // A bit for each card.
  using Mask = std::uint64_t;
  // A part that a card has, all that it has used at once.
  struct Piece {
    std::int64_t begin = 0, end = 0;
    Allocation memory;
  };
  // The one in which the card has these bytes; null: none.
  const Piece* piece_of(int card, std::int64_t begin, std::int64_t end) const {
    for (const Piece& piece : pieces_[static_cast<std::size_t>(card)])
      if (piece.begin <= begin && end <= piece.end) return &piece;
    return nullptr;
  }
  struct Range {
    std::int64_t begin = 0, end = 0;
    Mask cards = 0;
  };
  // What cards have the newest values, of the ranges of which [begin, end) consists.
  std::vector<Range> newest(std::int64_t begin, std::int64_t end) const;
  void set_newest(const Range& range);
  // Begins a range there, with the cards of the one around it.
  void cut(std::int64_t at);

  std::vector<std::vector<Piece>> pieces_;  // by card; no two of a card have a byte in common
  // Under Cards::mutex_, where there are several cards:
  std::map<std::int64_t, Mask> newest_;  // by where a range begins; it ends where the next one does
  int home_ = 0;                         // the card whose program used it last
};

// The bytes on a card.
inline std::byte* address(const View& view, const Queue& queue) {
  return static_cast<const CudaBuffer*>(view.buffer)->data(queue.card, view.offset);
}

class Cards {
 public:
  static constexpr int kMost = 64;

  // These devices of the runtime, for so many threads that run programs.
  Cards(std::span<const int> devices, int workers);
  ~Cards();
  Cards(const Cards&) = delete;
  Cards& operator=(const Cards&) = delete;

  int count() const { return static_cast<int>(queues_.size()); }
  Queue& of_worker(int worker) { return *queues_[static_cast<std::size_t>(worker % count())]; }
  Queue& first() { return *queues_[0]; }

  // Zeroed.
  std::unique_ptr<Buffer> allocate(std::int64_t bytes);
  // Before the card's stream gets what reads and writes these: it has room for all of them, and the
  // newest values of what it reads; the other cards then know that theirs of what it writes are
  // old. Without any mutex held.
  void prepare(Queue& queue, std::span<const View> reads, std::span<const View> writes);
  // Parts of what prepare() was told of as written, whose writing has been enqueued: a card that
  // reads one gets it as soon as it is there.
  void add_ready(Queue& queue, std::span<const ReadyPart> parts);
  // Of calls that any card may make: one that has the newest values of all of `from`, if there is
  // one.
  Queue& best_for(const View& from);
  // Of several cards: parts of a view, each with one that has its newest values.
  struct Part {
    View view;
    Queue* queue;
  };
  std::vector<Part> parts_of(const View& view);
  // The card on which a program last used the buffer.
  Queue& home_of(const View& view);
  void synchronise();
  // Until the card has done what it has been asked for; others may ask it for more meanwhile.
  void wait_for(Queue& queue);

 private:
  struct Move {
    CudaBuffer* buffer;
    std::int64_t begin, end;
    int from;
  };
  void make_room(Queue& queue, const View& view);
  std::vector<Move> missing(Queue& queue, std::span<const View> reads) const;
  static void wait_for_writer(Stream stream, Queue& from, const Move& move);
  void move(Queue& queue, std::span<const Move> moves);

  std::vector<std::unique_ptr<Queue>> queues_;
  // Where several threads use a card, whose pieces then may not move: all of a buffer at once.
  const bool whole_buffers_;
  std::mutex mutex_;  // taken before those of queues
};

}  // namespace podium::PODIUM_CUDA_SPACE
