#include <dlfcn.h>

#include <cstddef>

#include "backend/cuda/nccl.h"
#include "base/error.h"
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace podium::cuda::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";

#ifdef NCCL_VERSION_CODE
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) &&
              alignof(UniqueId) == alignof(ncclUniqueId));
static_assert(kSuccess == ncclSuccess && kInProgress == ncclInProgress && kBytes == ncclInt8);
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int));
#endif

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Library open_library() {
  Library library;
  void* const file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* const error = dlerror();
    library.missing = cat(kFile, " cannot be opened: ", error == nullptr ? "no reason" : error);
    return library;
  }
  Functions& f = library.functions;
  const bool complete =
      find(file, "ncclGetVersion", f.get_version) &&
      find(file, "ncclGetUniqueId", f.get_unique_id) &&
      find(file, "ncclCommInitRankConfig", f.comm_init_rank_config) &&
      find(file, "ncclCommDestroy", f.comm_destroy) && find(file, "ncclCommAbort", f.comm_abort) &&
      find(file, "ncclCommGetAsyncError", f.comm_get_async_error) &&
      find(file, "ncclGetErrorString", f.get_error_string) &&
      find(file, "ncclGetLastError", f.get_last_error) && find(file, "ncclSend", f.send) &&
      find(file, "ncclRecv", f.recv) && find(file, "ncclGroupStart", f.group_start) &&
      find(file, "ncclGroupEnd", f.group_end);
  if (!complete) library.missing = cat(kFile, " is too old: version 2.14 or later is needed");
  return library;
}

}  // namespace

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

}  // namespace podium::cuda::nccl
