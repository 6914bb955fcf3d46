#include "store/local_copy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "files/byte_text.h"
#include "files/checksum.h"
#include "files/file_io.h"
#include "files/file_state.h"
#include "store/cache_place.h"
#include "store/object_store.h"
#include "store/stored_folder.h"
#include "store/upload.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// A file that was copied, as it was then, and the object's tag.
struct CopiedFile {
  FileState state;
  std::string tag;
};
using CopyIndex = std::map<std::string, CopiedFile>;  // by key

CopyIndex read_index(const fs::path& file) {
  CopyIndex index;
  const auto text = read_text(file);
  if (!text) return index;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return index;  // it is made anew
  for (const auto& [key, value] : json.items()) {
    if (!value.is_array() || value.size() != 3 || !value[0].is_number_integer() ||
        !value[1].is_number_integer() || !value[2].is_string())
      continue;
    index[key] = {{value[0], value[1]}, value[2]};
  }
  return index;
}

void write_index(const fs::path& file, const CopyIndex& index) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, copied] : index)
    json[key] = {copied.state.size, copied.state.time, copied.tag};
  replace_text(file, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// A key is a path below the copy's folder.
void require_path(const ObjectAddress& address, const std::string& key) {
  const fs::path path(key);
  const bool plain =
      path.is_relative() && key.find("//") == std::string::npos &&
      std::ranges::none_of(
          path, [](const fs::path& part) { return part == ".." || part == "." || part.empty(); }) &&
      key.find('\0') == std::string::npos && key.size() < 3000;
  PODIUM_REQUIRE(plain, ExitCode::kData, address.at(key).text(),
                 ": the key is no path of a file (it has \"..\", \"//\" or a slash at its begin); "
                 "rename the object, or name a folder without it");
}

// The MD5 that S3 gives for objects that were written by one request, without encryption by keys.
bool is_md5(const std::string& tag) {
  return tag.size() == 34 && tag.front() == '"' && tag.find('-') == std::string::npos;
}

class Copy {
 public:
  Copy(ObjectStore& store, const ObjectAddress& address, const CopyOptions& options)
      : address_(address),
        options_(options),
        store_(store),
        folder_(cache_place(address, "objects")) {}

  std::string make() {
    const std::size_t wild = address_.key.find_first_of("*?[{");
    const std::string fixed = address_.key.substr(0, wild);
    std::vector<ObjectInfo> objects = find_objects(fixed, wild != std::string::npos);
    // Files lie below the folder by their keys without what all have: a photograph's class is the
    // folder it lies in.
    const PlaceLock lock(folder_);
    const fs::path files = folder_ / "files";
    CopyIndex index = read_index(folder_ / "index.json");
    const std::vector<ObjectInfo> missing = missing_in(files, index, objects);
    if (!missing.empty()) {
      make_room(objects, missing);
      fetch(files, missing, index);
    }
    drop_others(files, index, objects);
    write_index(folder_ / "index.json", index);
    return (files / local_name(address_.key)).string();
  }

 private:
  // By its key below the folder of what is named.
  fs::path local_name(const std::string& key) const {
    if (address_.key.empty()) return fs::path(address_.bucket) / key;
    const std::string fixed = address_.key.substr(0, address_.key.find_first_of("*?[{"));
    // The last name of what is named stays: files are known by their ends, folders by their names.
    const std::size_t end = fixed.find_last_not_of('/');
    const std::size_t slash = end == std::string::npos ? end : fixed.rfind('/', end);
    std::string name = slash == std::string::npos ? key : key.substr(slash + 1);
    while (name.ends_with('/')) name.pop_back();
    return name;
  }

  std::vector<ObjectInfo> find_objects(const std::string& fixed, bool pattern) {
    std::vector<ObjectInfo> objects = store_.list(fixed);
    if (!pattern) {
      const auto own = std::ranges::find(objects, address_.key, &ObjectInfo::key);
      const std::string folder = fixed.empty() || fixed.ends_with('/') ? fixed : fixed + "/";
      if (own != objects.end() && !address_.key.ends_with('/')) {
        objects = {*own};
      } else {
        std::erase_if(objects, [&](const ObjectInfo& one) { return !one.key.starts_with(folder); });
      }
    }
    // Some programs write an empty object for a folder.
    std::erase_if(objects, [](const ObjectInfo& one) { return one.key.ends_with('/'); });
    PODIUM_REQUIRE(!objects.empty(), ExitCode::kData, address_.text(),
                   ": there is no object of this name, and none below it; check the address");
    for (const ObjectInfo& object : objects) require_path(address_, object.key);
    return objects;
  }

  std::vector<ObjectInfo> missing_in(const fs::path& files, const CopyIndex& index,
                                     const std::vector<ObjectInfo>& objects) const {
    std::vector<ObjectInfo> missing;
    for (const ObjectInfo& object : objects) {
      const auto known = index.find(object.key);
      const auto state = state_of((files / local_name(object.key)).string());
      const bool same = known != index.end() && known->second.tag == object.tag && state &&
                        known->second.state == *state && state->size == object.size;
      if (!same) missing.push_back(object);
    }
    return missing;
  }

  std::int64_t limit() const {
    if (options_.limit_bytes > 0) return options_.limit_bytes;
    if (const char* text = std::getenv("PODIUM_CACHE_LIMIT"); text != nullptr && *text != '\0')
      return parse_bytes(text);
    std::error_code error;
    const fs::space_info space = fs::space(folder_, error);
    return error ? 0 : static_cast<std::int64_t>(space.capacity - space.capacity / 20);
  }

  // Removes the least recently used copies until the objects fit.
  void make_room(const std::vector<ObjectInfo>& objects, const std::vector<ObjectInfo>& missing) {
    const auto bytes_of = [](const std::vector<ObjectInfo>& list) {
      return std::accumulate(
          list.begin(), list.end(), std::int64_t{0},
          [](std::int64_t sum, const ObjectInfo& one) { return sum + one.size; });
    };
    const std::int64_t most = limit(), wanted = bytes_of(objects), new_bytes = bytes_of(missing);
    PODIUM_REQUIRE(most == 0 || wanted <= most, ExitCode::kData, address_.text(), ": its ",
                   count_text(std::ssize(objects), "object"), " have ", format_bytes(wanted),
                   ", and copies may take ", format_bytes(most),
                   "; raise PODIUM_CACHE_LIMIT, or set XDG_CACHE_HOME to a larger disk");
    struct Other {
      fs::path folder;
      std::int64_t time, bytes;
    };
    std::vector<Other> others;
    std::int64_t held = wanted;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_.parent_path(), error)) {
      if (entry.path() == folder_) continue;
      std::int64_t bytes = 0;
      for (const auto& [key, copied] : read_index(entry.path() / "index.json"))
        bytes += copied.state.size;
      const auto used = state_of((entry.path() / "index.json").string());
      others.push_back({entry.path(), used ? used->time : 0, bytes});
      held += bytes;
    }
    std::ranges::sort(others, {}, &Other::time);
    const auto free_bytes = [&] {
      const fs::space_info space = fs::space(folder_, error);
      return error ? new_bytes : static_cast<std::int64_t>(space.available);
    };
    for (const Other& other : others) {
      if ((most == 0 || held <= most) && new_bytes <= free_bytes()) break;
      // One that is in use stays: its process holds the lock.
      const int file = ::open((other.folder / kPlaceLockName).c_str(), O_RDWR | O_CLOEXEC);
      const bool ours = file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0;
      if (ours) fs::remove_all(other.folder, error), held -= other.bytes;
      if (file >= 0) ::close(file);
    }
    PODIUM_REQUIRE(new_bytes <= free_bytes(), ExitCode::kData, folder_.string(), ": ",
                   format_bytes(new_bytes), " of ", address_.text(),
                   " do not fit on the disk, which has ", format_bytes(free_bytes()),
                   "; make room, or set XDG_CACHE_HOME to a larger disk");
  }

  void fetch(const fs::path& files, const std::vector<ObjectInfo>& missing, CopyIndex& index) {
    // A part of an object each, so that a large one is read by several requests at once.
    struct Part {
      std::size_t object;
      std::int64_t offset, size;
    };
    std::vector<Part> parts;
    std::vector<std::atomic<std::int64_t>> left(missing.size());
    std::int64_t all_bytes = 0;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      const std::int64_t size = missing[i].size;
      all_bytes += size;
      for (std::int64_t offset = 0; offset == 0 || offset < size; offset += kPartBytes) {
        parts.push_back({i, offset, std::min(kPartBytes, size - offset)});
        ++left[i];
      }
    }
    std::error_code ignored;
    for (const ObjectInfo& object : missing)  // what a process that was killed has left
      fs::remove(files / (local_name(object.key).string() + ".part"), ignored);
    log(LogLevel::kInfo,
        cat(address_.text(), ": copying ", count_text(std::ssize(missing), "object"), ", ",
            format_bytes(all_bytes)));
    std::mutex mutex;
    std::atomic<std::int64_t> done{0};
    auto told = Clock::now();
    for_each_at_once(std::ssize(parts), options_.at_once, [&](std::int64_t p) {
      const Part& part = parts[static_cast<std::size_t>(p)];
      const ObjectInfo& object = missing[part.object];
      const fs::path path = files / local_name(object.key), half = path.string() + ".part";
      const std::string bytes = store_.read(object, part.offset, part.size);
      make_folders(path.parent_path());
      write_at(half, part.offset, bytes);
      done += part.size;
      if (--left[part.object] == 0) {
        finish(object, half, path);
        const std::lock_guard lock(mutex);
        index[object.key] = {state_of(path.string()).value_or(FileState{}), object.tag};
      }
      constexpr double kSecondsBetween = 5;
      const std::lock_guard lock(mutex);
      if (seconds_since(told) < kSecondsBetween) return;
      told = Clock::now();
      log(LogLevel::kInfo,
          cat(address_.text(), ": ", format_bytes(done), " of ", format_bytes(all_bytes)));
    });
  }

  static void write_at(const fs::path& path, std::int64_t offset, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) throw_io_error(path, "write", errno);
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const int error = errno;
        ::close(file);
        throw_io_error(path, "write", error);
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
      offset += written;
    }
    ::close(file);
  }

  void finish(const ObjectInfo& object, const fs::path& half, const fs::path& path) const {
    if (address_.scheme == "s3" && is_md5(object.tag)) {
      const std::string found = checksum_of_file(half, ChecksumKind::kMd5),
                        stated = object.tag.substr(1, 32);
      if (found != stated) {
        std::error_code error;
        fs::remove(half, error);
        throw UserError(
            cat(address_.at(object.key).text(), ": the bytes that arrived have the MD5 ", found,
                ", and the store states ", stated,
                "; start again, and if it happens again, write the object anew"),
            ExitCode::kData);
      }
    }
    std::error_code error;
    fs::rename(half, path, error);
    if (error) throw_io_error(path, "rename", error.value());
  }

  // What is no longer in the store.
  void drop_others(const fs::path& files, CopyIndex& index,
                   const std::vector<ObjectInfo>& objects) {
    std::erase_if(index, [&](const auto& entry) {
      if (std::ranges::binary_search(objects, entry.first, {}, &ObjectInfo::key)) return false;
      std::error_code error;
      fs::remove(files / local_name(entry.first), error);
      return true;
    });
  }

  const ObjectAddress address_;
  const CopyOptions options_;
  ObjectStore& store_;
  const fs::path folder_;
};

}  // namespace

std::string local_copy(const std::string& address, const CopyOptions& options) {
  const ObjectAddress place = parse_address(address);
  const auto store = open_store(place, options.patience, options.stop);
  return Copy(*store, place, options).make();
}

namespace {

std::atomic<const std::atomic<int>*> copies_stop{nullptr};

}  // namespace

void stop_copies_at(const std::atomic<int>* request) { copies_stop = request; }

std::string local_path(const std::string& path) {
  if (!is_remote(path)) return path;
  const CopyOptions options{.stop = StopToken(copies_stop)};
  const ObjectAddress address = parse_address(path);
  const auto store = open_store(address, options.patience, options.stop);
  if (const auto folder = copy_of_stored_folder(*store, address)) return folder->string();
  return Copy(*store, address, options).make();
}

}  // namespace podium
