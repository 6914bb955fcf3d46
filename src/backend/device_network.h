// Messages between the memories of devices of several processes, which go past the hosts. A device
// that has such a network is a NetworkedDevice as well as a Device; a transport asks for it
// (parallel/network_transport.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/device.h"

namespace podium {

// Bytes for another rank's device, or from it.
struct DeviceMessage {
  int rank = 0;
  View view;
};

// One rank's end of the network. All ranks start the same exchanges in the same order; what one
// sends to another is what that one receives from it, in this order. Failures throw UserError in
// the words of the network's library, after which only abort() may be called.
class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;
  // Whether an exchange can be started: all ranks have joined, and earlier ones are under way.
  virtual bool is_ready() = 0;
  // Begins an exchange, after all earlier calls on the device; returns at once. Only when the
  // network is ready.
  virtual void start(int channel, std::span<const DeviceMessage> out,
                     std::span<const DeviceMessage> in) = 0;
  // Whether all of it has come and gone.
  virtual bool arrived(int channel) = 0;
  // Later calls on the device come after it.
  virtual void finish(int channel) = 0;
  // Gives up what is under way. Other ranks learn of it, or have to be told.
  virtual void abort() noexcept = 0;
};

class NetworkedDevice {
 public:
  virtual ~NetworkedDevice() = default;
  // What carries the messages, with its version, for people: "NCCL 2.28.9".
  virtual std::string network_name() const = 0;
  // Why the device has no network, for people; empty if it has one.
  virtual std::string network_missing() const = 0;
  // Two processes of a host with the same text share the device.
  virtual std::string network_id() const = 0;
  // What ranks join by: one of them makes it, and it reaches the others in some other way.
  virtual std::string make_network_key() = 0;
  // By all ranks; returns at once. `names` of the ranks are for messages.
  virtual std::unique_ptr<DeviceNetwork> join_network(const std::string& key, int rank,
                                                      std::span<const std::string> names) = 0;
};

}  // namespace podium
