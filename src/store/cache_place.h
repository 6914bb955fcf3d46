// Where this machine keeps what belongs to an address of a store.
#pragma once

#include <filesystem>
#include <string>

#include "store/address.h"

namespace podium {

// A folder of the user's cache, by what it is for ("objects", "copies") and the address, of which
// another store's is another one. Throws UserError(kData) if there is no cache folder.
std::filesystem::path cache_place(const ObjectAddress& address, const std::string& purpose);

// Such a folder, made if needed, that no other process changes or removes as long as this object
// lives. Waits for them.
class PlaceLock {
 public:
  explicit PlaceLock(const std::filesystem::path& place);
  ~PlaceLock();
  PlaceLock(const PlaceLock&) = delete;
  PlaceLock& operator=(const PlaceLock&) = delete;

 private:
  int file_ = -1;
};
inline constexpr const char* kPlaceLockName = "lock";

}  // namespace podium
