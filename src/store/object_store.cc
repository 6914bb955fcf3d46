#include "store/object_store.h"

#include "base/error.h"
#include "store/gcs.h"
#include "store/s3.h"
#include "store/web.h"

namespace podium {

ObjectStore::~ObjectStore() = default;

std::unique_ptr<ObjectStore> open_store(const ObjectAddress& address, const HttpPatience& patience,
                                        StopToken stop) {
  if (address.scheme == "s3") return open_s3(address, s3_settings(), patience, stop);
  if (address.scheme == "gs") return open_gcs(address, patience, stop);
  return open_web(address, patience, stop);
}

}  // namespace podium
