#include "backend/cuda/cards.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "backend/cuda/seeded_fault.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Pieces of a card begin and end there.
constexpr std::int64_t kAlign = 256;

CudaBuffer& buffer_of(const View& view) { return static_cast<CudaBuffer&>(*view.buffer); }

// What is left of ready parts when other work writes `written`.
void take_away(std::vector<ReadyPart>& parts, const View& written) {
  std::vector<ReadyPart> left;
  for (const ReadyPart& part : parts) {
    const std::int64_t begin = part.view.offset, end = begin + part.view.bytes,
                       first = std::clamp(written.offset, begin, end),
                       last = std::clamp(written.offset + written.bytes, begin, end);
    if (part.view.buffer != written.buffer || first == last) {
      left.push_back(part);
      continue;
    }
    if (begin < first) left.push_back({part.view.part(0, first - begin), part.event});
    if (last < end) left.push_back({part.view.part(last - begin, end - last), part.event});
  }
  parts = std::move(left);
}

}  // namespace

CudaBuffer::CudaBuffer(std::int64_t bytes, int cards)
    : Buffer(bytes, nullptr), pieces_(static_cast<std::size_t>(cards)) {
  if (cards == 1) {
    pieces_[0].push_back({0, bytes, Allocation(bytes)});
  } else {
    // Zero everywhere.
    newest_[0] = cards == Cards::kMost ? ~Mask{0} : (Mask{1} << cards) - 1;
  }
}

std::vector<CudaBuffer::Range> CudaBuffer::newest(std::int64_t begin, std::int64_t end) const {
  std::vector<Range> ranges;
  auto at = std::prev(newest_.upper_bound(begin));
  while (begin < end) {
    const Mask cards = at->second;
    ++at;
    const std::int64_t next = at == newest_.end() ? end : std::min(end, at->first);
    ranges.push_back({begin, next, cards});
    begin = next;
  }
  return ranges;
}

void CudaBuffer::cut(std::int64_t at) {
  if (at >= bytes()) return;
  const auto around = std::prev(newest_.upper_bound(at));
  if (around->first != at) newest_.emplace_hint(std::next(around), at, around->second);
}

void CudaBuffer::set_newest(const Range& range) {
  if (range.begin == range.end) return;
  cut(range.begin);
  cut(range.end);
  auto at = newest_.find(range.begin);
  at->second = range.cards;
  newest_.erase(std::next(at), newest_.lower_bound(range.end));
  // Neighbours that became equal are one.
  const auto next = std::next(at);
  if (next != newest_.end() && next->second == at->second) newest_.erase(next);
  if (at != newest_.begin() && std::prev(at)->second == at->second) newest_.erase(at);
}

void Queue::call_ahead(runtime::Event& event, const std::function<void()>& calls) {
  const auto begin = [&] {
    const std::scoped_lock lock(mutex);
    settle();
    if (ahead != std::thread::id()) return false;
    event.hold(beside);
    ahead = std::this_thread::get_id();
    return true;
  };
  const auto end = [this] {
    const std::scoped_lock lock(mutex);
    ahead = {};
  };
  if (!begin()) return calls();
  try {
    calls();
  } catch (...) {
    end();
    throw;
  }
  end();
  const std::scoped_lock lock(mutex);
  runtime::use(device);
  runtime::follow(stream, beside);
}

Cards::Cards(std::span<const int> devices, int workers)
    : whole_buffers_(workers > std::ssize(devices)) {
  PODIUM_CHECK(!devices.empty() && std::ssize(devices) <= kMost, devices.size(), " GPUs");
  for (const int device : devices) {
    runtime::use(device);
    auto queue = std::make_unique<Queue>();
    queue->device = device;
    queue->card = count();
    queue->stream = runtime::make_stream();
    queue->beside = runtime::make_stream();
    queues_.push_back(std::move(queue));
  }
  for (const int device : devices)
    for (const int other : devices)
      if (device != other) runtime::connect(device, other);
}

Cards::~Cards() {
  for (const auto& queue : queues_) {
    runtime::destroy_stream(queue->beside);
    runtime::destroy_stream(queue->stream);
  }
}

std::unique_ptr<Buffer> Cards::allocate(std::int64_t bytes) {
  runtime::use(first().device);
  return std::make_unique<CudaBuffer>(bytes, count());
}

// A piece that grows moves: launches that were recorded with its old place are no longer played,
// since they are found by their places.
void Cards::make_room(Queue& queue, const View& view) {
  CudaBuffer& buffer = buffer_of(view);
  const std::int64_t view_end = view.offset + view.bytes;
  if (view.bytes == 0 || buffer.piece_of(queue.card, view.offset, view_end) != nullptr) return;
  CudaBuffer::Piece larger{view.offset / kAlign * kAlign,
                           std::min((view_end + kAlign - 1) / kAlign * kAlign, buffer.bytes()),
                           {}};
  if (whole_buffers_) larger.begin = 0, larger.end = buffer.bytes();
  std::vector<CudaBuffer::Piece>& pieces = buffer.pieces_[static_cast<std::size_t>(queue.card)];
  const auto touches = [&](const CudaBuffer::Piece& piece) {
    return piece.begin < larger.end && larger.begin < piece.end;
  };
  // All begin and end at multiples, so no other one begins to touch.
  for (const CudaBuffer::Piece& piece : pieces)
    if (touches(piece)) {
      larger.begin = std::min(larger.begin, piece.begin);
      larger.end = std::max(larger.end, piece.end);
    }
  const std::scoped_lock lock(queue.mutex);
  queue.settle();
  larger.memory = Allocation(larger.end - larger.begin);
  for (const CudaBuffer::Piece& piece : pieces)
    if (touches(piece))
      runtime::copy(queue.stream, larger.memory.data() + (piece.begin - larger.begin),
                    piece.memory.data(), piece.end - piece.begin);
  runtime::synchronise(queue.stream);
  std::erase_if(pieces, touches);
  pieces.push_back(std::move(larger));
}

// What the card has to get from others before it reads.
std::vector<Cards::Move> Cards::missing(Queue& queue, std::span<const View> reads) const {
  const CudaBuffer::Mask own = CudaBuffer::Mask{1} << queue.card;
  std::vector<Move> moves;
  for (const View& view : reads) {
    CudaBuffer& buffer = buffer_of(view);
    for (const CudaBuffer::Range& range : buffer.newest(view.offset, view.offset + view.bytes)) {
      if ((range.cards & own) != 0) continue;
      // The next card that has it, so that not all ask the first one.
      const CudaBuffer::Mask after = range.cards & ~(own | (own - 1));
      const int from = std::countr_zero(after != 0 ? after : range.cards);
      moves.push_back({&buffer, range.begin, range.end, from});
    }
  }
  const auto key = [](const Move& m) { return std::tuple(m.from, m.buffer, m.begin, m.end); };
  std::ranges::sort(moves, {}, key);
  // Neighbours, and such with nothing between them but what all cards have, are one copy.
  std::vector<Move> joined;
  for (const Move& move : moves) {
    if (!joined.empty()) {
      Move& last = joined.back();
      const bool same = last.buffer == move.buffer && last.from == move.from &&
                        last.buffer->piece_of(queue.card, last.begin, move.end) != nullptr;
      if (same && move.begin <= last.end) {
        last.end = std::max(last.end, move.end);
        continue;
      }
      if (same && move.begin - last.end < kAlign &&
          last.buffer->piece_of(move.from, last.begin, move.end) != nullptr &&
          std::ranges::all_of(move.buffer->newest(last.end, move.begin), [&](const auto& range) {
            return std::popcount(range.cards) == count();
          })) {
        last.end = move.end;
        continue;
      }
    }
    joined.push_back(move);
  }
  return joined;
}

// What the other card is to write has then been written: its ready parts are before all else.
void Cards::wait_for_writer(Stream stream, Queue& from, const Move& move) {
  for (const ReadyPart& part : from.ready)
    if (part.view.buffer == move.buffer && part.view.offset <= move.begin &&
        move.end <= part.view.offset + part.view.bytes)
      return part.event->hold(stream);
  runtime::follow(stream, from.stream);
  runtime::follow(stream, from.beside);
}

void Cards::move(Queue& queue, std::span<const Move> moves) {
  for (auto first = moves.begin(); first != moves.end();) {
    const auto last = std::find_if(first, moves.end(),
                                   [&](const Move& move) { return move.from != first->from; });
    Queue& from = *queues_[static_cast<std::size_t>(first->from)];
    const std::scoped_lock lock(from.mutex, queue.mutex);
    from.settle();
    queue.settle();
    // What this card still reads, it has read, as its stream makes the copy.
    const Stream stream = queue.current();
    for (; first != last; ++first) {
      if (!seeded(SeededFault::kPeerCopyNotAwaited)) wait_for_writer(stream, from, *first);
      // Of each piece of the other card for itself.
      for (std::int64_t begin = first->begin, end = 0; begin < first->end; begin = end) {
        end = std::min(first->end, first->buffer->piece_of(from.card, begin, begin + 1)->end);
        if (seeded(SeededFault::kPeerCopyLost)) continue;
        runtime::copy_between(stream, first->buffer->data(queue.card, begin), queue.device,
                              first->buffer->data(from.card, begin), from.device,
                              end - begin - (seeded(SeededFault::kPeerCopyShort) ? 4 : 0));
      }
    }
    // The other card writes to its copy again only when this one has it.
    runtime::follow(from.stream, stream);
    runtime::follow(from.beside, stream);
    runtime::use(queue.device);
  }
}

void Cards::add_ready(Queue& queue, std::span<const ReadyPart> parts) {
  if (count() == 1) return;
  const std::scoped_lock lock(mutex_);
  queue.ready.insert(queue.ready.end(), parts.begin(), parts.end());
}

void Cards::prepare(Queue& queue, std::span<const View> reads, std::span<const View> writes) {
  if (count() == 1) return;
  const std::scoped_lock lock(mutex_);
  for (const auto& views : {reads, writes})
    for (const View& view : views) make_room(queue, view);
  const std::vector<Move> moves = missing(queue, reads);
  move(queue, moves);
  const CudaBuffer::Mask own = CudaBuffer::Mask{1} << queue.card;
  for (const Move& move : moves)
    for (CudaBuffer::Range range : move.buffer->newest(move.begin, move.end)) {
      range.cards |= own;
      move.buffer->set_newest(range);
    }
  for (const View& view : reads) buffer_of(view).home_ = queue.card;
  for (const View& view : writes) {
    CudaBuffer& buffer = buffer_of(view);
    buffer.home_ = queue.card;
    take_away(queue.ready, view);
    CudaBuffer::Range range{view.offset, view.offset + view.bytes, own};
    if (seeded(SeededFault::kPeerCopyStale)) range.cards = ~CudaBuffer::Mask{0};
    buffer.set_newest(range);
  }
}

Queue& Cards::best_for(const View& from) {
  if (count() == 1) return first();
  const std::scoped_lock lock(mutex_);
  const CudaBuffer& buffer = buffer_of(from);
  CudaBuffer::Mask all = ~CudaBuffer::Mask{0};
  for (const CudaBuffer::Range& range : buffer.newest(from.offset, from.offset + from.bytes))
    all &= range.cards;
  const bool has_home = all == 0 || (all >> buffer.home_ & 1U) != 0;
  return *queues_[static_cast<std::size_t>(has_home ? buffer.home_ : std::countr_zero(all))];
}

std::vector<Cards::Part> Cards::parts_of(const View& view) {
  const std::scoped_lock lock(mutex_);
  const CudaBuffer& buffer = buffer_of(view);
  std::vector<Part> parts;
  for (const CudaBuffer::Range& range : buffer.newest(view.offset, view.offset + view.bytes)) {
    const bool has_home = (range.cards >> buffer.home_ & 1U) != 0;
    const int card = has_home ? buffer.home_ : std::countr_zero(range.cards);
    const View part{*view.buffer, range.begin, range.end - range.begin};
    Queue& queue = *queues_[static_cast<std::size_t>(card)];
    make_room(queue, part);
    parts.push_back({part, &queue});
  }
  return parts;
}

Queue& Cards::home_of(const View& view) {
  if (count() == 1) return first();
  const std::scoped_lock lock(mutex_);
  return *queues_[static_cast<std::size_t>(buffer_of(view).home_)];
}

void Cards::wait_for(Queue& queue) {
  const std::unique_ptr<runtime::Event> event = [&] {
    const std::scoped_lock lock(queue.mutex);
    queue.settle();
    auto made = runtime::make_event();
    made->set(queue.current());
    return made;
  }();
  event->wait();
}

void Cards::synchronise() {
  for (const auto& queue : queues_) {
    const std::scoped_lock lock(queue->mutex);
    queue->settle();
    runtime::synchronise(queue->current());
  }
}

}  // namespace podium::PODIUM_CUDA_SPACE
