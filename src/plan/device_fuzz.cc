// What a stranger's file of devices may do: be refused by a UserError, or be read; and what is read
// has a name, a source and numbers above zero.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "plan/device_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto devices =
        podium::parse_devices(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const podium::DeviceSpec& device : devices) {
      PODIUM_CHECK(!device.name.empty() && !device.source.empty() && !device.flops.empty());
      PODIUM_CHECK(device.bandwidth > 0 && device.node_link > 0 && device.memory_bytes > 0);
    }
  } catch (const podium::UserError&) {
  }
  return 0;
}
