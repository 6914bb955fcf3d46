#include "parallel/network_transport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "backend/device_network.h"

namespace podium {
namespace {

class NetworkTransport final : public Transport {
 public:
  NetworkTransport(std::unique_ptr<Transport> hosts, double timeout)
      : hosts_(std::move(hosts)), timeout_(timeout) {
    std::vector<int> all(static_cast<std::size_t>(hosts_->ranks()));
    std::iota(all.begin(), all.end(), 0);
    take_ranks(*hosts_, all);
    sent_.assign(all.size(), 0);
    awaited_.assign(all.size(), 0);
  }

  void use(Device& device) override {
    Transport::use(device);
    hosts_->use(device);
    connect(device);
  }
  void release() override {
    network_ = nullptr;
    failure_.clear();
    hosts_->release();
    Transport::release();
  }
  std::string carrier() const override { return carrier_; }
  void check_messages(bool on) override { hosts_->check_messages(on); }

  void start(int channel, std::span<const Message> out, std::span<const Message> in) override {
    if (network_ == nullptr || channel == kControl) return hosts_->start(channel, out, in);
    require_network();
    Exchange& own = exchange_of(channel);
    own.host_out.clear();
    own.host_in.clear();
    own.device_out.clear();
    own.device_in.clear();
    divide(out, own.host_out, own.device_out);
    divide(in, own.host_in, own.device_in);
    for (std::size_t r = 0; r < own.words_out.size(); ++r) {
      const int rank = static_cast<int>(r);
      own.sends[r] =
          std::ranges::find(own.device_out, rank, &DeviceMessage::rank) != own.device_out.end();
      own.receives[r] =
          std::ranges::find(own.device_in, rank, &DeviceMessage::rank) != own.device_in.end();
      // Which of its exchanges with that rank this is.
      if (own.sends[r]) own.words_out[r] = ++sent_[r];
      if (own.receives[r]) own.expected[r] = ++awaited_[r];
      if (own.sends[r]) own.host_out.push_back({rank, own.memory_out[r]});
      if (own.receives[r]) own.host_in.push_back({rank, own.memory_in[r]});
    }
    own.has_device = !own.device_out.empty() || !own.device_in.empty();
    hosts_->start(channel, own.host_out, own.host_in);
    if (own.has_device)
      on_network([&] {
        await([&] { return network_->is_ready(); }, "the GPUs of all ranks are not connected");
        network_->start(channel, own.device_out, own.device_in);
      });
  }

  Clock::time_point wait(int channel) override {
    if (network_ == nullptr || channel == kControl) return hosts_->wait(channel);
    require_network();
    const Clock::time_point end = hosts_->wait(channel);
    Exchange& own = exchange_of(channel);
    if (!own.has_device) return end;
    for (std::size_t r = 0; r < own.expected.size(); ++r)
      PODIUM_CHECK(!own.receives[r] || own.words_in[r] == own.expected[r],
                   name(static_cast<int>(r)), " has exchanged with ", name(rank()),
                   " in another order");
    on_network([&] {
      await([&] { return network_->arrived(channel); },
            "the GPUs' messages have not come, although all ranks have sent them");
      network_->finish(channel);
    });
    return Clock::now();
  }

  bool arrived(int channel) override {
    if (network_ == nullptr || channel == kControl) return hosts_->arrived(channel);
    require_network();
    bool all = hosts_->arrived(channel);
    if (all && exchange_of(channel).has_device)
      on_network([&] { all = network_->arrived(channel); });
    return all;
  }

  bool call_library(const std::function<void()>& work) override {
    return hosts_->call_library(work);
  }
  void at(std::int64_t step, const char* doing) override { hosts_->at(step, doing); }
  void record_in(const std::string& folder, const std::string& lock) override {
    hosts_->record_in(folder, lock);
  }
  [[noreturn]] void abort(const std::string& why, ExitCode code) override {
    hosts_->abort(why, code);
    std::terminate();  // not reached; gcc does not know it of a call of a virtual function
  }
  // The rest has a network of its own.
  std::unique_ptr<Transport> without(const std::vector<int>& left_out) override {
    return std::make_unique<NetworkTransport>(hosts_->without(left_out), timeout_);
  }
  void leave() override { hosts_->leave(); }
  bool has_left() const override { return hosts_->has_left(); }

 private:
  // What goes by a channel.
  struct Exchange {
    explicit Exchange(std::size_t ranks)
        : words_out(ranks), words_in(ranks), expected(ranks), sends(ranks), receives(ranks) {
      for (std::size_t r = 0; r < ranks; ++r) {
        memory_out.emplace_back(&words_out[r], sizeof words_out[r]);
        memory_in.emplace_back(&words_in[r], sizeof words_in[r]);
      }
    }
    std::vector<Message> host_out, host_in;
    std::vector<DeviceMessage> device_out, device_in;
    // By rank: the words, and whether they are used.
    std::vector<std::uint64_t> words_out, words_in, expected;
    std::deque<HostMemory> memory_out, memory_in;
    std::vector<bool> sends, receives;
    bool has_device = false;
  };

  Exchange& exchange_of(int channel) {
    const std::scoped_lock lock(mutex_);
    std::unique_ptr<Exchange>& found = exchanges_[static_cast<std::size_t>(channel)];
    if (found == nullptr) found = std::make_unique<Exchange>(static_cast<std::size_t>(ranks()));
    return *found;
  }

  static void divide(std::span<const Message> all, std::vector<Message>& of_hosts,
                     std::vector<DeviceMessage>& of_devices) {
    for (const Message& message : all) {
      if (message.view.bytes == 0) continue;
      if (message.view.host() != nullptr)
        of_hosts.push_back(message);
      else
        of_devices.push_back({message.rank, message.view});
    }
  }

  // By all ranks: whether each has a device of its own with a network, and joins it.
  void connect(Device& device) {
    auto* const networked = dynamic_cast<NetworkedDevice*>(&device);
    carrier_ = networked == nullptr ? "" : "MPI, through memory of the hosts";
    const std::string reason = networked == nullptr           ? "-"
                               : device.options().workers > 1 ? "it has several workers"
                                                              : networked->network_missing();
    // Of each rank: why it has no network, and which device it has.
    const std::vector<std::string> reasons = hosts_->gather(reason);
    const std::vector<std::string> devices =
        hosts_->gather(networked == nullptr ? "" : networked->network_id());
    std::set<std::pair<std::string, std::string>> seen;
    for (std::size_t r = 0; r < reasons.size(); ++r) {
      const int rank = static_cast<int>(r);
      if (reasons[r] == "-") return;  // devices of a kind that has none
      std::string why = reasons[r];
      if (why.empty() && !seen.emplace(host(rank), devices[r]).second)
        why = "it shares its GPU with another rank";
      if (why.empty()) continue;
      carrier_ += cat(" (not NCCL: ", name(rank), ": ", why, ")");
      return;
    }
    const std::string key = hosts_->gather(rank() == 0 ? networked->make_network_key() : "")[0];
    std::vector<std::string> names;
    for (int r = 0; r < ranks(); ++r) names.push_back(name(r));
    network_ = networked->join_network(key, rank(), names);
    on_network([&] {
      await([&] { return network_->is_ready(); }, "the GPUs of all ranks are not connected");
    });
    hosts_->release();  // which then leaves memory of devices alone
    carrier_ = cat(networked->network_name(), " between GPUs, MPI between hosts");
  }

  // Until it is done. `failure`: what to say after the timeout.
  template <typename Done>
  void await(const Done& done, const char* failure) const {
    const Clock::time_point start = Clock::now();
    for (int looks = 0; !done(); ++looks) {
      PODIUM_REQUIRE(seconds_since(start) < timeout_, ExitCode::kRankLost, failure, ", after ",
                     timeout_, " s (--rank-timeout)");
      // Most come within microseconds of each other.
      if (looks > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  // Once the network has failed nothing may be awaited from it.
  void require_network() {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw UserError(failure_, ExitCode::kRankLost);
  }
  template <typename Work>
  void on_network(const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      failure_ = error.what();
      network_->abort();
      throw;
    }
  }

  const std::unique_ptr<Transport> hosts_;
  const double timeout_;
  std::unique_ptr<DeviceNetwork> network_;
  std::string carrier_;
  std::vector<std::uint64_t> sent_, awaited_;  // exchanges with each rank
  std::mutex mutex_;
  // Under mutex_:
  std::array<std::unique_ptr<Exchange>, kChannels> exchanges_;  // made at their first use
  std::string failure_;
};

}  // namespace

std::unique_ptr<Transport> network_transport(std::unique_ptr<Transport> hosts, double timeout) {
  return std::make_unique<NetworkTransport>(std::move(hosts), timeout);
}

}  // namespace podium
