// The backend "cuda-emulated", for tests: the GPU's kernels on one thread of the processor
// (simt_emulated.h), and its memory, which the host cannot touch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace podium {

void register_cuda_emulated_backend();
// The order of the threads of a block between two barriers, on this thread: "forward", "reverse",
// "shuffled".
void set_cuda_thread_order(const std::string& order);
// The emulated GPU fails in the call of CUDA of this number, counted from now on from 0, and in all
// that follow, or of several GPUs this one alone in those of its own. nullopt: in none.
void fail_cuda_from(std::optional<std::int64_t> call, int gpu = -1);
// The calls of CUDA since then.
std::int64_t cuda_calls();
// The bytes that the emulated GPU has from now on.
void set_cuda_memory(std::int64_t bytes);
// The emulated GPU's compute capability from now on, 9.0 unless set, which is also how its tensor
// cores add; not if they are `odd`.
void set_cuda_capability(int major, int minor, bool odd = false);
// The compute capability, times ten, that their code was made for from now on: 90 unless set.
void set_cuda_code_version(int version);
// How many emulated GPUs the host has from now on, 8 at most: 1 unless set.
void set_cuda_devices(int count);
// Whether the streams of emulated GPUs do their work as late as they may from now on: only when
// somebody waits for it. Otherwise, and unless set, at once. While there is no device.
void set_cuda_late(bool late);
// How often values have left a late GPU before other work that it had been asked for earlier.
std::int64_t cuda_overtaken();

// The imitation of NCCL fails in the call of this number that may, counted from now on from 0, and
// in all that follow. nullopt: in none.
void fail_nccl_from(std::optional<std::int64_t> call);
std::int64_t nccl_calls();
// Whether the library is not there.
void set_nccl_missing(bool missing);
// Whether ranks never join, as if one of them had stopped.
void hold_nccl_back(bool held);

}  // namespace podium
