#include "backend/cuda/emulated/emulated.h"

#include "backend/cuda/cuda_device.h"
#include "backend/cuda/emulated/simt_emulated.h"
#include "backend/cuda/runtime.h"

namespace podium {

void register_cuda_emulated_backend() {
  register_backend("cuda-emulated", cuda_emulated::make_cuda_device);
}

void set_cuda_thread_order(const std::string& order) {
  using cuda_emulated::simt::Order;
  cuda_emulated::simt::set_order(order == "reverse"    ? Order::kReverse
                                 : order == "shuffled" ? Order::kShuffled
                                                       : Order::kForward);
}

void fail_cuda_from(std::optional<std::int64_t> call, int gpu) {
  cuda_emulated::runtime::fail_from(call, gpu);
}
void set_cuda_devices(int count) { cuda_emulated::runtime::set_devices(count); }
void set_cuda_code_version(int version) { cuda_emulated::runtime::set_code_version(version); }
void set_cuda_capability(int major, int minor, bool odd) {
  cuda_emulated::runtime::set_capability(major, minor);
  cuda_emulated::simt::set_tensor_core(
      odd ? std::nullopt : std::optional(major == 8 ? Bf16Order::kAmpere : Bf16Order::kHopper));
}
void set_cuda_memory(std::int64_t bytes) { cuda_emulated::runtime::set_memory(bytes); }
void set_cuda_late(bool late) { cuda_emulated::runtime::set_late(late); }
std::int64_t cuda_overtaken() { return cuda_emulated::runtime::overtaken(); }
std::int64_t cuda_calls() { return cuda_emulated::runtime::calls(); }

}  // namespace podium
