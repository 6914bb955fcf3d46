// The capabilities of a device, from its data sheet: devices/*.toml, one [[device]] each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace podium {

// How a device executes operations, which determines what fraction of its peak they reach.
enum class Family {
  kGpu,     // kernels that are launched one by one
  kMatrix,  // a whole step is compiled for large matrix units: TPU, Gaudi, Ascend
};

struct DeviceSpec {
  std::string name, description;
  Family family = Family::kGpu;
  std::map<std::string, double> flops;  // peak, by precision: "fp32", "bf16", "fp16"; FLOP/s
  double memory_bytes = 0;
  double bandwidth = 0;       // of that memory, bytes/s
  std::int64_t per_node = 1;  // devices that the fast links join; 0: all
  double node_link = 0;       // of one device to those of its node, bytes/s, one direction
  double network_link = 0;    // of one device to other nodes: its share of the node's, bytes/s
  double latency = 0;         // of one message between nodes, seconds
  double host_cores = 0;      // of the host, for each device; 0: unknown
  std::string source;

  // The peak of the fastest precision at most as wide as `precision`. UserError if there is none.
  double peak(const std::string& precision) const;
};

// Throws UserError that names `source`, line, rule and remedy of every fault.
std::vector<DeviceSpec> parse_devices(std::string_view text, const std::string& source);
// Of all files: $PODIUM_DEVICES, devices/ in the current folder, beside the program,
// share/podium/devices.
std::vector<DeviceSpec> known_devices();
// Throws UserError with the nearest names if there is none.
const DeviceSpec& find_device(const std::string& name, const std::vector<DeviceSpec>& devices);

}  // namespace podium
