// What a device that is no core of the host can do at best: benchmarks print what they reach over
// it. A backend whose devices know it is a MeasuredDevice as well as a Device.
#pragma once

namespace podium {

// The roof of a device: rates per second.
struct DeviceRoof {
  // FP32 operations in fused multiply-adds, and operations in products of BF16 operands.
  double flops = 0, bf16_flops = 0;
  // Bytes read and written by a copy within the device's cache, and by one beyond it.
  double near_bytes = 0, far_bytes = 0;
  // A kernel that moves more bytes than these does not find them in the cache.
  double cache_bytes = 0;
};

// A device that knows its roof.
class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;
  // Takes some milliseconds, and memory of the device meanwhile. Waits for all earlier calls.
  virtual DeviceRoof roof() = 0;
};

}  // namespace podium
