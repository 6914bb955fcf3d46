#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "data/pictures/shards/picture_scan.h"
#include "data/pictures/shards/records.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFiles = std::int64_t{1} << 31;

class FolderScan {
 public:
  FolderScan(PictureIndex& index, const IndexOptions& options) : index_(index), options_(options) {}

  void all() {
    const std::vector<std::string> inside = enter("", {});
    // Two parts, if there are a "train" and another.
    const auto has = [&](const char* name) { return std::ranges::count(inside, name) != 0; };
    for (const char* part : {"val", "valid", "validation", "test"}) {
      if (!has("train") || !has(part)) continue;
      index_.train_part = "train", index_.test_part = part;
      break;
    }
    if (index_.train_part.empty()) {
      classes_of("", inside);
    } else {
      for (const std::string& name : inside)
        if (name != index_.train_part && name != index_.test_part)
          index_.left_out.push_back({name, false});
      classes_of(index_.train_part + "/", enter(index_.train_part, {}));
      known_classes_of(index_.test_part);
    }
    sort_files();
    if (options_.progress) options_.progress(std::ssize(found_));
    require_pictures();
  }

 private:
  struct Found {
    std::string name;
    std::int32_t label;
    FileState state;
  };
  struct Place {  // of a folder on the way to the one that is listed
    dev_t device;
    ino_t inode;
  };

  std::string path(const std::string& name) const {
    return name.empty() ? index_.place : cat(index_.place, "/", name);
  }

  // Notes a folder, and returns the folders in it, sorted. With files: as those of a class.
  std::vector<std::string> enter(const std::string& name, std::vector<Place> way,
                                 std::int64_t label = -1) {
    options_.stop.check();
    struct stat status {};
    PODIUM_REQUIRE(::stat(path(name).c_str(), &status) == 0, ExitCode::kData, path(name), ": ",
                   std::generic_category().message(errno), "; make it readable, or remove it");
    index_.folders.push_back({name, state_in(status).time});
    way.push_back({status.st_dev, status.st_ino});
    std::vector<std::string> below;
    std::error_code error;
    fs::directory_iterator entry(path(name), error);
    PODIUM_REQUIRE(!error, ExitCode::kData, path(name), ": ", error.message(),
                   "; make it readable, or remove it");
    for (const fs::directory_iterator end; entry != end; entry.increment(error)) {
      const std::string own = entry->path().filename().string();
      if (own.starts_with('.')) continue;
      const std::string full = name.empty() ? own : cat(name, "/", own);
      if (::stat(entry->path().c_str(), &status) != 0) {
        // A link to nothing, or a folder that nobody may enter.
        PODIUM_REQUIRE(label < 0 || !is_picture_name(own), ExitCode::kData, path(full), ": ",
                       std::generic_category().message(errno), "; make it readable, or remove it");
        ++index_.others;
      } else if (S_ISDIR(status.st_mode)) {
        const bool circle = std::ranges::any_of(way, [&](const Place& place) {
          return place.device == status.st_dev && place.inode == status.st_ino;
        });
        if (circle) {
          ++index_.circles;
        } else {
          below.push_back(own);
        }
      } else if (label >= 0 && S_ISREG(status.st_mode) && is_picture_name(own)) {
        found_.push_back({full, static_cast<std::int32_t>(label), state_in(status)});
        PODIUM_REQUIRE(std::ssize(found_) <= kMostFiles, ExitCode::kData, index_.place,
                       ": more than ", kMostFiles, " pictures");
        if (options_.progress && found_.size() % 1000 == 0) options_.progress(std::ssize(found_));
      } else {
        ++index_.others;
      }
    }
    PODIUM_REQUIRE(!error, ExitCode::kData, path(name), ": ", error.message(),
                   "; it changed while it was indexed: run the command again");
    std::ranges::sort(below);
    if (label >= 0)
      for (const std::string& own : below) enter(cat(name, "/", own), way, label);
    return below;
  }

  // Whether a folder has pictures, which get this label; otherwise it is left out.
  bool take(const std::string& name, std::size_t label) {
    // The way from the root: a class may not lead back to it.
    std::vector<Place> way;
    struct stat status {};
    for (std::size_t at = 0; at != std::string::npos; at = name.find('/', at + 1))
      if (::stat(path(name.substr(0, at)).c_str(), &status) == 0)
        way.push_back({status.st_dev, status.st_ino});
    const std::size_t before = found_.size();
    enter(name, way, static_cast<std::int64_t>(label));
    if (found_.size() != before) return true;
    index_.left_out.push_back({name});
    return false;
  }

  void classes_of(const std::string& start, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (take(start + name, index_.class_names.size())) index_.class_names.push_back(name);
  }

  void known_classes_of(const std::string& part) {
    const std::vector<std::string>& known = index_.class_names;
    for (const std::string& name : enter(part, {})) {
      const auto own = std::ranges::lower_bound(known, name);
      const std::string full = cat(part, "/", name);
      const bool is_known = own != known.end() && *own == name;
      const bool has_pictures = take(full, static_cast<std::size_t>(own - known.begin()));
      PODIUM_REQUIRE(is_known || !has_pictures, ExitCode::kData, path(full), ": a class that ",
                     path(index_.train_part),
                     " does not have pictures of; add them there, or "
                     "remove it here");
    }
  }

  void sort_files() {
    std::ranges::sort(found_, {}, &Found::name);
    for (const Found& file : found_) {
      index_.add_file(file.name, file.state);
      index_.labels.push_back(file.label);
      index_.decodes.push_back(0);
    }
  }

  void require_pictures() const {
    const std::string& root = index_.place;
    PODIUM_REQUIRE(!index_.class_names.empty() || !index_.left_out.empty(), ExitCode::kData, root,
                   ": has no folders, and each class must be a folder: PHOTOS/cats/1.jpg, "
                   "PHOTOS/dogs/2.jpg",
                   index_.others == 0
                       ? ""
                       : cat("; its ", count_text(index_.others, "file belongs", "files belong"),
                             " to no class"));
    PODIUM_REQUIRE(index_.count() > 0, ExitCode::kData, root, ": its ",
                   count_text(std::ssize(index_.left_out), "folder has", "folders have"),
                   " no pictures, which are files whose names end in .jpg, .jpeg or .png",
                   index_.others == 0   ? ""
                   : index_.others == 1 ? " (there is 1 other)"
                                        : cat(" (there are ", index_.others, " others)"));
  }

  PictureIndex& index_;
  const IndexOptions& options_;
  std::vector<Found> found_;
};

}  // namespace

void scan_folder(PictureIndex& index, const IndexOptions& options) {
  FolderScan(index, options).all();
}

}  // namespace podium
