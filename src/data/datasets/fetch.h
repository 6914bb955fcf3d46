// Fetching and verifying the files of a dataset: the `podium data` commands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/datasets/dataset.h"

namespace podium {

// Called from time to time: the file, its bytes so far, and in all (0: not known yet).
using FetchProgress =
    std::function<void(const std::string& file, std::int64_t bytes, std::int64_t total)>;

struct FetchedFile {
  std::string path;
  bool downloaded = false;  // else it was there already, and intact
};

// Brings the dataset's files into `folder`/NAME (empty: the cache folder). Files that are there and
// intact stay; others are downloaded from the dataset's addresses in turn, or from
// $PODIUM_DOWNLOAD_BASE alone (BASE/NAME/FILE.gz, then BASE/FILE.gz), resumed where they were cut,
// and checked (verify_dataset) before they take their names. Damaged files that are in the way are
// renamed to FILE.damaged, or FILE.damaged-2 and on, once an intact copy is at hand. Throws
// UserError: kUsage for an unknown dataset, kData for anything that cannot be had, read or written.
std::vector<FetchedFile> fetch_dataset(const std::string& name, const std::string& folder,
                                       const FetchProgress& progress);
std::vector<FetchedFile> fetch_dataset(const DatasetInfo& info, const std::string& folder,
                                       const FetchProgress& progress);

struct FileCheck {
  std::string file, path;  // path: empty where the file is missing
  bool intact = false;
  bool damaged = false;  // neither intact nor missing, and it could be read
  std::string problem;   // empty where intact; else what, and what to do
};

// Checks each file of the dataset where `options` finds it: its length, and SHA-256 of the unpacked
// bytes or, of a dataset that comes in several forms, a digest of its examples. A dataset that is
// drawn has no files, and yields an empty list. Throws UserError: kUsage for an unknown dataset,
// kData where no folder holds any of its files.
std::vector<FileCheck> verify_dataset(const std::string& name, const DatasetOptions& options = {});
std::vector<FileCheck> verify_dataset(const DatasetInfo& info, const DatasetOptions& options = {});

}  // namespace podium
