// The functions of NVIDIA's library NCCL that the backend calls, and no others: they move bytes
// between GPUs, and add nothing. None of them waits for other ranks. The library is opened when it
// is first asked for, so that a program needs it neither to be built nor to start. The tests have
// an imitation (nccl_emulated.cc).
#pragma once

#include <cstddef>
#include <string>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE::nccl {

// NCCL's own types, as its binary interface has had them since 2.14.
using Comm = void*;  // ncclComm_t
struct UniqueId {    // ncclUniqueId
  char bytes[128];
};
struct Config {  // ncclConfig_t of 2.14, which later versions take, too
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
};
using NativeStream = void*;  // cudaStream_t
// ncclResult_t and ncclDataType_t
constexpr int kSuccess = 0, kInProgress = 7, kBytes = 0;

struct Functions {
  int (*get_version)(int* version);
  int (*get_unique_id)(UniqueId* id);
  int (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  int (*comm_destroy)(Comm comm);
  int (*comm_abort)(Comm comm);
  int (*comm_get_async_error)(Comm comm, int* error);
  const char* (*get_error_string)(int result);
  const char* (*get_last_error)(Comm comm);
  int (*send)(const void* from, std::size_t count, int type, int peer, Comm comm,
              NativeStream stream);
  int (*recv)(void* to, std::size_t count, int type, int peer, Comm comm, NativeStream stream);
  int (*group_start)();
  int (*group_end)();
};

struct Library {
  Functions functions{};
  std::string missing;  // why there is none, for people; empty if there is one
};
// Opened once.
const Library& library();

// "NCCL 2.28.9"; "NCCL" where it is missing.
std::string name();

}  // namespace podium::PODIUM_CUDA_SPACE::nccl
