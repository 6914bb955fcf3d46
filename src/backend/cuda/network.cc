#include "backend/cuda/network.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/nccl.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

const nccl::Functions& functions() { return nccl::library().functions; }

// `comm` may be null; NCCL then has less to say.
void require(int result, const std::string& call, nccl::Comm comm) {
  if (result == nccl::kSuccess) return;
  const char* const last = functions().get_last_error(comm);
  const std::string more = last == nullptr || *last == '\0' ? "" : cat(" (", last, ")");
  throw UserError(cat("NCCL failed in ", call, ": ", functions().get_error_string(result), more));
}

class NcclNetwork final : public DeviceNetwork {
 public:
  NcclNetwork(Queue& queue, const std::string& key, int rank, std::span<const std::string> names)
      : queue_(queue), names_(names.begin(), names.end()) {
    nccl::UniqueId id;
    PODIUM_CHECK(key.size() == sizeof id.bytes, "a key of ", key.size(), " bytes");
    std::memcpy(id.bytes, key.data(), sizeof id.bytes);
    runtime::use(queue_.device);
    nccl::Config config;
    require_begun(functions().comm_init_rank_config(&comm_, static_cast<int>(names_.size()), id,
                                                    rank, &config),
                  "ncclCommInitRankConfig", nullptr);
    stream_ = runtime::make_stream();
  }
  ~NcclNetwork() override {
    // Only when nothing is under way may it be taken down in order.
    int state = nccl::kSuccess;
    if (comm_ != nullptr && (functions().comm_get_async_error(comm_, &state) != nccl::kSuccess ||
                             state != nccl::kSuccess || under_way_ > 0))
      abort();
    if (comm_ != nullptr) (void)functions().comm_destroy(comm_);
    if (stream_ != nullptr) runtime::destroy_stream(stream_);
  }
  NcclNetwork(const NcclNetwork&) = delete;
  NcclNetwork& operator=(const NcclNetwork&) = delete;

  bool is_ready() override {
    const std::scoped_lock lock(queue_.mutex);
    return is_idle("joining the other ranks");
  }

  void start(int channel, std::span<const DeviceMessage> out,
             std::span<const DeviceMessage> in) override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    // What the device was asked to write must be done before it is sent.
    runtime::follow(stream_, queue_.current());
    ++under_way_;
    require(functions().group_start(), "ncclGroupStart", comm_);
    std::string failure;
    for (const bool sends : {true, false})
      for (const DeviceMessage& message : sends ? out : in)
        if (failure.empty()) failure = post(message, sends);
    // Each group that was begun must be ended, or the next calls would join it.
    const int ended = functions().group_end();
    PODIUM_REQUIRE(failure.empty(), ExitCode::kUsage, failure);
    require_begun(ended, "ncclGroupEnd", comm_);
    unmarked_.push_back(channel);
    if (ended == nccl::kSuccess) set_marks();
  }

  bool arrived(int channel) override {
    const std::scoped_lock lock(queue_.mutex);
    return is_idle("an exchange between GPUs") && events_.at(channel)->is_done();
  }

  void finish(int channel) override {
    const std::scoped_lock lock(queue_.mutex);
    queue_.settle();
    events_.at(channel)->hold(queue_.current());
    --under_way_;
  }

  void abort() noexcept override {
    if (comm_ != nullptr) (void)functions().comm_abort(std::exchange(comm_, nullptr));
    under_way_ = 0;
  }

 private:
  // Of a call that NCCL goes on with by itself.
  static void require_begun(int result, const std::string& call, nccl::Comm comm) {
    if (result != nccl::kInProgress) require(result, call, comm);
  }
  // Whether NCCL has done what it was asked for; what it enqueues is then in the stream.
  bool is_idle(const char* doing) {
    runtime::use(queue_.device);
    int state = nccl::kSuccess;
    require(functions().comm_get_async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
    if (state == nccl::kInProgress) return false;
    require(state, doing, comm_);
    set_marks();
    return true;
  }
  // Of exchanges whose messages are in the stream.
  void set_marks() {
    for (const int channel : unmarked_) {
      auto& event = events_[channel];
      if (event == nullptr) event = runtime::make_event();
      event->set(stream_);
    }
    unmarked_.clear();
  }
  // What NCCL says if it fails.
  std::string post(const DeviceMessage& message, bool sends) {
    const auto count = static_cast<std::size_t>(message.view.bytes);
    void* const memory = address(message.view, queue_);
    void* const stream = runtime::native(stream_);
    const int result =
        sends ? functions().send(memory, count, nccl::kBytes, message.rank, comm_, stream)
              : functions().recv(memory, count, nccl::kBytes, message.rank, comm_, stream);
    try {
      require(result,
              cat(sends ? "ncclSend to " : "ncclRecv from ",
                  names_[static_cast<std::size_t>(message.rank)]),
              comm_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  Queue& queue_;
  const std::vector<std::string> names_;
  nccl::Comm comm_ = nullptr;
  Stream stream_ = nullptr;
  std::map<int, std::unique_ptr<runtime::Event>> events_;  // by channel
  std::vector<int> unmarked_;                              // channels
  int under_way_ = 0;
};

}  // namespace

namespace nccl {

std::string name() {
  int version = 0;
  if (!library().missing.empty() || library().functions.get_version(&version) != kSuccess)
    return "NCCL";
  // 2.9 was the first with more digits.
  const int scale = version < 10000 ? 1000 : 10000;
  return cat("NCCL ", version / scale, ".", version % scale / 100, ".", version % 100);
}

}  // namespace nccl

std::string make_nccl_key() {
  nccl::UniqueId id;
  require(functions().get_unique_id(&id), "ncclGetUniqueId", nullptr);
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<DeviceNetwork> join_nccl(Queue& queue, const std::string& key, int rank,
                                         std::span<const std::string> names) {
  return std::make_unique<NcclNetwork>(queue, key, rank, names);
}

}  // namespace podium::PODIUM_CUDA_SPACE
