// Objects of a store as files of this machine: what is read from a store is copied into the user's
// cache folder first, in parallel, each object checked, and kept as long as it has not changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "store/http.h"

namespace podium {

struct CopyOptions {
  HttpPatience patience = {};
  StopToken stop = {};
  // The most that all copies may take; the least recently used ones make room. 0: what
  // PODIUM_CACHE_LIMIT says ("200GiB"), or else all but a twentieth of the disk.
  std::int64_t limit_bytes = 0;
  int at_once = 8;  // requests
};

// The file or folder that has the objects of `address`: one object, those below a prefix, or those
// that a pattern of shards (data/pictures/shards/shard_pattern.h) can mean, which then ends the
// path. The objects are listed anew, and those that changed are copied anew. Throws UserError:
// kData, which names the object, if there is none, one cannot be read, changes meanwhile or is
// damaged on its way, or they are larger than the limit.
std::string local_copy(const std::string& address, const CopyOptions& options = {});

// From now on, local_path() throws Stopped while it copies once `*request` is not 0; null: never.
// For programs whose signals stop a run; `*request` must outlive all copies.
void stop_copies_at(const std::atomic<int>* request);

// `path`, or the copy of what it names in a store: objects, or a folder that podium published
// (store/stored_folder.h), such as a run.
std::string local_path(const std::string& path);

}  // namespace podium
