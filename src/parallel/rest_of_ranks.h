// What Transport::without() gives: some ranks of another transport, which carries their messages.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "parallel/transport.h"

namespace podium {

class RestOfRanks final : public Transport {
 public:
  RestOfRanks(Transport& all, const std::vector<int>& left_out);
  // Lets go those that were left out.
  ~RestOfRanks() override;

  void use(Device& device) override;
  void release() override;
  void check_messages(bool on) override { all_.check_messages(on); }
  std::string carrier() const override { return all_.carrier(); }
  void start(int channel, std::span<const Message> out, std::span<const Message> in) override;
  Clock::time_point wait(int channel) override { return all_.wait(channel); }
  bool arrived(int channel) override { return all_.arrived(channel); }
  bool call_library(const std::function<void()>& work) override { return all_.call_library(work); }
  void at(std::int64_t step, const char* doing) override { all_.at(step, doing); }
  void record_in(const std::string& folder, const std::string& lock) override {
    all_.record_in(folder, lock);
  }
  [[noreturn]] void abort(const std::string& why, ExitCode code) override;
  // By those that are left; the others come by themselves.
  void leave() override;
  bool has_left() const override { return all_.has_left(); }

 private:
  void let_go();
  std::vector<Message> as_of_all(std::span<const Message> messages) const;

  Transport& all_;
  std::vector<int> left_out_, ranks_;  // in `all_`
  bool has_let_go_ = false;
};

}  // namespace podium
