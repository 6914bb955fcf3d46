// The index of a folder of pictures: which files there are, of which class, how large and how old.
// Nothing in it depends on the order in which the system lists a folder.
//
//   PHOTOS/CLASS/...       every folder in PHOTOS is a class; files may lie deeper
//   PHOTOS/train/CLASS/... and PHOTOS/val/CLASS/...: two parts (also "valid", "validation", "test")
//
// Pictures are the files whose names end in .jpg, .jpeg or .png, in small letters or large; others
// are counted. Names that begin with a dot are left out. Links are followed, but not in circles. A
// folder without pictures is no class, and is named. Classes are numbered by their names in the
// order of their bytes, and so are files.
//
// An index is kept in the user's cache folder, and is good for as long as no folder in it has
// changed (by its time): making it reads each file, and there may be millions; of those that have
// the time and size of an older index it takes the hash from there. The commands of `podium data`
// look at each (IndexOptions::check_files).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/storage/index_file.h"

namespace podium {

struct FolderIndex {
  std::string root;                      // the folder, as an absolute path without links
  std::vector<std::string> class_names;  // in order; of the part for training
  std::string train_part, test_part;     // "train", "val"; empty: the folder has no parts
  struct Folder {
    std::string name;       // below the root; the root itself is empty
    std::int64_t time = 0;  // of its last change, in ns
  };
  std::vector<Folder> folders;
  // By file, in order of their names.
  std::vector<std::uint64_t> name_ends;  // in `names`
  std::string names;                     // below the root, one after the other
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> sizes, times;
  std::vector<std::uint64_t> hashes;  // of their bytes
  std::vector<std::string> left_out;  // folders that would be classes, but have no pictures
  std::int64_t others = 0;            // files that are no pictures by their names
  std::int64_t circles = 0;           // links that lead to a folder they are in

  std::int64_t count() const { return std::ssize(labels); }
  std::string_view name(std::int64_t file) const;
  std::int64_t memory_bytes() const;
};

// The index of `folder`: that of the cache, or a new one, which is put there. Throws
// UserError(kData) where there is no such folder, or it has no classes or no pictures; Stopped as
// `stop` says. `from_cache`, if not null, is told which it was.
FolderIndex index_folder(const std::string& folder, const IndexOptions& options,
                         bool* from_cache = nullptr);

// The bytes of an index file, and back. Throws UserError(kData) for bytes that are none.
std::string index_text(const FolderIndex& index);
FolderIndex parse_index(std::string_view text, const std::string& name);

}  // namespace podium
