#include "data/fetch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "data/byte_source.h"
#include "data/checksum.h"
#include "data/download.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// Reads the file, packed or not, and compares. Throws UserError(kData) where it differs.
void check_file(const std::string& path, const DatasetFile& file, const std::string& remedy) {
  const auto source = open_file(path, remedy);
  std::vector<std::uint8_t> chunk(std::size_t{1} << 20);
  Checksum sum(ChecksumKind::kSha256);
  std::int64_t bytes = 0;
  while (const std::size_t n = source->read(chunk)) {
    sum.update({chunk.data(), n});
    bytes += static_cast<std::int64_t>(n);
    PODIUM_REQUIRE(bytes <= file.bytes, ExitCode::kData, path, ": more than the ", file.bytes,
                   " bytes", source->packed() ? " (unpacked)" : "", " that it must have; ", remedy);
  }
  PODIUM_REQUIRE(bytes == file.bytes, ExitCode::kData, path, ": ", bytes, " bytes",
                 source->packed() ? " (unpacked)" : "", ", where it must have ", file.bytes, "; ",
                 remedy);
  const std::string actual = sum.finish();
  PODIUM_REQUIRE(file.sha256.empty() || actual == file.sha256, ExitCode::kData, path,
                 ": SHA-256 is ", actual, ", where it must be ", file.sha256, "; ", remedy);
}

bool intact(const std::string& path, const DatasetFile& file) {
  try {
    check_file(path, file, "");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Throws UserError(kData) where the examples of a split are not the dataset's, in whatever order.
void check_digest(const DatasetInfo& info, Split split, const std::vector<std::string>& paths,
                  const std::string& remedy) {
  PODIUM_REQUIRE(info.digest(info, split, paths) == info.digests[static_cast<std::size_t>(split)],
                 ExitCode::kData, paths.at(0), ": its ", to_string(split),
                 " examples are not those of ", info.name, "; ", remedy);
}

std::string md5_of(const std::string& path, const std::string& remedy) {
  const auto source = open_file(path, remedy);
  // As it lies on disk: a packed file is not unpacked for this.
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(std::size_t{1} << 20);
  Checksum sum(ChecksumKind::kMd5);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0)
    sum.update({reinterpret_cast<const std::uint8_t*>(chunk.data()),
                static_cast<std::size_t>(file.gcount())});
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
  PODIUM_REQUIRE(!addresses.empty(), ExitCode::kData, "no address of ", info.name,
                 " is known; put ", file, " into the folder given by --data-dir, or set ",
                 "PODIUM_DOWNLOAD_BASE to the address of a folder that has it");
  return addresses;
}

// A damaged file would be read before an intact one: it is renamed, not lost.
void set_aside(const std::string& path) {
  std::error_code ignored;
  fs::rename(path, path + ".damaged", ignored);
  log(LogLevel::kWarning, cat(path, ": was damaged; it is now ", path, ".damaged"));
}

// Downloads `name` of the dataset to `target`, where `check` takes it.
void bring(const DatasetInfo& info, const std::string& name, const std::string& target,
           std::function<void(const std::string&)> check, const FetchProgress& progress) {
  DownloadRequest request;
  request.addresses = addresses_of(info, name);
  request.target = target;
  request.check = std::move(check);
  if (progress) {
    request.progress = [&](std::int64_t bytes, std::int64_t total) {
      progress(name, bytes, total);
    };
  }
  download(request);
}

FetchedFile fetch_file(const DatasetInfo& info, const DatasetFile& file, const fs::path& folder,
                       const FetchProgress& progress) {
  const std::string plain = (folder / file.name).string();
  const std::string packed = plain + ".gz";
  std::error_code ignored;
  const bool damaged_plain = fs::exists(plain, ignored) && !intact(plain, file);
  if (fs::exists(plain, ignored) && !damaged_plain) return {plain, false};
  if (!fs::exists(packed, ignored) || !intact(packed, file)) {
    bring(
        info, file.name + ".gz", packed,
        [&](const std::string& path) { check_file(path, file, "what was downloaded is dropped"); },
        progress);
  } else if (!damaged_plain) {
    return {packed, false};
  }
  if (damaged_plain) set_aside(plain);
  return {packed, true};
}

FetchedFile fetch_archive(const DatasetInfo& info, const fs::path& folder,
                          const FetchProgress& progress) {
  const std::string path = (folder / info.archive->name).string();
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    try {
      check_archive(info, path, "");
      return {path, false};
    } catch (const UserError&) {
      set_aside(path);
    }
  }
  bring(
      info, info.archive->name, path,
      [&](const std::string& part) { check_archive(info, part, "what was downloaded is dropped"); },
      progress);
  return {path, true};
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
  const auto checked = [](const std::string& file, const std::string& path, const auto& check) {
    FileCheck result{file, path, false, ""};
    try {
      check();
      result.intact = true;
    } catch (const UserError& error) {
      result.problem = error.what();
    }
    return result;
  };
  if (is_archive(info, paths[0])) {
    return {checked(info.archive->name, paths[0],
                    [&] { check_archive(info, paths[0], fetch_remedy(info, paths[0])); })};
  }
  std::vector<FileCheck> checks;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    checks.push_back(checked(info.files[i].name, paths[i], [&] {
      PODIUM_REQUIRE(!paths[i].empty(), ExitCode::kData, info.files[i].name, "[.gz] is missing");
      check_file(paths[i], info.files[i], fetch_remedy(info, paths[i]));
    }));
  }
  if (info.digest == nullptr) return checks;
  // Of each split, once its files have the right lengths: any of them may hold what is wrong.
  for (const Split split : {Split::kTrain, Split::kTest}) {
    std::vector<std::string> of_split;
    bool whole = true;
    for (std::size_t i = 0; i < info.files.size(); ++i) {
      if (info.files[i].split != split) continue;
      of_split.push_back(paths[i]);
      whole = whole && checks[i].intact;
    }
    if (!whole) continue;
    const FileCheck examples = checked(
        "", "", [&] { check_digest(info, split, of_split, fetch_remedy(info, of_split[0])); });
    for (std::size_t i = 0; i < info.files.size() && !examples.intact; ++i) {
      if (info.files[i].split != split) continue;
      checks[i].intact = false;
      checks[i].problem = examples.problem;
    }
  }
  return checks;
}

}  // namespace podium
