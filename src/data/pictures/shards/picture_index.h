// The index of pictures that lie in files: which there are, where, and of which class. A file of a
// folder is one record; a shard, a tar or a TFRecord file, has many. Nothing in it depends on the
// order in which the system lists a folder: files are in the order of the bytes of their names,
// records in the order of their files and, in a shard, of their places.
//
// An index is kept in the user's cache folder. One of a folder is good for as long as no folder in
// it has changed (by its time): it takes a look at each file to make it, and there may be millions;
// the commands of `podium data` look at each (IndexOptions::check_files). One of shards is good for
// as long as the pattern finds the same files with the same sizes and times.
//
// What takes reading is added when it is first asked for, and taken over for files whose size and
// time are as before: a hash of a file's pictures, by which copies are the same data wherever they
// lie, and which pictures are known to decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/storage/index_file.h"
#include "data/storage/indexed_file.h"
#include "data/storage/shard_file.h"

namespace podium {

enum class PictureFormat { kFolder, kTar, kTfrecord };

// Names in one text: there may be millions.
class NameList {
 public:
  void add(std::string_view name) {
    text_ += name;
    ends_.push_back(text_.size());
  }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }
  std::size_t size() const { return ends_.size(); }
  std::int64_t memory_bytes() const { return std::ssize(text_) + 8 * std::ssize(ends_); }

 private:
  std::string text_;
  std::vector<std::uint64_t> ends_;
};

inline constexpr std::int64_t kDecodingUnit = std::int64_t{64} << 10;

struct PictureIndex {
  PictureFormat format = PictureFormat::kFolder;
  // The folder, as an absolute path without links, or the pattern of shards, as an absolute path.
  std::string place;

  // Of a folder.
  std::string train_part, test_part;     // "train", "val"; empty: the folder has no parts
  std::vector<std::string> class_names;  // in order; of the part for training
  struct Folder {
    std::string name;       // below the place, which itself is empty
    std::int64_t time = 0;  // of its last change, in ns
  };
  std::vector<Folder> folders;
  struct LeftOut {  // a folder where a class could be
    std::string name;
    bool has_no_pictures = true;  // false: it is in neither part
  };
  std::vector<LeftOut> left_out;
  std::int64_t circles = 0;  // links that lead to a folder they are in

  std::map<std::int32_t, std::string>
      class_texts;          // of TFRecord, by label, where records have them
  std::int64_t others = 0;  // files that are no pictures

  // By file.
  NameList files;  // of a folder: below the place; of shards: paths
  std::vector<std::int64_t> file_sizes, file_times;
  std::vector<std::uint64_t> contents;  // hashes of their pictures; 0: not read yet
  // What decoding the largest of them takes, in units of kDecodingUnit.
  std::vector<std::uint16_t> decoding;
  std::vector<std::int64_t> ends;  // of shards: of their records

  // By record.
  std::vector<std::int32_t> labels;   // as the shards have them
  std::vector<std::uint8_t> decodes;  // 1: it is known to
  std::vector<std::int64_t> offsets;  // of shards, as the others
  std::vector<std::uint32_t> sizes;
  NameList names;  // of tars: of the pictures
  // Of TFRecord: how far before the picture the data of its record begin, and their size.
  std::vector<std::uint32_t> leads, record_sizes;

  bool is_folder() const { return format == PictureFormat::kFolder; }
  std::int64_t count() const { return std::ssize(labels); }
  std::int64_t memory_bytes() const;
  // Adds a file without records.
  void add_file(std::string_view name, const FileState& state);
  std::size_t file_of(std::int64_t record) const;
  std::int64_t first_of(std::size_t file) const;
  std::int64_t end_of(std::size_t file) const { return first_of(file + 1); }
  std::string path(std::size_t file) const;
  FileState state(std::size_t file) const { return {file_sizes[file], file_times[file]}; }
  // Of a record in its place or shard: "cats/1.jpg", "record 7".
  std::string name(std::int64_t record) const;
  // Where a record lies.
  ShardExample at(std::int64_t record) const;
};

// The index of a folder or of the shards that a pattern means
// (data/pictures/shards/shard_pattern.h): that of the cache, or a new one, which is put there.
// Throws UserError(kData) where there is no such place, it has no classes or no pictures, or shards
// are bad; Stopped as the options say. `from_cache`, if not null, is told which it was.
PictureIndex index_of(PictureFormat format, const std::string& place, const IndexOptions& options,
                      bool* from_cache = nullptr);
// The file of the index.
std::string index_file_of(PictureFormat format, const std::string& place);
void keep_index(const PictureIndex& index);

// The bytes of an index file, and back. Throws UserError(kData) for bytes that are none.
std::string index_text(const PictureIndex& index);
PictureIndex parse_index(std::string_view text, const std::string& name);

}  // namespace podium
