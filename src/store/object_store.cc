#include "store/object_store.h"

#include "base/error.h"
#include "files/file_io.h"
#include "store/gcs.h"
#include "store/s3.h"
#include "store/upload.h"
#include "store/web.h"

namespace podium {

ObjectChanged::ObjectChanged(const std::string& place)
    : UserError(
          cat(place, ": the object changed while it was read; start again, when nobody writes it"),
          ExitCode::kData) {}

ObjectStore::~ObjectStore() = default;

void ObjectStore::write_file(const std::string& key, const std::string& path) {
  if (static_cast<std::int64_t>(InputFile(path).size()) > kPartBytes)
    write_parts(key, path);
  else
    for_each_part(path, [&](std::int64_t, std::string_view bytes) { write(key, bytes, {}); });
}

std::unique_ptr<ObjectStore> open_store(const ObjectAddress& address, const HttpPatience& patience,
                                        StopToken stop) {
  if (address.scheme == "s3") return open_s3(address, s3_settings(), patience, stop);
  if (address.scheme == "gs") return open_gcs(address, patience, stop);
  return open_web(address, patience, stop);
}

}  // namespace podium
