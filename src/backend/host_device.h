// A device whose memory is the host's: what it is asked is done when the call returns.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/device.h"
#include "tensor/tensor.h"

namespace podium {

class HostDevice : public Device {
 public:
  using Device::Device;
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override;
  std::unique_ptr<Buffer> adopt(void* memory, std::int64_t bytes) override;
  void upload(View to, const void* from) override;
  void download(void* to, View from) override;
  void copy(View to, View from) override;
  void synchronise() override {}
};

// The inputs, outputs, donations and milestones of a graph's plan; the rest is the device's. Throws
// InternalError where a donation or a milestone names none of the graph's, or a donation one twice,
// or joins unlike types.
Plan interface_of(const Graph& graph, const CompileOptions& options);

}  // namespace podium
