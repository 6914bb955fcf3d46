// A store of objects: S3 and the stores with its interface, Google Cloud Storage, and, for reading,
// a file on the web. An object is replaced as a whole, and nobody sees a part of one. Every failure
// is a UserError(kData) that names the object, what was asked, what the store said and the remedy.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/address.h"
#include "store/http.h"

namespace podium {

struct ObjectInfo {
  std::string key;
  std::int64_t size = 0;
  std::string tag;  // changes with the contents: an ETag or a generation
};

// When an object is written.
struct WriteIf {
  bool absent = false;  // only if there is none
  std::string tag;      // only if the one there has this tag; empty: whatever is there
};

// What ObjectStore::read() throws if the object is no longer the one that was found.
class ObjectChanged : public UserError {
 public:
  // `place`: its address.
  explicit ObjectChanged(const std::string& place);
};

class ObjectStore {
 public:
  ObjectStore() = default;
  virtual ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // All whose keys begin with `prefix`, sorted by key. Of the web: the one file.
  virtual std::vector<ObjectInfo> list(const std::string& prefix) = 0;
  // Without `offset` and `size`, all of it; nothing if there is none of this key.
  virtual std::optional<ObjectInfo> find(const std::string& key) = 0;
  // Bytes [offset, offset + size), which must lie in it. Throws ObjectChanged if it is no longer
  // `object`.
  virtual std::string read(const ObjectInfo& object, std::int64_t offset, std::int64_t size) = 0;
  // Its new tag; nothing if the condition does not hold, and then nothing was written.
  virtual std::optional<std::string> write(const std::string& key, std::string_view bytes,
                                           const WriteIf& condition) = 0;
  // The bytes of a local file, of any size.
  void write_file(const std::string& key, const std::string& path);
  // Does nothing if there is none.
  virtual void remove(const std::string& key) = 0;

 protected:
  // A file of more than kPartBytes (store/upload.h), in parts that become visible together.
  virtual void write_parts(const std::string& key, const std::string& path) = 0;
};

// The store of an address. Throws UserError(kUsage) if its settings are wrong.
std::unique_ptr<ObjectStore> open_store(const ObjectAddress& address,
                                        const HttpPatience& patience = {}, StopToken stop = {});

}  // namespace podium
