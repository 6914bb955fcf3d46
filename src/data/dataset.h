// Datasets: raw bytes of images and labels, in memory, and where they are found.
//
// A dataset is one file in data/datasets/ and one line in data/dataset_list.h. It is read from
// files (MNIST) or drawn by a procedure (glyphs). Nothing here normalises, shuffles or augments:
// see data/loader.h.
//
// The folders searched for files, in order: DatasetOptions::data_dir, $PODIUM_DATA, ../shared/data
// (relative to the current folder), $XDG_CACHE_HOME/podium or ~/.cache/podium; in each,
// DIR/NAME/FILE and then DIR/FILE, packed (.gz, or all in one archive) or not. The first folder
// that holds any of a dataset's files is the one used: a file missing there is an error, and never
// taken from elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stop.h"
#include "data/image_set.h"

namespace podium {

// Which part of a dataset.
enum class Split : std::uint32_t { kTrain = 0, kTest = 1 };

std::string to_string(Split split);  // "train", "test"

struct DatasetOptions {
  std::string data_dir;             // --data-dir; empty: not given
  std::uint64_t seed = 0;           // of datasets that are drawn; files ignore it
  std::int64_t train_examples = 0;  // of datasets that are drawn; 0: the dataset's own
  std::int64_t test_examples = 0;
  StopToken stop = {};  // loading throws Stopped as it says
};

// A file of a dataset, as it is unpacked. On disk and at the addresses it may be NAME or NAME.gz.
struct DatasetFile {
  std::string name;
  std::int64_t bytes;  // unpacked
  std::string sha256;  // of the unpacked bytes, lower-case hexadecimal; empty: see `digests`
  Split split;         // which needs it
};

// An archive in which all files of a dataset travel: FOLDER/FILE each. It is read as it is; files
// that somebody unpacked, in DIR/FOLDER or DIR, are taken first where none of them is missing.
struct DatasetArchive {
  std::string name, folder;
  std::string md5;  // of the published copy
};

// What is known of a dataset without loading it: shapes, sizes, files and their checksums.
struct DatasetInfo {
  std::string name;
  std::string description;  // one line
  std::int64_t channels, height, width, classes;
  std::int64_t train_examples, test_examples;
  std::vector<DatasetFile> files;      // none: drawn
  std::vector<std::string> addresses;  // folders on the web that hold NAME.gz, or the archive
  ImageSet (*load)(const DatasetInfo& info, Split split, const DatasetOptions& options);
  std::optional<DatasetArchive> archive = {};
  // Where copies in circulation differ in the order of their examples: reads a split from the paths
  // of its files (the archive's for each, where it is packed) and returns a sum that does not
  // depend on the order; `digests` are the right ones, by split. `check_file` throws UserError
  // where an unpacked file cannot be one of them, whatever its order.
  std::uint64_t (*digest)(const DatasetInfo& info, Split split,
                          const std::vector<std::string>& paths,
                          const std::string& remedy) = nullptr;
  void (*check_file)(const DatasetFile& file, const std::string& path,
                     const std::string& remedy) = nullptr;
  std::array<std::uint64_t, 2> digests = {};
  std::vector<std::string> class_names = {};  // by label; none: a class is called by its number

  // The name of a class; its number where the dataset has no names.
  std::string class_name(std::int64_t label) const;
};

// Whether `path` is the dataset's archive, or the beginning of one that is being downloaded.
bool is_archive(const DatasetInfo& info, const std::string& path);

// Every dataset, in the order of data/dataset_list.h.
std::span<const DatasetInfo> dataset_list();

// What a recipe has as `data` where a program handed its own sets to run().
inline constexpr const char* kOwnData = "own";

// Throws UserError(kUsage) that names the nearest known one, or (kData) for kOwnData, whose
// examples only that program has.
const DatasetInfo& find_dataset(const std::string& name);

// Throws UserError: kUsage for an unknown name, kData for files that are missing or bad.
ImageSet load_dataset(const std::string& name, Split split, const DatasetOptions& options = {});

// Examples [first, first + n): to hold some of a training set out for validation.
ImageSet part_of(const ImageSet& set, std::int64_t first, std::int64_t n);

// What tells one set from another, other examples or the same in another order. Throws Stopped as
// `stop` says.
std::uint64_t hash_of(const ImageSet& set, StopToken stop = {});

// Makes `bytes` longer, with zeros. The system gives memory page by page, which takes seconds for a
// large set: throws Stopped as `stop` says.
void lengthen(std::vector<std::uint8_t>& bytes, std::size_t size, StopToken stop);

// The folders that are searched for a dataset's files, in order.
std::vector<std::string> dataset_folders(const std::string& data_dir);

// The user's cache folder: $XDG_CACHE_HOME/podium or ~/.cache/podium; empty where neither variable
// is set.
std::string cache_folder();

// Of each folder in `place` that holds any of the dataset's files, not in the archive: the path of
// each file, in the order of `info.files`; an empty path for one that is missing there.
std::vector<std::vector<std::string>> unpacked_files(const DatasetInfo& info,
                                                     const std::string& place);

// The path of each of the dataset's files, in the order of `info.files`: those of the first folder
// that holds any; an empty path for a file that is missing there, the archive's path for all where
// it holds that and not each of the files beside it. nullopt: no folder holds any.
std::optional<std::vector<std::string>> locate_files(const DatasetInfo& info,
                                                     const std::string& data_dir);

// The path of each of the dataset's files, as locate_files gives them. Throws UserError(kData) that
// lists the folders searched and what to do where no folder holds any.
std::vector<std::string> require_any_file(const DatasetInfo& info, const DatasetOptions& options);

// The paths of the files that `split` needs, in the order of `info.files`; downloads them where the
// options allow that. Throws UserError(kData) as above, and for a file that is missing.
std::vector<std::string> require_files(const DatasetInfo& info, Split split,
                                       const DatasetOptions& options);

// The text about a file of the dataset that is missing (an empty path in what locate_files gave).
std::string missing_file_text(const DatasetFile& file, const std::vector<std::string>& paths,
                              const std::string& remedy);

// What to do about a bad file where the options find the dataset: the end of an error's text. What
// it says brings files that the same options find first.
std::string fetch_remedy(const DatasetInfo& info, const DatasetOptions& options);

}  // namespace podium
