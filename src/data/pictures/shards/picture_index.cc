#include "data/pictures/shards/picture_index.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numerics/hash.h"
#include "base/thread_pool.h"
#include "data/pictures/formats/picture.h"
#include "data/pictures/image_source.h"
#include "data/pictures/shards/picture_scan.h"
#include "data/pictures/shards/shard_pattern.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "podium pictures 1\n";
constexpr const char* kFormatNames[] = {"folder", "tar", "tfrecord"};

const char* word_of(PictureFormat format) { return kFormatNames[static_cast<int>(format)]; }

std::string absolute(const std::string& pattern) {
  std::string path = fs::absolute(pattern).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string folder_of(const std::string& folder) {
  std::error_code error;
  std::string root = fs::canonical(folder, error).string();
  PODIUM_REQUIRE(!error && fs::is_directory(root, error), ExitCode::kData, folder,
                 error ? ": " + error.message() : std::string(": is not a folder"),
                 "; name a folder of pictures that has one folder for each class");
  return root;
}

// Whether no folder of an index, or no shard, has changed; nor a file, if they are to be looked at.
bool is_current(const PictureIndex& index, const std::vector<std::string>& shards,
                const IndexOptions& options) {
  if (!index.is_folder() &&
      (shards.size() != index.files.size() ||
       !std::ranges::equal(shards, index.ends, [&, i = std::size_t{0}](auto& path, auto) mutable {
         return index.files[i++] == path;
       })))
    return false;
  const bool same_folders =
      std::ranges::all_of(index.folders, [&](const PictureIndex::Folder& folder) {
        const auto state =
            state_of(folder.name.empty() ? index.place : cat(index.place, "/", folder.name));
        return state && state->time == folder.time;
      });
  if (!same_folders || (index.is_folder() && !options.check_files)) return same_folders;
  std::atomic<bool> same{true};
  for_each_at_once(std::ssize(index.file_sizes), usable_cores(), [&](std::int64_t i) {
    const auto file = static_cast<std::size_t>(i);
    if (i % 1024 == 0) options.stop.check();
    if (same && state_of(index.path(file)) != std::optional(index.state(file))) same = false;
  });
  return same;
}

// What was read of files that are as they were. Both are in the order of names.
void take_over(const PictureIndex& old, PictureIndex& index) {
  if (old.format != index.format) return;
  for (std::size_t from = 0, to = 0; from < old.files.size() && to < index.files.size();) {
    if (old.files[from] != index.files[to]) {
      ++(old.files[from] < index.files[to] ? from : to);
      continue;
    }
    const std::int64_t begin = old.first_of(from), count = old.end_of(from) - begin;
    if (old.state(from) == index.state(to) && count == index.end_of(to) - index.first_of(to)) {
      index.contents[to] = old.contents[from];
      index.decoding[to] = old.decoding[from];
      std::copy_n(old.decodes.begin() + begin, count, index.decodes.begin() + index.first_of(to));
    }
    ++from, ++to;
  }
}

// Of several processes that need an index, one makes it, and the others wait for it.
class IndexLock {
 public:
  IndexLock(const std::string& file, StopToken stop) {
    if (file.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(file).parent_path(), error);
    descriptor_ = ::open((file + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 &&
           (errno == EWOULDBLOCK || errno == EINTR)) {
      stop.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ~IndexLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  IndexLock(const IndexLock&) = delete;
  IndexLock& operator=(const IndexLock&) = delete;

 private:
  int descriptor_ = -1;
};

// That of the cache, whether or not it is good.
std::optional<PictureIndex> kept_index(const std::string& file) {
  const auto text = file.empty() ? std::nullopt : read_cache_file(file);
  if (!text) return std::nullopt;
  try {
    return parse_index(*text, file);
  } catch (const UserError& problem) {
    log(LogLevel::kInfo, problem.what());
    return std::nullopt;
  }
}

}  // namespace

std::int64_t PictureIndex::memory_bytes() const {
  const auto bytes = [](const auto& list) {
    return std::ssize(list) * static_cast<std::int64_t>(sizeof list[0]);
  };
  return files.memory_bytes() + bytes(file_sizes) + bytes(file_times) + bytes(contents) +
         bytes(decoding) + bytes(ends) + bytes(labels) + bytes(decodes) + bytes(offsets) +
         bytes(sizes) + names.memory_bytes() + bytes(leads) + bytes(record_sizes);
}

void PictureIndex::add_file(std::string_view name, const FileState& state) {
  files.add(name);
  file_sizes.push_back(state.size);
  file_times.push_back(state.time);
  contents.push_back(0);
  decoding.push_back(0);
}

std::size_t PictureIndex::file_of(std::int64_t record) const {
  PODIUM_CHECK(record >= 0 && record < count(), record);
  if (is_folder()) return static_cast<std::size_t>(record);
  return static_cast<std::size_t>(std::ranges::upper_bound(ends, record) - ends.begin());
}

std::int64_t PictureIndex::first_of(std::size_t file) const {
  return is_folder() ? static_cast<std::int64_t>(file) : file == 0 ? 0 : ends[file - 1];
}

std::string PictureIndex::path(std::size_t file) const {
  return is_folder() ? cat(place, "/", files[file]) : std::string(files[file]);
}

std::string PictureIndex::name(std::int64_t record) const {
  if (format == PictureFormat::kTfrecord) return cat("record ", record - first_of(file_of(record)));
  return std::string(at(record).name);
}

ShardExample PictureIndex::at(std::int64_t record) const {
  const auto i = static_cast<std::size_t>(record);
  ShardExample found{.name = {}, .label = labels[i], .class_text = {}};
  if (is_folder()) {
    found.name = files[i];
    found.size = file_sizes[i];
    return found;
  }
  found.offset = offsets[i];
  found.size = sizes[i];
  if (format == PictureFormat::kTar) {
    found.name = names[i];
  } else {
    found.record_offset = found.offset - leads[i];
    found.record_size = record_sizes[i];
  }
  return found;
}

std::string index_text(const PictureIndex& index) {
  std::string text(kFirstLine);
  const auto line = [&](const std::string& numbers, std::string_view name = {}) {
    text += numbers;
    append_escaped(text, name);
    text += '\n';
  };
  line(word_of(index.format));
  for (const std::string& name :
       {picture_decoders(), index.place, index.train_part, index.test_part})
    line("", name);
  line(cat(index.class_names.size(), " ", index.class_texts.size(), " ", index.folders.size(), " ",
           index.left_out.size(), " ", index.files.size(), " ", index.count(), " ", index.others,
           " ", index.circles));
  for (const std::string& name : index.class_names) line("", name);
  for (const auto& [label, name] : index.class_texts) line(cat(label, " "), name);
  for (const PictureIndex::Folder& folder : index.folders) line(cat(folder.time, " "), folder.name);
  for (const PictureIndex::LeftOut& folder : index.left_out)
    line(folder.has_no_pictures ? "1 " : "0 ", folder.name);
  for (std::size_t i = 0; i < index.files.size(); ++i)
    line(cat(index.file_sizes[i], " ", index.file_times[i], " ", hash_text(index.contents[i]), " ",
             int{index.decoding[i]}, " ", index.end_of(i) - index.first_of(i), " "),
         index.files[i]);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    const ShardExample record = index.at(i);
    std::string numbers = cat(record.label, " ", int{index.decodes[static_cast<std::size_t>(i)]});
    if (!index.is_folder()) numbers += cat(" ", record.offset, " ", record.size);
    if (index.format == PictureFormat::kTfrecord)
      numbers += cat(" ", record.record_offset, " ", record.record_size);
    if (index.format == PictureFormat::kTar) {
      line(numbers + " ", record.name);
    } else {
      line(numbers);
    }
  }
  return with_checksum(std::move(text));
}

PictureIndex parse_index(std::string_view text, const std::string& name) {
  IndexLines lines(text, name, kFirstLine);
  PictureIndex index;
  const auto format = std::ranges::find(kFormatNames, lines.line());
  lines.require(format != std::end(kFormatNames), "a format that is not known");
  index.format = static_cast<PictureFormat>(format - std::begin(kFormatNames));
  const bool is_folder = index.is_folder();
  const bool same_decoders = lines.escaped(lines.line()) == picture_decoders();
  for (std::string* own : {&index.place, &index.train_part, &index.test_part})
    *own = lines.escaped(lines.line());
  std::string_view counts = lines.line();
  std::int64_t classes = 0, texts = 0, folders = 0, left_out = 0, files = 0, records = 0;
  for (std::int64_t* n : {&classes, &texts, &folders, &left_out, &files, &records}) {
    *n = lines.number(counts);
    lines.require_count(*n);
  }
  for (std::int64_t* n : {&index.others, &index.circles}) *n = lines.number(counts);
  for (std::int64_t i = 0; i < classes; ++i)
    index.class_names.push_back(lines.escaped(lines.line()));
  for (std::int64_t i = 0; i < texts; ++i) {
    std::string_view line = lines.line();
    const std::int64_t label = lines.number(line);
    lines.require(label >= 0 && label < kMostClasses, "a label is not a class");
    const bool is_new =
        index.class_texts.emplace(static_cast<std::int32_t>(label), lines.escaped(line)).second;
    lines.require(is_new, "a class has two names");
  }
  for (std::int64_t i = 0; i < folders; ++i) {
    std::string_view line = lines.line();
    const std::int64_t time = lines.number(line);
    index.folders.push_back({lines.escaped(line), time});
  }
  for (std::int64_t i = 0; i < left_out; ++i) {
    std::string_view line = lines.line();
    const bool has_none = lines.number(line) != 0;
    index.left_out.push_back({lines.escaped(line), has_none});
  }
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < files; ++i) {
    std::string_view line = lines.line();
    FileState state;
    state.size = lines.number(line);
    state.time = lines.number(line);
    const std::uint64_t contents = lines.hash(line);
    const std::int64_t decoding = lines.number(line), own = lines.number(line);
    lines.require(state.size >= 0, "a size is negative");
    lines.require(decoding >= 0 && decoding <= 65535, "what decoding takes is too much");
    lines.require(own >= 0 && own <= records - end && (!is_folder || own == 1),
                  "the files have other pictures");
    end += own;
    index.add_file(lines.escaped(line), state);
    index.contents.back() = contents;
    index.decoding.back() = static_cast<std::uint16_t>(decoding);
    if (!is_folder) index.ends.push_back(end);
  }
  lines.require(end == records, "the files have other pictures");
  std::size_t file = 0;
  for (std::int64_t i = 0; i < records; ++i) {
    std::string_view line = lines.line();
    const std::int64_t label = lines.number(line), decodes = lines.number(line);
    lines.require(label >= 0 && label < (is_folder ? classes : kMostClasses),
                  "a label is not a class");
    index.labels.push_back(static_cast<std::int32_t>(label));
    index.decodes.push_back(same_decoders && decodes == 1 ? 1 : 0);
    if (is_folder) continue;
    while (index.ends[file] <= i) ++file;
    const auto inside = [&](std::int64_t begin, std::int64_t size, std::int64_t from,
                            std::int64_t to) {
      lines.require(begin >= from && size >= 0 && begin <= to && size <= to - begin,
                    "a picture lies outside of its shard");
    };
    const std::int64_t all = index.file_sizes[file];
    const std::int64_t offset = lines.number(line), size = lines.number(line);
    inside(offset, size, 0, all);
    lines.require(size <= kMostPictureBytes, "a picture is too large");
    index.offsets.push_back(offset);
    index.sizes.push_back(static_cast<std::uint32_t>(size));
    if (index.format == PictureFormat::kTar) {
      index.names.add(lines.escaped(line));
      continue;
    }
    const std::int64_t record = lines.number(line), record_size = lines.number(line);
    inside(record, record_size, 0, all);
    inside(offset, size, record, record + record_size);
    lines.require(record_size <= kMostPictureBytes, "a record is too large");
    index.leads.push_back(static_cast<std::uint32_t>(offset - record));
    index.record_sizes.push_back(static_cast<std::uint32_t>(record_size));
  }
  lines.require_end();
  return index;
}

std::string index_file_of(PictureFormat format, const std::string& place) {
  return index_file_of(cat(word_of(format), ":",
                           format == PictureFormat::kFolder ? folder_of(place) : absolute(place)));
}

void keep_index(const PictureIndex& index) {
  keep_index_text(index_file_of(index.format, index.place), index_text(index));
}

PictureIndex index_of(PictureFormat format, const std::string& place, const IndexOptions& options,
                      bool* from_cache) {
  PictureIndex index;
  index.format = format;
  index.place = index.is_folder() ? folder_of(place) : absolute(place);
  const std::vector<std::string> shards =
      index.is_folder() ? std::vector<std::string>() : find_shards(format, index.place);
  const std::string file = index_file_of(format, index.place);
  const auto is_good = [&](const std::optional<PictureIndex>& kept) {
    return kept && kept->format == format && kept->place == index.place &&
           is_current(*kept, shards, options);
  };
  if (from_cache != nullptr) *from_cache = true;
  if (!options.fresh)
    if (std::optional<PictureIndex> kept = kept_index(file); is_good(kept)) return std::move(*kept);
  const IndexLock lock(file, options.stop);
  std::optional<PictureIndex> kept;
  if (!options.fresh) kept = kept_index(file);
  if (is_good(kept)) return std::move(*kept);
  if (from_cache != nullptr) *from_cache = false;
  if (index.is_folder()) {
    scan_folder(index, options);
  } else {
    scan_shards(index, shards, options);
  }
  if (kept) take_over(*kept, index);
  keep_index(index);
  return index;
}

}  // namespace podium
