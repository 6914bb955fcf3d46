#include "data/datasets/fetch.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "base/cache_file.h"
#include "base/error.h"
#include "base/log.h"
#include "data/storage/download.h"
#include "files/byte_source.h"
#include "files/checksum.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// Reads the file, packed or not, and compares. Throws UserError(kData) where it differs.
void check_file(const DatasetInfo& info, const DatasetFile& file, const std::string& path,
                const std::string& remedy) {
  if (info.check_file != nullptr) return info.check_file(file, path, remedy);
  const auto source = open_file(path, remedy);
  std::vector<std::uint8_t> chunk(std::size_t{1} << 20);
  Checksum sum(ChecksumKind::kSha256);
  std::int64_t bytes = 0;
  while (const std::size_t n = source->read(chunk)) {
    sum.update({chunk.data(), n});
    bytes += static_cast<std::int64_t>(n);
    PODIUM_REQUIRE(bytes <= file.bytes, ExitCode::kData, path, ": more than the ", file.bytes,
                   " bytes", source->packed() ? " (unpacked)" : "", " expected; ", remedy);
  }
  PODIUM_REQUIRE(bytes == file.bytes, ExitCode::kData, path, ": ", bytes, " bytes",
                 source->packed() ? " (unpacked)" : "", " instead of ", file.bytes, "; ", remedy);
  const std::string actual = sum.finish();
  PODIUM_REQUIRE(actual == file.sha256, ExitCode::kData, path, ": SHA-256 is ", actual,
                 " instead of ", file.sha256, "; ", remedy);
}

// What to do about a file that the system does not let us read: fetching does not replace it.
constexpr const char* kUnreadableRemedy = "move it away and try again";

// Whether `check` finds nothing wrong. A file that cannot be read is not thereby damaged: that goes
// on as the error that it is.
template <typename Check>
bool intact(const Check& check) {
  try {
    check();
    return true;
  } catch (const UnreadableFile&) {
    throw;
  } catch (const UserError&) {
    return false;
  }
}

// Throws UserError(kData) where the examples of a split are not the dataset's, in whatever order.
void check_digest(const DatasetInfo& info, Split split, const std::vector<std::string>& paths,
                  const std::string& remedy) {
  PODIUM_REQUIRE(
      info.digest(info, split, paths, remedy) == info.digests[static_cast<std::size_t>(split)],
      ExitCode::kData, paths.at(0), ": its ", to_string(split), " examples are not those of ",
      info.name, "; ", remedy);
}

// Of the file as it lies on disk.
std::string md5_of(const std::string& path, const std::string& remedy) {
  const auto source = open_file_as_is(path, remedy);
  std::vector<std::uint8_t> chunk(std::size_t{1} << 20);
  Checksum sum(ChecksumKind::kMd5);
  while (const std::size_t n = source->read(chunk)) sum.update({chunk.data(), n});
  return sum.finish();
}

// An archive is intact where it is the published copy, or holds the published examples.
void check_archive(const DatasetInfo& info, const std::string& path, const std::string& remedy) {
  if (md5_of(path, remedy) == info.archive->md5) return;
  for (const Split split : {Split::kTrain, Split::kTest})
    check_digest(info, split, std::vector<std::string>(info.files.size(), path), remedy);
}

std::vector<std::string> addresses_of(const DatasetInfo& info, const std::string& file) {
  std::vector<std::string> addresses;
  const char* base = std::getenv("PODIUM_DOWNLOAD_BASE");
  if (base != nullptr && *base != 0) {
    std::string root = base;
    while (!root.empty() && root.back() == '/') root.pop_back();
    addresses = {cat(root, "/", info.name, "/", file), cat(root, "/", file)};
  } else {
    for (const std::string& root : info.addresses) {
      addresses.push_back(cat(root, "/", file));
    }
  }
  PODIUM_REQUIRE(!addresses.empty(), ExitCode::kData, "no download address of ", info.name,
                 " is known; put ", file, " into the folder given by --data-dir, or set ",
                 "PODIUM_DOWNLOAD_BASE to the address of a folder that contains it");
  return addresses;
}

// The file, and whether it is damaged, is missing or could not be read.
template <typename Check>
FileCheck checked(const std::string& file, const std::string& path, const Check& check) {
  FileCheck result{.file = file, .path = path};
  try {
    check();
    result.intact = true;
  } catch (const UnreadableFile& error) {
    result.problem = error.what();
  } catch (const UserError& error) {
    result.damaged = !path.empty();
    result.problem = error.what();
  }
  return result;
}

// Of files that lie unpacked, or packed each by itself: `paths` as locate_files gives them.
std::vector<FileCheck> check_files(const DatasetInfo& info, const std::vector<std::string>& paths,
                                   const std::string& remedy) {
  std::vector<FileCheck> checks;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    checks.push_back(checked(info.files[i].name, paths[i], [&] {
      PODIUM_REQUIRE(!paths[i].empty(), ExitCode::kData,
                     missing_file_text(info.files[i], paths, remedy));
      check_file(info, info.files[i], paths[i], remedy);
    }));
  }
  if (info.digest == nullptr) return checks;
  // Of each split, once each of its files can be read: any of them may hold what is wrong.
  for (const Split split : {Split::kTrain, Split::kTest}) {
    std::vector<std::string> of_split;
    bool whole = true;
    for (std::size_t i = 0; i < info.files.size(); ++i) {
      if (info.files[i].split != split) continue;
      of_split.push_back(paths[i]);
      whole = whole && checks[i].intact;
    }
    if (!whole) continue;
    const FileCheck examples =
        checked("", of_split[0], [&] { check_digest(info, split, of_split, remedy); });
    for (std::size_t i = 0; i < info.files.size() && !examples.intact; ++i) {
      if (info.files[i].split != split) continue;
      checks[i].intact = false;
      checks[i].damaged = examples.damaged;
      checks[i].problem = examples.problem;
    }
  }
  return checks;
}

// A damaged file would be read before an intact one: it is renamed, not lost.
void set_aside(const std::string& path) {
  const auto taken = [](const std::string& name) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(name, ignored));
  };
  std::string aside = path + ".damaged";
  for (int copy = 2; taken(aside); ++copy) aside = cat(path, ".damaged-", copy);
  std::error_code error;
  fs::rename(path, aside, error);
  PODIUM_REQUIRE(!error, ExitCode::kData, path, ": is damaged and cannot be renamed to ", aside,
                 ": ", error.message(), "; remove it or move it away yourself");
  log(LogLevel::kWarning, cat(path, ": was damaged; it is now ", aside));
}

// The most bytes that so many may take, packed: where they do not shrink there are a little more.
std::int64_t most_packed(std::int64_t bytes) { return bytes + bytes / 64 + (1 << 16); }

// Downloads `name` of the dataset to `target`, where `check` takes it; no more than `most_bytes`.
void bring(const DatasetInfo& info, const std::string& name, const std::string& target,
           std::int64_t most_bytes, std::function<void(const std::string&)> check,
           const FetchProgress& progress) {
  DownloadRequest request;
  request.addresses = addresses_of(info, name);
  request.target = target;
  request.most_bytes = most_bytes;
  request.check = std::move(check);
  // Only now that there is another copy: a damaged one may hold what can be saved.
  request.ready = [&] {
    std::error_code ignored;
    if (fs::exists(target, ignored)) set_aside(target);
  };
  if (progress) {
    request.progress = [&](std::int64_t bytes, std::int64_t total) {
      progress(name, bytes, total);
    };
  }
  request.notice = [](const std::string& text) { log(LogLevel::kWarning, text); };
  download(request);
}

FetchedFile fetch_file(const DatasetInfo& info, const DatasetFile& file, const fs::path& folder,
                       const FetchProgress& progress) {
  const std::string plain = (folder / file.name).string();
  const std::string packed = plain + ".gz";
  const auto is_intact = [&](const std::string& path) {
    return intact([&] { check_file(info, file, path, kUnreadableRemedy); });
  };
  std::error_code ignored;
  const bool damaged_plain = fs::exists(plain, ignored) && !is_intact(plain);
  if (fs::exists(plain, ignored) && !damaged_plain) return {plain, false};
  const bool was_here = fs::exists(packed, ignored) && is_intact(packed);
  if (!was_here) {
    bring(
        info, file.name + ".gz", packed, most_packed(file.bytes),
        [&](const std::string& path) { check_file(info, file, path, "the download is discarded"); },
        progress);
  }
  if (damaged_plain) set_aside(plain);
  return {packed, !was_here};
}

FetchedFile fetch_archive(const DatasetInfo& info, const fs::path& folder,
                          const FetchProgress& progress) {
  const std::string path = (folder / info.archive->name).string();
  std::error_code ignored;
  const bool was_here =
      fs::exists(path, ignored) && intact([&] { check_archive(info, path, kUnreadableRemedy); });
  if (!was_here) {
    std::int64_t bytes = 0;
    for (const DatasetFile& file : info.files) bytes += file.bytes;
    bring(
        info, info.archive->name, path, most_packed(bytes),
        [&](const std::string& part) { check_archive(info, part, "the download is discarded"); },
        progress);
  }
  // Unpacked files are read before the archive. One that was set aside may uncover its packed form.
  for (bool again = true; again;) {
    again = false;
    for (const std::vector<std::string>& paths : unpacked_files(info, folder.string())) {
      for (const FileCheck& check : check_files(info, paths, kUnreadableRemedy)) {
        PODIUM_REQUIRE(check.intact || check.damaged || check.path.empty(), ExitCode::kData,
                       check.problem);
        if (!check.damaged) continue;
        set_aside(check.path);
        again = true;
      }
    }
  }
  return {path, !was_here};
}

}  // namespace

std::vector<FetchedFile> fetch_dataset(const std::string& name, const std::string& folder,
                                       const FetchProgress& progress) {
  return fetch_dataset(find_dataset(name), folder, progress);
}

std::vector<FetchedFile> fetch_dataset(const DatasetInfo& info, const std::string& folder,
                                       const FetchProgress& progress) {
  const std::string root = folder.empty() ? cache_folder() : folder;
  PODIUM_REQUIRE(
      info.files.empty() || !root.empty(), ExitCode::kData,
      "no folder to download to: neither $XDG_CACHE_HOME nor $HOME is set; name one with "
      "--data-dir");
  std::vector<FetchedFile> fetched;
  if (info.archive) return {fetch_archive(info, fs::path(root) / info.name, progress)};
  for (const DatasetFile& file : info.files) {
    fetched.push_back(fetch_file(info, file, fs::path(root) / info.name, progress));
  }
  return fetched;
}

std::vector<FileCheck> verify_dataset(const std::string& name, const DatasetOptions& options) {
  return verify_dataset(find_dataset(name), options);
}

std::vector<FileCheck> verify_dataset(const DatasetInfo& info, const DatasetOptions& options) {
  if (info.files.empty()) return {};
  const std::vector<std::string> paths = require_any_file(info, options);
  const std::string remedy = fetch_remedy(info, options);
  if (is_archive(info, paths[0])) {
    return {checked(info.archive->name, paths[0], [&] { check_archive(info, paths[0], remedy); })};
  }
  return check_files(info, paths, remedy);
}

}  // namespace podium
