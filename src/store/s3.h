// S3, and the stores with its interface (Ceph, MinIO, Google's with HMAC keys).
#pragma once

#include <memory>

#include "store/credentials.h"
#include "store/object_store.h"

namespace podium {

std::unique_ptr<ObjectStore> open_s3(const ObjectAddress& address, S3Settings settings,
                                     const HttpPatience& patience, StopToken stop);

}  // namespace podium
