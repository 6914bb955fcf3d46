// NVIDIA GPUs, by kernels of our own that keep the contracts: FP32 results have the bits of the
// CPU's. docs/gpu.md, docs/kernels-cuda.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/space.h"
#include "backend/device.h"

namespace podium::PODIUM_CUDA_SPACE {

// The GPUs of this process, of which each worker computes on one: all of the host, or those of
// DeviceOptions::gpus; where the run has several processes on the host, process i takes number i of
// these modulo their number. Throws UserError if this machine has none that can be used, or not
// those.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);

// The GPUs of this machine.
struct Gpu {
  std::string name;
  std::string compute_capability;  // "9.0"
  std::string bf16_order;          // as recipes name it; empty: none that is known
  std::int64_t memory_bytes = 0;
};
struct Gpus {
  std::string versions;  // of the runtime, of the driver, and of NCCL
  std::string missing;   // why none can be used, and what to do; empty if one can
  std::vector<Gpu> list;
};
Gpus find_gpus();

// What each GPU's tensor cores make of random groups of BF16 products, beside the rule of its order
// (tensor_cores.h): at least so many sums in chains.
struct ProbedGpu {
  std::string name, bf16_order;  // no order: not probed
  std::int64_t sums = 0, differences = 0;
  // Of products of warpgroups, from those of warps; no sums: it has none, or the program for it.
  std::int64_t warpgroup_sums = 0, warpgroup_differences = 0;
};
std::vector<ProbedGpu> probe_gpus(std::int64_t sums);

}  // namespace podium::PODIUM_CUDA_SPACE
