#include "store/stored_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "base/words.h"
#include "files/checksum.h"
#include "files/file_io.h"
#include "files/file_state.h"
#include "store/cache_place.h"
#include "store/upload.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateName = "folder.json";
// How often what somebody else has replaced meanwhile is read again, and for how long a writer
// tries to get between two publications of another one.
constexpr int kTurns = 20;
constexpr double kTakeOverSeconds = 60;
constexpr int kFilesAtOnce = 8;
// Files up to this size are read once, hashed and sent, so that they may grow meanwhile.
constexpr std::int64_t kSmallFile = kPartBytes;

// The files of a folder that others may see, by their paths in it: no locks, which begin with a
// dot, and none that are being written (files/file_io.h).
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool half = name.ends_with(".part") || name.find(".writing-") != std::string::npos;
    if (name.starts_with('.') || half) {
      if (entry->is_directory(error)) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file(error))
      names.push_back(entry->path().lexically_relative(folder).generic_string());
  }
  std::ranges::sort(names);
  return names;
}

ObjectAddress below(const ObjectAddress& address, const std::string& name) {
  std::string key = address.key;
  while (key.ends_with('/')) key.pop_back();
  return address.at(key.empty() ? name : key + "/" + name);
}

constexpr const char* kFormats[] = {"podium folder 1", "podium folder 2"};
constexpr std::size_t kMarkDigits = 8;

std::string key_of(const ObjectAddress& address, const std::string& name, const StoredFile& file) {
  const std::string end = file.mark.empty() ? "" : "." + file.mark;
  return below(address, cat("files/", name, ".", file.sha256.substr(0, 16), end)).key;
}

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The state that is published, and its tag; nothing: there is none.
std::optional<std::pair<FolderState, std::string>> read_state(ObjectStore& store,
                                                              const ObjectAddress& address) {
  const ObjectAddress place = below(address, kStateName);
  for (int turn = 1;; ++turn) {
    const auto object = store.find(place.key);
    if (!object) return std::nullopt;
    constexpr std::int64_t kMost = std::int64_t{64} << 20;
    PODIUM_REQUIRE(object->size <= kMost, ExitCode::kData, place.text(), ": ", object->size,
                   " bytes are no list of files");
    try {
      return std::pair{parse_folder_state(store.read(*object, 0, object->size), place.text()),
                       object->tag};
    } catch (const ObjectChanged&) {
      if (turn == kTurns) throw;  // else somebody has published in between
    }
  }
}

void fetch_file(ObjectStore& store, const ObjectAddress& address, const std::string& name,
                const StoredFile& file, const fs::path& to) {
  const std::string key = key_of(address, name, file);
  // Its name says what it holds, so that no tag is needed.
  const ObjectInfo object{key, file.size, ""};
  make_folders(to.parent_path());
  Checksum sum(ChecksumKind::kSha256);
  const fs::path half = to.parent_path() / ("." + to.filename().string() + ".part");
  OutputFile out(half, OutputFile::Mode::kReplace);
  for (std::int64_t offset = 0; offset < file.size; offset += kPartBytes) {
    const std::string bytes = store.read(object, offset, std::min(kPartBytes, file.size - offset));
    sum.update({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    out.write(bytes);
  }
  out.close();
  const std::string found = sum.finish();
  PODIUM_REQUIRE(found == file.sha256, ExitCode::kData, address.at(key).text(),
                 ": the bytes that arrived have the SHA-256 ", found, ", and ", kStateName,
                 " states ", file.sha256,
                 "; start again, and if it happens again, the object is damaged");
  std::error_code error;
  fs::rename(half, to, error);
  if (error) throw_io_error(to, "rename", error.value());
}

// Makes `folder` what the state says; files that it has already stay.
void fetch_all(ObjectStore& store, const ObjectAddress& address, const FolderState& state,
               const fs::path& folder) {
  make_folders(folder);
  std::vector<std::string> missing;
  for (const auto& [name, file] : state.files) {
    const auto seen = state_of((folder / name).string());
    if (!seen || seen->size != file.size ||
        checksum_of_file(folder / name, ChecksumKind::kSha256) != file.sha256)
      missing.push_back(name);
  }
  if (!missing.empty())
    log(LogLevel::kInfo,
        cat(address.text(), ": copying ", count_text(std::ssize(missing), "file")));
  for_each_at_once(std::ssize(missing), kFilesAtOnce, [&](std::int64_t i) {
    const std::string& name = missing[static_cast<std::size_t>(i)];
    fetch_file(store, address, name, state.files.at(name), folder / name);
  });
  for (const std::string& name : files_in(folder)) {
    std::error_code error;
    if (!state.files.contains(name)) fs::remove(folder / name, error);
  }
}

std::string name_of(const ObjectAddress& address) {
  std::string key = address.key;
  while (key.ends_with('/')) key.pop_back();
  const std::string name = key.substr(key.rfind('/') + 1);
  return name.empty() ? address.bucket : name;
}

// Differs from those of all other writers.
std::string new_writer() {
  std::random_device random;
  return cat(host_name(), ", process ", ::getpid(), ", ", random(), random());
}

// A file that changed while it was published; the next turn has it.
struct ChangedMeanwhile : std::exception {};

// Somebody else publishes there now.
struct TakenOver : UserError {
  explicit TakenOver(const std::string& what) : UserError(what, ExitCode::kData) {}
};

}  // namespace

FolderState parse_folder_state(const std::string& text, const std::string& what) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto wrong = [&](const std::string& why) {
    return UserError(cat(what, ": ", why, "; it is not what podium publishes"), ExitCode::kData);
  };
  const auto format = json.is_object() ? json.value("format", nlohmann::json()) : nlohmann::json();
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    throw wrong("it does not begin as the list of a folder's files");
  if (!json.contains("files") || !json["files"].is_object() || !json.contains("writer") ||
      !json["writer"].is_string())
    throw wrong("\"files\" or \"writer\" is missing");
  FolderState state{json["writer"], {}};
  for (const auto& [name, file] : json["files"].items()) {
    const fs::path path(name);
    const bool plain =
        !name.empty() && path.is_relative() && std::ranges::none_of(path, [](const fs::path& part) {
          return part.empty() || part.native().starts_with('.');
        });
    if (!plain) throw wrong(cat("\"", name, "\" is no name of a file"));
    const bool whole = file.is_object() && file.contains("size") &&
                       file["size"].is_number_unsigned() && file.contains("sha256") &&
                       file["sha256"].is_string();
    const std::string hash = whole ? file["sha256"].get<std::string>() : "";
    if (!whole || file["size"].get<std::uint64_t>() > (std::uint64_t{1} << 62) || !is_hex(hash, 64))
      throw wrong(cat("\"", name, "\" lacks a size or a SHA-256"));
    const auto mark = file.value("mark", nlohmann::json(""));
    if (!mark.is_string() || !(mark == "" || is_hex(mark, kMarkDigits)))
      throw wrong(cat("\"", name, "\" has a mark that is none"));
    state.files[name] = {file["size"], hash, mark};
  }
  return state;
}

std::string to_json(const FolderState& state) {
  nlohmann::ordered_json json = {{"format", kFormats[1]}, {"writer", state.writer}};
  json["files"] = nlohmann::ordered_json::object();
  for (const auto& [name, file] : state.files)
    json["files"][name] = {{"size", file.size}, {"sha256", file.sha256}, {"mark", file.mark}};
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

StoredFolder::StoredFolder(const std::string& address, const HttpPatience& patience)
    : address_(parse_address(address)), store_(open_store(address_, patience)) {
  PODIUM_REQUIRE(!address_.scheme.starts_with("http"), ExitCode::kUsage, address,
                 " can only be read; name a folder, s3://BUCKET/KEY or gs://BUCKET/KEY");
  const fs::path place = cache_place(address_, "published");
  make_folders(place);
  folder_ = place / name_of(address_);
  record_ = place / "writers.txt";
  open();
  thread_ = std::thread([this] { work(); });
}

StoredFolder::~StoredFolder() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StoredFolder::take_over() {
  // Whoever publishes meanwhile is the older writer: once more with what it has published.
  const std::string writer = new_writer();
  const std::string known = read_text(record_).value_or("");
  mark_ = sha256(writer).substr(0, kMarkDigits);
  for (const auto start = Clock::now(); seconds_since(start) < kTakeOverSeconds;) {
    // Before the folder is taken over: whoever takes it over later has sent none of these.
    const std::vector<ObjectInfo> there = store_->list(below(address_, "").key);
    const auto published = read_state(*store_, address_);
    if (!published) {
      PODIUM_REQUIRE(there.empty(), ExitCode::kData, address_.text(),
                     ": there are other objects, such as ",
                     address_.at(there.empty() ? "" : there[0].key).text(),
                     ", and none that podium published; name an address below which there is "
                     "nothing");
    }
    state_ = published ? published->first : FolderState{};
    last_writer_ = std::exchange(state_.writer, writer);
    own_ = !last_writer_.empty() && known.find(last_writer_ + "\n") != std::string::npos;
    // Whichever of the two the store has when this process is killed, it is this machine's.
    if (own_) replace_text(record_, last_writer_ + "\n" + writer + "\n");
    const auto taken = store_->write(
        below(address_, kStateName).key, to_json(state_),
        published ? WriteIf{.absent = false, .tag = published->second} : WriteIf{.absent = true});
    if (!taken) continue;
    tag_ = *taken;
    const std::string files = below(address_, "files/").key;
    for (const ObjectInfo& object : there)
      if (object.key.starts_with(files)) keys_.insert(object.key);
    return;
  }
  throw UserError(cat(address_.text(), ": other processes write it again and again; start again"),
                  ExitCode::kData);
}

// Objects that an earlier state had, or that were sent for one that was never published. Nobody
// else can name them: each writer's mark is its own.
void StoredFolder::remove_unnamed() {
  std::set<std::string> named;
  for (const auto& [name, file] : state_.files) named.insert(key_of(address_, name, file));
  std::erase_if(keys_, [&](const std::string& key) {
    if (named.contains(key)) return false;
    store_->remove(key);
    return true;
  });
}

void StoredFolder::open() {
  // First, so that nobody removes files that are copied here.
  take_over();
  try {
    remove_unnamed();
  } catch (const UserError& failure) {
    log(LogLevel::kWarning, cat(address_.text(), ": ", failure.what()));
  }
  std::error_code error;
  const bool there = fs::exists(folder_, error);
  if (!own_ && there) {
    // It is what another state of the address went on from, or was deleted there: set aside.
    fs::path aside;
    for (int n = 1; aside.empty() || fs::exists(aside, error); ++n)
      aside = folder_.string() + cat("-previous-", n);
    fs::rename(folder_, aside, error);
    if (error) throw_io_error(folder_, "rename", error.value());
    log(LogLevel::kWarning,
        cat(address_.text(), " holds another state than this machine's, which is now ",
            aside.string()));
  }
  if (!(own_ && there) && !state_.files.empty()) {
    log(LogLevel::kInfo, cat(address_.text(), " was last written by ", last_writer_));
    fetch_all(*store_, address_, state_, folder_);
  }
  make_folders(folder_);
  replace_text(record_, state_.writer + "\n");
}

void StoredFolder::publish() {
  FolderState next{state_.writer, {}};
  std::vector<std::string> names = files_in(folder_);
  std::mutex mutex;
  for_each_at_once(std::ssize(names), kFilesAtOnce, [&](std::int64_t i) {
    const std::string& name = names[static_cast<std::size_t>(i)];
    const fs::path path = folder_ / name;
    const auto before = state_of(path.string());
    if (!before) return;  // removed since
    StoredFile file{before->size, "", ""};
    {
      const std::lock_guard lock(mutex);
      const auto seen = seen_.find(name);
      if (seen != seen_.end() && seen->second.state == *before) file.sha256 = seen->second.sha256;
    }
    const auto is_published = [&] {
      const auto known = state_.files.find(name);
      const bool same = known != state_.files.end() && known->second.same_contents(file);
      file.mark = same ? known->second.mark : mark_;
      return same;
    };
    const auto new_key = [&] {
      const std::lock_guard lock(mutex);
      return *keys_.insert(key_of(address_, name, file)).first;
    };
    try {
      if (!file.sha256.empty() && is_published()) {
        // Nothing to send.
      } else if (file.size <= kSmallFile) {
        const auto bytes = read_text(path);
        if (!bytes) return;  // removed since
        file = {std::ssize(*bytes), sha256(*bytes), ""};
        if (!is_published()) store_->write(new_key(), *bytes, {});
      } else {
        if (file.sha256.empty()) file.sha256 = checksum_of_file(path, ChecksumKind::kSha256);
        if (!is_published()) store_->write_file(new_key(), path);
        if (state_of(path.string()) != before) throw ChangedMeanwhile();
      }
    } catch (const UserError&) {
      if (!state_of(path.string())) return;  // removed while it was read
      throw;
    }
    const std::lock_guard lock(mutex);
    // One that grew between the two has another state than this, and is hashed again.
    seen_[name] = {*before, file.size == before->size ? file.sha256 : ""};
    next.files[name] = file;
  });
  if (next.files == state_.files) return;
  const auto written = store_->write(below(address_, kStateName).key, to_json(next), {.tag = tag_});
  if (!written) {
    // An answer that was lost on its way looks the same: then the state there is ours.
    const auto there = read_state(*store_, address_);
    if (!there || there->first.writer != state_.writer)
      throw TakenOver(cat(address_.text(), ": another process has taken this folder over (",
                          there ? there->first.writer : "it was deleted",
                          "), so this one ends. What it made since is in ", folder_.string()));
    tag_ = there->second;
    if (there->first.files != next.files) {
      state_ = there->first;
      throw ChangedMeanwhile();
    }
  } else {
    tag_ = *written;
  }
  state_ = std::move(next);
  remove_unnamed();
}

void StoredFolder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return wanted_ || ends_; });
    if (ends_) return;
    wanted_ = false;
    lock.unlock();
    std::exception_ptr lost;
    try {
      publish();
    } catch (const ChangedMeanwhile&) {
      // The next turn.
    } catch (const TakenOver&) {
      lost = std::current_exception();
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, cat(address_.text(), ": ", error.what()));
    }
    lock.lock();
    if (lost) lost_ = lost;
    changed_.notify_all();
  }
}

void StoredFolder::publish_soon() {
  const std::lock_guard lock(mutex_);
  if (lost_) std::rethrow_exception(lost_);
  wanted_ = true;
  changed_.notify_all();
}

void StoredFolder::finish() {
  {
    std::unique_lock lock(mutex_);
    if (lost_) std::rethrow_exception(lost_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  constexpr int kTurns = 3;
  for (int turn = 1;; ++turn) {
    try {
      publish();
      return;
    } catch (const ChangedMeanwhile&) {
      if (turn == kTurns)
        throw UserError(cat(folder_.string(), ": its files change while they are published"),
                        ExitCode::kData);
    } catch (const TakenOver&) {
      throw;
    } catch (const UserError& error) {
      throw UserError(
          cat(error.what(), "\n", address_.text(), " lacks what was made since; all of it is in ",
              folder_.string(), ", and the same command goes on from there"),
          error.code());
    }
  }
}

std::optional<fs::path> copy_of_stored_folder(ObjectStore& store, const ObjectAddress& address) {
  if (address.scheme.starts_with("http")) return std::nullopt;  // one file
  auto state = read_state(store, address);
  if (!state) return std::nullopt;
  const fs::path place = cache_place(address, "copies"), folder = place / name_of(address);
  const PlaceLock lock(place);
  for (int turn = 1;; ++turn) {
    try {
      fetch_all(store, address, state->first, folder);
      return folder;
    } catch (const UserError&) {
      // Files of a state that is no longer the last are removed: once more with the new one.
      auto next = read_state(store, address);
      if (!next || next->second == state->second || turn == kTurns) throw;
      state = std::move(next);
    }
  }
}

}  // namespace podium
