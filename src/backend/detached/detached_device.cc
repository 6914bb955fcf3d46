#include "backend/detached/detached_device.h"

#include <sys/mman.h>

#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Tasks in the order of their coming, on a thread of its own.
class Queue {
 public:
  explicit Queue(const DetachedOptions& options)
      : options_(options), thread_([this] { serve(); }) {}
  ~Queue() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(std::function<void()> task) {
    {
      const std::scoped_lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
  }
  // Throws what a task threw.
  void wait() {
    drain();
    const std::scoped_lock lock(mutex_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  // Between two tasks, without waiting for any that is still to come.
  void now(const std::function<void()>& work) {
    const std::scoped_lock lock(running_);
    work();
  }

 private:
  void serve() {
    const PhiloxStream words(options_.seed, RandomPurpose::kInitialise, 77);
    for (std::uint32_t number = 0;; ++number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      if (options_.microseconds > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(
            uniform_below(words.word(number), static_cast<std::uint32_t>(options_.microseconds))));
      try {
        const std::scoped_lock running(running_);
        task();
      } catch (...) {
        lock.lock();
        if (!error_) error_ = std::current_exception();
        lock.unlock();
      }
      lock.lock();
      busy_ = false;
      lock.unlock();
      changed_.notify_all();
    }
  }

  const DetachedOptions options_;
  std::mutex mutex_, running_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

// Pages that nobody may touch, but for the time of an Access.
class DetachedBuffer : public Buffer {
 public:
  DetachedBuffer(std::int64_t bytes, Device& inner, Queue& queue)
      : Buffer(bytes, nullptr),
        queue_(queue),
        mapped_(static_cast<std::size_t>(bytes == 0 ? 1 : bytes)) {
    memory_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    adopted_ = inner.adopt(memory_, bytes);
  }
  ~DetachedBuffer() override {
    queue_.drain();
    munmap(memory_, mapped_);
  }

  void protect(int access) const {
    PODIUM_CHECK(mprotect(memory_, mapped_, access) == 0, "mprotect failed");
  }
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }
  Buffer& adopted() const { return *adopted_; }

 private:
  Queue& queue_;
  std::size_t mapped_;
  void* memory_;
  std::unique_ptr<Buffer> adopted_;  // the same memory, for the device that computes
};

DetachedBuffer& buffer_of(const View& view) { return static_cast<DetachedBuffer&>(*view.buffer); }
std::byte* memory_of(const View& view) { return buffer_of(view).memory() + view.offset; }
View adopted(const View& view) { return {buffer_of(view).adopted(), view.offset, view.bytes}; }

// Buffers that the device uses now.
class Access {
 public:
  explicit Access(std::span<const View> views) {
    for (const View& view : views) buffers_.insert(&buffer_of(view));
    for (const DetachedBuffer* buffer : buffers_) buffer->protect(PROT_READ | PROT_WRITE);
  }
  ~Access() {
    for (const DetachedBuffer* buffer : buffers_) buffer->protect(PROT_NONE);
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  std::set<const DetachedBuffer*> buffers_;
};

// Which calls are wrong.
class Faults {
 public:
  explicit Faults(const DetachedOptions& options) : options_(options) {}
  // Of one more call that `fault` concerns.
  bool strikes(Fault fault) {
    if (fault != options_.fault) return false;
    const std::scoped_lock lock(mutex_);
    const PhiloxStream words(options_.seed, RandomPurpose::kInitialise, 78);
    return uniform_below(words.word(calls_++), static_cast<std::uint32_t>(options_.period)) == 0;
  }

 private:
  const DetachedOptions options_;
  std::mutex mutex_;
  std::uint32_t calls_ = 0;
};

// What the executables need of their device.
struct Shared {
  explicit Shared(const DetachedOptions& detached) : faults(detached), queue(detached) {}
  std::unique_ptr<Device> inner = make_device("cpu");
  Faults faults;
  Queue queue;
};

// A product of matrices, summed from the last term to the first.
void multiply_backwards(const MatmulAttributes& a, const TensorType& left, const TensorType& right,
                        const float* x, const float* y, float* z) {
  const std::int64_t rows = left.shape[a.transpose_a ? 1 : 0],
                     terms = left.shape[a.transpose_a ? 0 : 1],
                     columns = right.shape[a.transpose_b ? 0 : 1];
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::int64_t k = terms; k-- > 0;)
        sum += x[a.transpose_a ? k * rows + i : i * terms + k] *
               y[a.transpose_b ? j * terms + k : k * columns + j];
      z[i * columns + j] = sum;
    }
  }
}

class DetachedExecutable : public Executable {
 public:
  DetachedExecutable(Shared& shared, const Graph& graph, const CompileOptions& options)
      : shared_(shared), program_(shared.inner->compile(graph, inner_options(options))) {
    for (const Node& node : graph.nodes())
      if (node.op == &matmul_op && graph.inputs().size() == 2 && graph.outputs().size() == 1)
        product_ = node.attributes.as<MatmulAttributes>();
  }

  ~DetachedExecutable() override { shared_.queue.drain(); }

  const Plan& plan() const override { return program_->plan(); }

  void run(std::span<const View> inputs, std::span<const View> outputs) override {
    shared_.queue.add([this, in = std::vector<View>(inputs.begin(), inputs.end()),
                       out = std::vector<View>(outputs.begin(), outputs.end())] { work(in, out); });
  }

  std::optional<std::string> find_non_finite(std::span<const View> inputs,
                                             std::span<const View> outputs) override {
    std::optional<std::string> found;
    shared_.queue.add([&] {
      const Access access(all(inputs, outputs));
      found = program_->find_non_finite(adopted_of(inputs), adopted_of(outputs));
    });
    shared_.queue.wait();
    return found;
  }

 private:
  static CompileOptions inner_options(CompileOptions options) {
    options.worker = 0;
    options.awaited = false;
    if (options.arena_of != nullptr)
      options.arena_of = static_cast<const DetachedExecutable*>(options.arena_of)->program_.get();
    return options;
  }
  static std::vector<View> all(std::span<const View> inputs, std::span<const View> outputs) {
    std::vector<View> views(inputs.begin(), inputs.end());
    views.insert(views.end(), outputs.begin(), outputs.end());
    return views;
  }
  static std::vector<View> adopted_of(std::span<const View> views) {
    std::vector<View> list;
    for (const View& view : views) list.push_back(adopted(view));
    return list;
  }

  // On the queue.
  void work(const std::vector<View>& inputs, const std::vector<View>& outputs) {
    const Access access(all(inputs, outputs));
    std::vector<View> in = adopted_of(inputs);
    const std::vector<View> out = adopted_of(outputs);
    std::vector<std::vector<std::byte>> kept;
    const bool keeps = !plan().donated.empty() && shared_.faults.strikes(Fault::kDonation);
    for (const auto& [output, input] : plan().donated) {
      const std::byte* const old = memory_of(inputs[static_cast<std::size_t>(input)]);
      if (keeps) kept.emplace_back(old, old + inputs[static_cast<std::size_t>(input)].bytes);
    }
    program_->run(in, out);
    for (std::size_t i = 0; i < kept.size(); ++i)
      std::memcpy(memory_of(inputs[static_cast<std::size_t>(plan().donated[i].second)]),
                  kept[i].data(), kept[i].size());
    if (product_ && shared_.faults.strikes(Fault::kOrder))
      multiply_backwards(*product_, plan().inputs[0].type, plan().inputs[1].type,
                         reinterpret_cast<const float*>(memory_of(inputs[0])),
                         reinterpret_cast<const float*>(memory_of(inputs[1])),
                         reinterpret_cast<float*>(memory_of(outputs[0])));
    if (shared_.faults.strikes(Fault::kBit)) *memory_of(outputs.back()) ^= std::byte{1};
  }

  Shared& shared_;
  std::unique_ptr<Executable> program_;
  std::optional<MatmulAttributes> product_;  // of a graph that is one product
};

class DetachedDevice : public Device {
 public:
  DetachedDevice(const DeviceOptions& options, const DetachedOptions& detached)
      : Device(options), traits_(detached.traits), shared_(detached) {}

  std::string name() const override { return "detached"; }
  std::string description() const override {
    return "for tests: memory that the host cannot access";
  }
  Traits traits() const override { return traits_; }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    return std::make_unique<DetachedBuffer>(bytes, *shared_.inner, shared_.queue);
  }

  void upload(View to, const void* from) override {
    if (shared_.faults.strikes(Fault::kUpload)) return;
    const auto* const bytes = static_cast<const std::byte*>(from);
    shared_.queue.add([to, copy = std::vector<std::byte>(bytes, bytes + to.bytes)] {
      const Access access({&to, 1});
      std::memcpy(memory_of(to), copy.data(), copy.size());
    });
  }

  void download(void* to, View from) override {
    if (shared_.faults.strikes(Fault::kDownload)) return;
    const auto copy = [&] {
      const Access access({&from, 1});
      std::memcpy(to, memory_of(from), static_cast<std::size_t>(from.bytes));
    };
    if (shared_.faults.strikes(Fault::kSynchronise)) return shared_.queue.now(copy);
    shared_.queue.add(copy);
    shared_.queue.wait();
  }

  void copy(View to, View from) override {
    shared_.queue.add([to, from] {
      const View both[] = {to, from};
      const Access access(both);
      std::memcpy(memory_of(to), memory_of(from), static_cast<std::size_t>(to.bytes));
    });
  }

  void accumulate(View sum, View addend, int worker) override {
    shared_.queue.add([this, sum, addend, worker] {
      const View both[] = {sum, addend};
      const Access access(both);
      shared_.inner->accumulate(adopted(sum), adopted(addend), worker);
    });
  }

  void synchronise() override { shared_.queue.wait(); }

  Plan plan(const Graph& graph, const CompileOptions& compile) override {
    return shared_.inner->plan(
        graph,
        {.arena_of = compile.arena_of, .fuse = compile.fuse, .donations = compile.donations});
  }
  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& compile) override {
    return std::make_unique<DetachedExecutable>(shared_, graph, compile);
  }

 private:
  Traits traits_;
  Shared shared_;
};

DetachedOptions& registered() {
  static DetachedOptions options;
  return options;
}

}  // namespace

std::unique_ptr<Device> make_detached_device(const DeviceOptions& options,
                                             const DetachedOptions& detached) {
  return std::make_unique<DetachedDevice>(options, detached);
}

void register_detached_backend(const DetachedOptions& detached) {
  registered() = detached;
  register_backend("detached", [](const DeviceOptions& options) {
    return make_detached_device(options, registered());
  });
}

}  // namespace podium
