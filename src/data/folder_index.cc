#include "data/folder_index.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/dataset.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "podium index 1\n";
constexpr std::int64_t kMostFiles = std::int64_t{1} << 31;

std::int64_t time_of(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool is_picture_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string end(name.substr(dot + 1));
  for (char& c : end) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return end == "jpg" || end == "jpeg" || end == "png";
}

std::uint64_t checksum(std::string_view text) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

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
    index_.folders.push_back({name, time_of(status)});
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
        found_.push_back({full, static_cast<std::int32_t>(label), status.st_size, time_of(status)});
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

  FolderIndex& index_;
  const IndexOptions& options_;
  std::vector<Found> found_;
};

void require_pictures(const FolderIndex& index) {
  const std::string& root = index.root;
  PODIUM_REQUIRE(!index.class_names.empty(), ExitCode::kData, root,
                 ": has no folders, and each class must be a folder: PHOTOS/cats/1.jpg, "
                 "PHOTOS/dogs/2.jpg",
                 index.others > 0 ? cat("; its ", index.others, " files belong to no class") : "");
  PODIUM_REQUIRE(index.count() > 0, ExitCode::kData, root, ": its ", index.class_names.size(),
                 index.class_names.size() == 1 ? " folder has" : " folders have",
                 " no pictures, which are files whose names end in .jpg, .jpeg or .png",
                 index.others > 0 ? cat(" (there are ", index.others, " others)") : "");
}

// Whether no folder of an index has changed.
bool is_current(const FolderIndex& index) {
  return std::ranges::all_of(index.folders, [&](const FolderIndex::Folder& folder) {
    struct stat status {};
    const std::string path = folder.name.empty() ? index.root : cat(index.root, "/", folder.name);
    return ::stat(path.c_str(), &status) == 0 && time_of(status) == folder.time;
  });
}

// An index that cannot be kept is made again next time.
void keep(const std::string& path, const std::string& text) {
  if (path.empty() || keep_cache_file(path, text)) return;
  log(LogLevel::kInfo,
      cat(path, ": the index could not be saved there; it will be made again next time"));
}

// Names hold any byte but 0 and '/'; a line holds no newline.
void append_escaped(std::string& text, std::string_view name) {
  for (const char c : name) {
    if (c == '\n' || c == '%') {
      text += c == '\n' ? "%0A" : "%25";
    } else {
      text += c;
    }
  }
}

// Reads the lines of an index file.
class IndexLines {
 public:
  IndexLines(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(
        cat(name_, ":", line_, ": ", what,
            "; this is not a complete index: remove the file, and it will be made again"),
        ExitCode::kData);
  }
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }
  std::string_view line() {
    ++line_;
    const std::size_t end = text_.find('\n');
    require(end != std::string_view::npos, "the line has no end");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }
  bool at_end() const { return text_.empty(); }
  // The number at the beginning of a line, with the blank after it.
  std::int64_t number(std::string_view& line) const {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    require(error == std::errc(), "a number is missing");
    line.remove_prefix(static_cast<std::size_t>(rest - line.data()));
    require(line.empty() || line.front() == ' ', "a number ends otherwise than in a blank");
    if (!line.empty()) line.remove_prefix(1);
    return value;
  }
  std::string escaped(std::string_view line) const {
    std::string name;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '%') {
        name += line[i];
        continue;
      }
      const std::string_view code = line.substr(i, 3);
      require(code == "%0A" || code == "%25", "a % is followed by neither 0A nor 25");
      name += code == "%0A" ? '\n' : '%';
      i += 2;
    }
    return name;
  }

 private:
  std::string_view text_;
  const std::string& name_;
  std::int64_t line_ = 0;
};

}  // namespace

std::string_view FolderIndex::name(std::int64_t file) const {
  const auto i = static_cast<std::size_t>(file);
  const std::uint64_t begin = i == 0 ? 0 : name_ends[i - 1];
  return std::string_view(names).substr(begin, name_ends[i] - begin);
}

std::int64_t FolderIndex::memory_bytes() const {
  constexpr std::int64_t kFile = 3 * sizeof(std::int64_t) + sizeof(std::int32_t);
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
           index.others, " ", index.circles),
       "");
  for (const std::string& name : index.class_names) line("", name);
  for (const FolderIndex::Folder& folder : index.folders) line(cat(folder.time, " "), folder.name);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    const auto file = static_cast<std::size_t>(i);
    line(cat(index.labels[file], " ", index.sizes[file], " ", index.times[file], " "),
         index.name(i));
  }
  return text + cat("end ", hash_text(checksum(text)), "\n");
}

FolderIndex parse_index(std::string_view text, const std::string& name) {
  IndexLines lines(text, name);
  constexpr std::size_t kEnd = 4 + 16 + 1;
  if (!text.starts_with(kFirstLine)) lines.fail("it does not begin with \"podium index 1\"");
  lines.require(text.size() > kEnd, "it ends too early");
  const std::string_view body = text.substr(0, text.size() - kEnd);
  lines.require(text.substr(body.size()) == cat("end ", hash_text(checksum(body)), "\n"),
                "its checksum is wrong");
  FolderIndex index;
  lines.line();
  index.root = lines.escaped(lines.line());
  index.train_part = lines.escaped(lines.line());
  index.test_part = lines.escaped(lines.line());
  std::string_view counts = lines.line();
  const std::int64_t classes = lines.number(counts), folders = lines.number(counts),
                     files = lines.number(counts);
  index.others = lines.number(counts);
  index.circles = lines.number(counts);
  for (const std::int64_t n : {classes, folders, files})
    lines.require(n >= 0 && n <= std::ssize(text), "a count is larger than the file");
  for (std::int64_t i = 0; i < classes; ++i)
    index.class_names.push_back(lines.escaped(lines.line()));
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
    index.names += lines.escaped(line);
    index.name_ends.push_back(index.names.size());
  }
  lines.require(lines.line().starts_with("end ") && lines.at_end(), "it has more than it counts");
  return index;
}

std::string index_file_of(const std::string& folder) {
  const std::string cache = cache_folder();
  if (cache.empty()) return "";
  return (fs::path(cache) / "indexes" / (hash_text(checksum(folder)) + ".index")).string();
}

FolderIndex index_folder(const std::string& folder, const IndexOptions& options, bool* from_cache) {
  std::error_code error;
  const std::string root = fs::canonical(folder, error).string();
  PODIUM_REQUIRE(!error && fs::is_directory(root, error), ExitCode::kData, folder,
                 error ? ": " + error.message() : std::string(": is not a folder"),
                 "; name a folder of pictures that has one folder for each class");
  const std::string path = index_file_of(root);
  if (from_cache != nullptr) *from_cache = true;
  std::optional<std::string> text;
  if (!options.fresh && !path.empty()) text = read_cache_file(path);
  if (text) {
    try {
      FolderIndex index = parse_index(*text, path);
      if (index.root == root && is_current(index)) {
        require_pictures(index);
        return index;
      }
    } catch (const UserError& problem) {
      log(LogLevel::kInfo, problem.what());
    }
  }
  if (from_cache != nullptr) *from_cache = false;
  FolderIndex index;
  index.root = root;
  Scan(index, options).all();
  require_pictures(index);
  keep(path, index_text(index));
  return index;
}

}  // namespace podium
