// The devices that conformance_test.cc compares with the reference, and the ways in which each can
// compute.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/kernels/targets.h"
#include "backend/cuda/emulated/emulated.h"
#include "backend/detached/detached_device.h"
#include "backend/device.h"
#include "base/sanitizers.h"

namespace podium {

#ifdef PODIUM_PJRT_CPU_PLUGIN
inline std::vector<std::unique_ptr<Device>> tested_devices(bool /*bf16*/) {
  std::vector<std::unique_ptr<Device>> list;
  list.push_back(make_device("pjrt"));
  return list;
}
#else
// The devices of this build but the reference, whose workers have one core and three.
inline std::vector<std::unique_ptr<Device>> tested_devices(bool bf16) {
  register_detached_backend({.microseconds = 0});
  register_cuda_emulated_backend();
  std::vector<std::unique_ptr<Device>> list;
  for (const std::string& name : backend_names())
    if (name != "reference")
      for (const int threads : {1, 3})
        if (threads == 1 || name != "cuda-emulated")
          list.push_back(make_device(name, {.threads = threads}));
  // And a GPU whose tensor cores add otherwise.
  if (!bf16) return list;
  set_cuda_capability(8, 0);
  list.push_back(make_device("cuda-emulated"));
  set_cuda_capability(9, 0);
  return list;
}
#endif

// What a device may do in several ways: the CPU by its vector targets, the emulated GPU by the
// order of the threads of a block.
inline std::vector<std::string> ways_to_run(const Device& device) {
  if (device.name() == "cpu") return cpu::vector_targets();
#if defined(PODIUM_ADDRESS_SANITIZER) || defined(PODIUM_THREAD_SANITIZER)
  if (device.name() == "cuda-emulated") return {"shuffled"};  // each order is slow
#else
  if (device.name() == "cuda-emulated") return {"forward", "reverse", "shuffled"};
#endif
  return {""};
}
inline void choose_way(const Device& device, const std::string& way) {
  if (device.name() == "cpu") cpu::set_vector_target(way);
  if (device.name() == "cuda-emulated") set_cuda_thread_order(way);
}

}  // namespace podium
