#include "data/fetch.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

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
  Sha256 sum;
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
  PODIUM_REQUIRE(actual == file.sha256, ExitCode::kData, path, ": SHA-256 is ", actual,
                 ", where it must be ", file.sha256, "; ", remedy);
}

bool intact(const std::string& path, const DatasetFile& file) {
  try {
    check_file(path, file, "");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<std::string> addresses_of(const DatasetInfo& info, const DatasetFile& file) {
  std::vector<std::string> addresses;
  const char* base = std::getenv("PODIUM_DOWNLOAD_BASE");
  if (base != nullptr && *base != 0) {
    std::string root = base;
    while (!root.empty() && root.back() == '/') root.pop_back();
    addresses = {cat(root, "/", info.name, "/", file.name, ".gz"),
                 cat(root, "/", file.name, ".gz")};
  } else {
    for (const std::string& root : info.addresses) {
      addresses.push_back(cat(root, "/", file.name, ".gz"));
    }
  }
  PODIUM_REQUIRE(!addresses.empty(), ExitCode::kData, "no address of ", info.name,
                 " is known; put ", file.name, " into the folder given by --data-dir, or set ",
                 "PODIUM_DOWNLOAD_BASE to the address of a folder that has it");
  return addresses;
}

FetchedFile fetch_file(const DatasetInfo& info, const DatasetFile& file, const fs::path& folder,
                       const FetchProgress& progress) {
  const std::string plain = (folder / file.name).string();
  const std::string packed = plain + ".gz";
  std::error_code ignored;
  const bool damaged_plain = fs::exists(plain, ignored) && !intact(plain, file);
  if (fs::exists(plain, ignored) && !damaged_plain) return {plain, false};
  if (!fs::exists(packed, ignored) || !intact(packed, file)) {
    DownloadRequest request;
    request.addresses = addresses_of(info, file);
    request.target = packed;
    request.check = [&](const std::string& path) {
      check_file(path, file, "what was downloaded is dropped");
    };
    if (progress) {
      request.progress = [&](std::int64_t bytes, std::int64_t total) {
        progress(file.name + ".gz", bytes, total);
      };
    }
    download(request);
  } else if (!damaged_plain) {
    return {packed, false};
  }
  if (damaged_plain) {  // it would be read before the packed one
    fs::rename(plain, plain + ".damaged", ignored);
    log(LogLevel::kWarning, cat(plain, ": was damaged; it is now ", plain, ".damaged"));
  }
  return {packed, true};
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
  std::vector<FileCheck> checks;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    FileCheck check{info.files[i].name, paths[i], false, ""};
    try {
      PODIUM_REQUIRE(!check.path.empty(), ExitCode::kData, check.file, "[.gz] is missing");
      check_file(check.path, info.files[i], fetch_remedy(info, check.path));
      check.intact = true;
    } catch (const UserError& error) {
      check.problem = error.what();
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace podium
