#include "store/cache_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/cache_file.h"
#include "base/environment_text.h"
#include "base/error.h"
#include "files/checksum.h"
#include "files/file_io.h"

namespace podium {

std::filesystem::path cache_place(const ObjectAddress& address, const std::string& purpose) {
  const std::string cache = cache_folder();
  PODIUM_REQUIRE(!cache.empty(), ExitCode::kData, address.text(),
                 " is kept in the cache folder, and neither XDG_CACHE_HOME nor HOME is set; set "
                 "one");
  const std::string id = environment_text("AWS_ENDPOINT_URL_S3") + " " + address.text();
  return std::filesystem::path(cache) / purpose / sha256(id).substr(0, 16);
}

PlaceLock::PlaceLock(const std::filesystem::path& place) {
  make_folders(place);
  const std::filesystem::path path = place / kPlaceLockName;
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) throw_io_error(path, "open", errno);
  while (::flock(file_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const int error = errno;
      ::close(file_);
      throw_io_error(path, "lock", error);
    }
}

PlaceLock::~PlaceLock() { ::close(file_); }

}  // namespace podium
