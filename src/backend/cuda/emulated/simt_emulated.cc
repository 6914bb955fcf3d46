#include "backend/cuda/emulated/simt_emulated.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/fiber.h"
#include "base/numerics/bf16.h"
#include "base/numerics/tensor_core.h"

namespace podium::cuda_emulated::simt {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr unsigned kMostBlocks = 65535;  // along y and z
constexpr std::size_t kMostSharedBytes = 227 * 1024;
constexpr std::size_t kSharedAlignment = 1024;
constexpr int kProductTerms = 16;  // of an instruction of a tensor core

// A kernel that breaks a rule of the machine is a fault of the program.
[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "CUDA emulation: %s\n", what);
  std::abort();
}

thread_local Order t_order = Order::kForward;
// The order of its tensor cores; kNoOrder: sums rounded once. An integer, since an optional needs a
// library of its own to be atomic.
constexpr int kNoOrder = -1;
std::atomic<int> g_tensor_core{static_cast<int>(Bf16Order::kHopper)};

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
  char sync[2] = {};  // addresses for ThreadSanitizer
};
struct Warp {
  Barrier barrier;
  // What the lanes exchange. Two exchanges that follow one another use different places, so that
  // one barrier is enough.
  std::uint32_t slots[2][kWarp] = {};
  // The same of operands of a tensor core, six registers a lane.
  std::uint32_t operands[2][kWarp][6] = {};
};

// A thread's products of a warpgroup that it has not waited for.
struct WarpgroupProduct {
  float* sums;
  int columns;
  bool side_by_side;
  std::uint64_t a, b;  // where the operands are
  int group;
};
struct WarpgroupProducts {
  std::deque<WarpgroupProduct> pending;
  int groups = 0;  // that have ended
};

// A thread's copies to shared memory that it has not waited for.
struct Copy {
  void* to;
  const void* from;  // nullptr: zeros
  int group;
};
struct Copies {
  std::deque<Copy> pending;
  int groups = 0;  // that have ended
};

class Block {
 public:
  Block(const Grid& grid, const std::function<void()>& kernel)
      : shape_(grid.threads),
        kernel_(kernel),
        count_(static_cast<int>(shape_.x * shape_.y * shape_.z)),
        lines_(grid.shared_bytes / sizeof(Line) + 1),
        memory_(static_cast<Line*>(
            ::operator new (lines_ * sizeof(Line), std::align_val_t{kSharedAlignment}))),
        order_(static_cast<std::size_t>(count_)),
        warps_(static_cast<std::size_t>(count_ + kWarp - 1) / kWarp),
        copies_(static_cast<std::size_t>(count_)),
        products_(static_cast<std::size_t>(count_)) {
    if (count_ < 1 || count_ > kMostThreads) fail("a block has 1 to 1024 threads");
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) fail("a grid of no blocks");
    if (grid.blocks.x > 0x7fffffff || grid.blocks.y > kMostBlocks || grid.blocks.z > kMostBlocks)
      fail("more blocks than a grid can have");
    if (grid.shared_bytes > kMostSharedBytes) fail("more shared memory than a block can have");
    std::iota(order_.begin(), order_.end(), 0);
    for (unsigned z = 0; z < shape_.z; ++z)
      for (unsigned y = 0; y < shape_.y; ++y)
        for (unsigned x = 0; x < shape_.x; ++x) places_.push_back({x, y, z});
    if (t_order == Order::kReverse) std::reverse(order_.begin(), order_.end());
    for (int i = count_ - 1; t_order == Order::kShuffled && i > 0; --i)
      std::swap(order_[static_cast<std::size_t>(i)],
                order_[static_cast<std::size_t>((i * 7919 + 13) % (i + 1))]);
  }

  // Runs the block that blockIdx names.
  void run() {
    for (std::size_t i = 0; i < lines_; ++i)
      for (volatile float& x : memory_.get()[i].floats) x = std::numeric_limits<float>::quiet_NaN();
    next_ = finished_ = 0;
    for (Copies& copies : copies_) copies = {};
    for (WarpgroupProducts& products : products_) products = {};
    release(this);
    // A fiber runs one thread after the other until one has to wait; then comes the next fiber.
    std::size_t started = 0;
    for (; next_ < count_; ++started) {
      if (started == pool().size()) pool().push_back(std::make_unique<Runner>());
      pool()[started]->resume(*this);
    }
    while (finished_ < count_) {
      bool moved = false;
      for (std::size_t i = 0; i < started; ++i) {
        if (!pool()[i]->ready()) continue;
        moved = true;
        pool()[i]->resume(*this);
      }
      if (!moved) fail("a barrier that not all threads reach");
    }
    acquire(&end_);
  }

  void wait_for_block() { wait(block_, count_); }
  void wait_for_warp(unsigned mask) { wait(warp().barrier, std::popcount(mask)); }
  std::uint32_t exchange(unsigned mask, std::uint32_t value, int lane_mask) {
    const int lane = running_->rank() % kWarp, source = lane ^ lane_mask;
    Warp& w = warp();
    if ((mask >> lane & 1) == 0) fail("a shuffle by a lane that its mask lacks");
    std::uint32_t* const slots = w.slots[w.barrier.generation % 2];
    slots[lane] = value;
    wait_for_warp(mask);
    return source < kWarp && (mask >> source & 1) != 0 ? slots[source] : value;
  }
  const std::uint32_t* gather(std::uint32_t value) {
    Warp& w = warp();
    std::uint32_t* const slots = w.slots[w.barrier.generation % 2];
    slots[running_->rank() % kWarp] = value;
    wait_for_warp(~0u);
    return slots;
  }
  // The operands of all lanes; valid until the next call.
  const std::uint32_t (*operands(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]))[6] {
    Warp& w = warp();
    auto* const all = w.operands[w.barrier.generation % 2];
    std::uint32_t* const own = all[lane()];
    std::copy_n(a, 4, own);
    std::copy_n(b, 2, own + 4);
    wait_for_warp(~0u);
    return all;
  }
  int lane() const { return running_->rank() % kWarp; }
  Copies& copies() { return copies_[static_cast<std::size_t>(running_->rank())]; }
  WarpgroupProducts& products() { return products_[static_cast<std::size_t>(running_->rank())]; }
  int warp_number() const { return running_->rank() / kWarp; }
  void* memory() { return memory_.get(); }
  std::size_t memory_bytes() const { return lines_ * sizeof(Line); }

 private:
  struct alignas(128) Line {
    float floats[32];
  };
  struct Free {
    void operator()(Line* lines) const {
      ::operator delete (lines, std::align_val_t{kSharedAlignment});
    }
  };

  // A fiber, kept from launch to launch.
  class Runner {
   public:
    Runner() : fiber_([this] { loop(); }) {}
    void resume(Block& block) {
      block_ = &block;
      if (barrier_ != nullptr) become(rank_);
      fiber_.resume();
    }
    bool ready() const { return barrier_ != nullptr && barrier_->generation != generation_; }
    void wait(const Barrier& barrier) {
      barrier_ = &barrier;
      generation_ = barrier.generation;
      fiber_.suspend();
      barrier_ = nullptr;
    }
    int rank() const { return rank_; }

   private:
    void become(int rank) {
      rank_ = rank;
      block_->running_ = this;
      threadIdx = block_->places_[static_cast<std::size_t>(rank)];
    }
    void loop() {
      while (true) {
        while (block_->next_ < block_->count_) {
          become(block_->order_[static_cast<std::size_t>(block_->next_++)]);
          acquire(block_);
          block_->kernel_();
          release(&block_->end_);
          ++block_->finished_;
          if (fibers_are_threads()) break;
        }
        fiber_.suspend();
      }
    }

    Block* block_ = nullptr;
    int rank_ = 0;
    const Barrier* barrier_ = nullptr;
    unsigned generation_ = 0;
    Fiber fiber_;
  };

  static std::vector<std::unique_ptr<Runner>>& pool() {
    thread_local std::vector<std::unique_ptr<Runner>> runners;
    return runners;
  }

  Warp& warp() { return warps_[static_cast<std::size_t>(running_->rank() / kWarp)]; }
  void wait(Barrier& barrier, int expected) {
    void* const sync = &barrier.sync[barrier.generation % 2];
    release(sync);
    if (++barrier.arrived == expected) {
      barrier.arrived = 0;
      ++barrier.generation;
    } else {
      running_->wait(barrier);
    }
    acquire(sync);
  }

  const dim3 shape_;
  const std::function<void()>& kernel_;
  const int count_;
  const std::size_t lines_;
  const std::unique_ptr<Line, Free> memory_;
  std::vector<int> order_;
  std::vector<dim3> places_;  // threadIdx of each thread
  std::vector<Warp> warps_;
  std::vector<Copies> copies_;
  std::vector<WarpgroupProducts> products_;
  Barrier block_;
  Runner* running_ = nullptr;
  int next_ = 0, finished_ = 0;
  char end_ = 0;
};

thread_local Block* t_block = nullptr;

}  // namespace

void set_order(Order order) { t_order = order; }
Order order() { return t_order; }
std::size_t most_shared_bytes() { return kMostSharedBytes; }
void wait_for_block() { t_block->wait_for_block(); }
void wait_for_warp(unsigned mask) { t_block->wait_for_warp(mask); }
std::uint32_t exchange(unsigned mask, std::uint32_t value, int lane_mask) {
  return t_block->exchange(mask, value, lane_mask);
}
const std::uint32_t* gather(std::uint32_t value) { return t_block->gather(value); }
void set_tensor_core(std::optional<Bf16Order> order) {
  g_tensor_core = order ? static_cast<int>(*order) : kNoOrder;
}
namespace {

// d and the products of 16 terms, added as the tensor cores do now.
float add_terms(float d, const std::uint16_t* left, const std::uint16_t* right) {
  const int known = g_tensor_core;
  if (known == kNoOrder) {
    double sum = static_cast<double>(d);
    for (int term = 0; term < kProductTerms; ++term)
      sum += static_cast<double>(bf16_value(left[term])) *
             static_cast<double>(bf16_value(right[term]));
    return static_cast<float>(sum);
  }
  const TensorCore core = tensor_core_of(static_cast<Bf16Order>(known));
  for (int first = 0; first < kProductTerms; first += core.group)
    d = tensor_core_sum(core, d, [&](int k, std::uint16_t& x, std::uint16_t& y) {
      x = left[first + k];
      y = right[first + k];
    });
  return d;
}

// The numbers of an operand of a warpgroup. Where they lie is as NVIDIA's PTX ISA says of matrix
// descriptors, in octets: eight lines follow each other, then the next eight, `eight_lines` bytes
// later; with columns side by side, the next 64 columns lie `block` bytes later. A swizzle of 1
// exchanges octets by three bits of the address, of lines of 128 bytes, one of 2 by two, of 64.
class WarpgroupOperand {
 public:
  WarpgroupOperand(std::uint64_t descriptor, bool side_by_side)
      : first_(bits(descriptor, 0)),
        block_(bits(descriptor, 16)),
        eight_lines_(bits(descriptor, 32)),
        side_by_side_(side_by_side),
        line_(descriptor >> 62 == 1 ? 128 : 64) {
    if (descriptor >> 62 != 1 && descriptor >> 62 != 2)
      fail("an operand of a warpgroup in lines of neither 64 nor 128 bytes");
  }
  // Of a row of a or a column of b.
  std::uint16_t operator()(int row, int term) const {
    const int line = side_by_side_ ? term : row, along = side_by_side_ ? row : term;
    const auto number = static_cast<std::size_t>(along);
    const std::size_t in_line = line_ / 2;  // numbers
    std::size_t at = first_ + static_cast<std::size_t>(line % 8) * line_ +
                     static_cast<std::size_t>(line / 8) * eight_lines_ + number / in_line * block_ +
                     number % in_line / 8 * 16;
    at ^= (at >> 7 & (line_ / 16 - 1)) << 4;
    at += number % 8 * 2;
    if (at + 2 > t_block->memory_bytes()) fail("an operand of a warpgroup beyond shared memory");
    std::uint16_t value = 0;
    std::memcpy(&value, static_cast<const char*>(t_block->memory()) + at, sizeof value);
    return value;
  }

 private:
  static std::size_t bits(std::uint64_t descriptor, int first) {
    return (descriptor >> first & 0x3fff) << 4;
  }

  std::size_t first_, block_, eight_lines_;
  bool side_by_side_;
  std::size_t line_;  // bytes
};

void compute(const WarpgroupProduct& product) {
  const WarpgroupOperand a(product.a, false), b(product.b, product.side_by_side);
  const int lane = t_block->lane(), first_row = t_block->warp_number() % 4 * 16 + lane / 4;
  std::uint16_t left[2][kProductTerms], right[kProductTerms];
  for (int lower = 0; lower < 2; ++lower)
    for (int term = 0; term < kProductTerms; ++term)
      left[lower][term] = a(first_row + 8 * lower, term);
  for (int i = 0; i < product.columns / 4; ++i) {
    const int column = i / 2 * 8 + lane % 4 * 2 + i % 2;
    for (int term = 0; term < kProductTerms; ++term) right[term] = b(column, term);
    for (int lower = 0; lower < 2; ++lower) {
      float& sum = product.sums[i / 2 * 4 + lower * 2 + i % 2];
      sum = add_terms(sum, left[lower], right);
    }
  }
}

}  // namespace

void add_bf16_products(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const auto* const operands = t_block->operands(a, b);
  const int lane = t_block->lane(), group = lane / 4, in_group = lane % 4;
  for (int i = 0; i < 4; ++i) {
    const int lower = i / 2, column = in_group * 2 + i % 2;
    std::uint16_t left[kProductTerms], right[kProductTerms];
    for (int term = 0; term < kProductTerms; ++term) {
      const int pair = term / 2, shift = term % 2 * 16;
      left[term] =
          static_cast<std::uint16_t>(operands[group * 4 + pair % 4][pair / 4 * 2 + lower] >> shift);
      right[term] =
          static_cast<std::uint16_t>(operands[column * 4 + pair % 4][4 + pair / 4] >> shift);
    }
    d[i] = add_terms(d[i], left, right);
  }
}
void add_warpgroup_products(float* sums, int columns, bool side_by_side, std::uint64_t a,
                            std::uint64_t b) {
  WarpgroupProducts& products = t_block->products();
  const WarpgroupProduct product{sums, columns, side_by_side, a, b, products.groups};
  if (t_order == Order::kForward)
    compute(product);
  else
    products.pending.push_back(product);
}
void end_products() { ++t_block->products().groups; }
void wait_for_products(int groups) {
  WarpgroupProducts& products = t_block->products();
  for (auto& pending = products.pending;
       !pending.empty() && pending.front().group < products.groups - groups; pending.pop_front())
    compute(pending.front());
}
void stop() { fail("a kernel that this device cannot run"); }
unsigned shared_address(const void* place) {
  return static_cast<unsigned>(static_cast<const char*>(place) -
                               static_cast<const char*>(t_block->memory()));
}
int lane() { return t_block->lane(); }
void copy16(void* shared, const void* from, bool there) {
  if (reinterpret_cast<std::uintptr_t>(shared) % 16 != 0 ||
      (there && reinterpret_cast<std::uintptr_t>(from) % 16 != 0))
    fail("a copy of 16 bytes that are not at a multiple of 16");
  Copies& copies = t_block->copies();
  copies.pending.push_back({shared, there ? from : nullptr, copies.groups});
}
void end_copies() { ++t_block->copies().groups; }
void wait_for_copies(int groups) {
  Copies& copies = t_block->copies();
  for (auto& pending = copies.pending;
       !pending.empty() && pending.front().group < copies.groups - groups; pending.pop_front()) {
    const Copy& copy = pending.front();
    if (copy.from == nullptr)
      std::memset(copy.to, 0, 16);
    else
      std::memcpy(copy.to, copy.from, 16);
  }
}
void* shared_memory() { return t_block->memory(); }

void run(const Grid& grid, const std::function<void()>& kernel) {
  Block block(grid, kernel);
  Block* const before = std::exchange(t_block, &block);
  gridDim = grid.blocks;
  blockDim = grid.threads;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) block.run();
  t_block = before;
}

}  // namespace podium::cuda_emulated::simt
