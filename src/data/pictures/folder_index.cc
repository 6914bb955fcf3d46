#include "data/pictures/folder_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/words.h"
#include "data/pictures/records.h"
#include "data/storage/indexed_file.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "podium index 2\n";
constexpr std::int64_t kMostFiles = std::int64_t{1} << 31;

// Lists a folder and all below it.
class Scan {
 public:
  Scan(FolderIndex& index, const IndexOptions& options) : index_(index), options_(options) {}

  void all() {
    std::vector<std::string> classes = enter("", {});
    // Two parts, if there are a "train" and another.
    const auto has = [&](const char* name) { return std::ranges::count(classes, name) != 0; };
    for (const char* part : {"val", "valid", "validation", "test"}) {
      if (!has("train") || !has(part)) continue;
      index_.train_part = "train", index_.test_part = part;
      break;
    }
    if (index_.train_part.empty()) {
      index_.class_names = classes;
      for (std::size_t i = 0; i < classes.size(); ++i) files_of(classes[i], i);
    } else {
      index_.class_names = enter(index_.train_part, {});
      for (std::size_t i = 0; i < index_.class_names.size(); ++i)
        files_of(cat(index_.train_part, "/", index_.class_names[i]), i);
      for (const std::string& name : enter(index_.test_part, {})) {
        const auto known = std::ranges::lower_bound(index_.class_names, name);
        PODIUM_REQUIRE(known != index_.class_names.end() && *known == name, ExitCode::kData,
                       path(cat(index_.test_part, "/", name)), ": a class that ",
                       path(index_.train_part), " does not have; add it there, or remove it here");
        files_of(cat(index_.test_part, "/", name),
                 static_cast<std::size_t>(known - index_.class_names.begin()));
      }
    }
    sort_files();
    leave_out_empty();
    if (options_.progress) options_.progress(std::ssize(found_));
  }

 private:
  struct Found {
    std::string name;
    std::int32_t label;
    std::int64_t size, time;
  };
  struct Place {  // of a folder on the way to the one that is listed
    dev_t device;
    ino_t inode;
  };

  std::string path(const std::string& name) const {
    return name.empty() ? index_.root : cat(index_.root, "/", name);
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
        found_.push_back(
            {full, static_cast<std::int32_t>(label), status.st_size, state_in(status).time});
        PODIUM_REQUIRE(std::ssize(found_) <= kMostFiles, ExitCode::kData, index_.root,
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

  void files_of(const std::string& name, std::size_t label) {
    // The way from the root: a class may not lead back to it.
    std::vector<Place> way;
    struct stat status {};
    for (std::size_t at = 0; at != std::string::npos; at = name.find('/', at + 1))
      if (::stat(path(name.substr(0, at)).c_str(), &status) == 0)
        way.push_back({status.st_dev, status.st_ino});
    enter(name, way, static_cast<std::int64_t>(label));
  }

  void sort_files() {
    std::ranges::sort(found_, {}, &Found::name);
    for (const Found& file : found_) {
      index_.names += file.name;
      index_.name_ends.push_back(index_.names.size());
      index_.labels.push_back(file.label);
      index_.sizes.push_back(file.size);
      index_.times.push_back(file.time);
    }
  }

  // Classes are those that have pictures.
  void leave_out_empty() {
    const std::size_t all = index_.class_names.size();
    std::vector<bool> used(all, false);
    for (const std::int32_t label : index_.labels) used[static_cast<std::size_t>(label)] = true;
    std::vector<std::int32_t> numbers(all, -1);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < all; ++i) {
      if (used[i]) {
        numbers[i] = static_cast<std::int32_t>(names.size());
        names.push_back(index_.class_names[i]);
      } else {
        index_.left_out.push_back(index_.class_names[i]);
      }
    }
    if (names.empty()) return;  // require_pictures() says so
    index_.class_names = std::move(names);
    for (std::int32_t& label : index_.labels) label = numbers[static_cast<std::size_t>(label)];
  }

  FolderIndex& index_;
  const IndexOptions& options_;
  std::vector<Found> found_;
};

// The bytes of each file, or what an older index of the folder knows of one that has not changed.
void hash_files(FolderIndex& index, const FolderIndex& older, const IndexOptions& options) {
  std::map<std::string_view, std::size_t> known;
  for (std::int64_t i = 0; i < older.count(); ++i)
    known.emplace(older.name(i), static_cast<std::size_t>(i));
  index.hashes.resize(index.labels.size());
  for_each_file(index.count(), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const FileState state{index.sizes[at], index.times[at]};
    const auto found = known.find(index.name(i));
    const bool same = found != known.end() &&
                      state == FileState{older.sizes[found->second], older.times[found->second]};
    index.hashes[at] = same
                           ? older.hashes[found->second]
                           : content_hash(cat(index.root, "/", index.name(i)), state, options.stop);
  });
}

void require_pictures(const FolderIndex& index) {
  const std::string& root = index.root;
  PODIUM_REQUIRE(!index.class_names.empty(), ExitCode::kData, root,
                 ": has no folders, and each class must be a folder: PHOTOS/cats/1.jpg, "
                 "PHOTOS/dogs/2.jpg",
                 index.others == 0
                     ? ""
                     : cat("; its ", count_text(index.others, "file belongs", "files belong"),
                           " to no class"));
  PODIUM_REQUIRE(index.count() > 0, ExitCode::kData, root, ": its ",
                 count_text(std::ssize(index.class_names), "folder has", "folders have"),
                 " no pictures, which are files whose names end in .jpg, .jpeg or .png",
                 index.others == 0   ? ""
                 : index.others == 1 ? " (there is 1 other)"
                                     : cat(" (there are ", index.others, " others)"));
}

// Whether no folder of an index has changed and, if they are to be looked at, no file.
bool is_current(const FolderIndex& index, const IndexOptions& options) {
  const auto path = [&](std::string_view name) {
    return name.empty() ? index.root : cat(index.root, "/", name);
  };
  const bool same_folders =
      std::ranges::all_of(index.folders, [&](const FolderIndex::Folder& folder) {
        const auto state = state_of(path(folder.name));
        return state && state->time == folder.time;
      });
  if (!same_folders || !options.check_files) return same_folders;
  std::atomic<bool> same{true};
  for_each_file(index.count(), [&](std::int64_t i) {
    const auto file = static_cast<std::size_t>(i);
    if (i % 1024 == 0) options.stop.check();
    if (same && state_of(path(index.name(i))) != FileState{index.sizes[file], index.times[file]})
      same = false;
  });
  return same;
}

}  // namespace

std::string_view FolderIndex::name(std::int64_t file) const {
  const auto i = static_cast<std::size_t>(file);
  const std::uint64_t begin = i == 0 ? 0 : name_ends[i - 1];
  return std::string_view(names).substr(begin, name_ends[i] - begin);
}

std::int64_t FolderIndex::memory_bytes() const {
  constexpr std::int64_t kFile = 4 * sizeof(std::int64_t) + sizeof(std::int32_t);
  return count() * kFile + std::ssize(names);
}

std::string index_text(const FolderIndex& index) {
  std::string text(kFirstLine);
  const auto line = [&](const std::string& numbers, std::string_view name) {
    text += numbers;
    append_escaped(text, name);
    text += '\n';
  };
  line("", index.root);
  line("", index.train_part);
  line("", index.test_part);
  line(cat(index.class_names.size(), " ", index.folders.size(), " ", index.count(), " ",
           index.others, " ", index.circles, " ", index.left_out.size()),
       "");
  for (const std::string& name : index.class_names) line("", name);
  for (const std::string& name : index.left_out) line("", name);
  for (const FolderIndex::Folder& folder : index.folders) line(cat(folder.time, " "), folder.name);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    const auto file = static_cast<std::size_t>(i);
    line(cat(index.labels[file], " ", index.sizes[file], " ", index.times[file], " ",
             hash_text(index.hashes[file]), " "),
         index.name(i));
  }
  return with_checksum(std::move(text));
}

FolderIndex parse_index(std::string_view text, const std::string& name) {
  IndexLines lines(text, name, kFirstLine);
  FolderIndex index;
  index.root = lines.escaped(lines.line());
  index.train_part = lines.escaped(lines.line());
  index.test_part = lines.escaped(lines.line());
  std::string_view counts = lines.line();
  const std::int64_t classes = lines.number(counts), folders = lines.number(counts),
                     files = lines.number(counts);
  index.others = lines.number(counts);
  index.circles = lines.number(counts);
  const std::int64_t left_out = lines.number(counts);
  for (const std::int64_t n : {classes, folders, files, left_out}) lines.require_count(n);
  for (std::int64_t i = 0; i < classes; ++i)
    index.class_names.push_back(lines.escaped(lines.line()));
  for (std::int64_t i = 0; i < left_out; ++i) index.left_out.push_back(lines.escaped(lines.line()));
  for (std::int64_t i = 0; i < folders; ++i) {
    std::string_view line = lines.line();
    const std::int64_t time = lines.number(line);
    index.folders.push_back({lines.escaped(line), time});
  }
  for (std::int64_t i = 0; i < files; ++i) {
    std::string_view line = lines.line();
    const std::int64_t label = lines.number(line);
    lines.require(label >= 0 && label < classes, "a label is not a class");
    index.labels.push_back(static_cast<std::int32_t>(label));
    index.sizes.push_back(lines.number(line));
    lines.require(index.sizes.back() >= 0, "a size is negative");
    index.times.push_back(lines.number(line));
    index.hashes.push_back(lines.hash(line));
    index.names += lines.escaped(line);
    index.name_ends.push_back(index.names.size());
  }
  lines.require_end();
  return index;
}

FolderIndex index_folder(const std::string& folder, const IndexOptions& options, bool* from_cache) {
  std::error_code error;
  const std::string root = fs::canonical(folder, error).string();
  PODIUM_REQUIRE(!error && fs::is_directory(root, error), ExitCode::kData, folder,
                 error ? ": " + error.message() : std::string(": is not a folder"),
                 "; name a folder of pictures that has one folder for each class");
  const std::string path = index_file_of(root);
  if (from_cache != nullptr) *from_cache = true;
  FolderIndex older;
  if (const auto text = options.fresh || path.empty() ? std::nullopt : read_cache_file(path)) {
    try {
      FolderIndex index = parse_index(*text, path);
      if (index.root == root && is_current(index, options)) {
        require_pictures(index);
        return index;
      }
      if (index.root == root) older = std::move(index);
    } catch (const UserError& problem) {
      log(LogLevel::kInfo, problem.what());
    }
  }
  if (from_cache != nullptr) *from_cache = false;
  FolderIndex index;
  index.root = root;
  Scan(index, options).all();
  require_pictures(index);
  hash_files(index, older, options);
  keep_index_text(path, index_text(index));
  return index;
}

}  // namespace podium
