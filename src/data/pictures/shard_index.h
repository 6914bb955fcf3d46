// The index of shards: which examples they hold, where in their files, and of which class. Pictures
// are then read at random, so their order is that of any other dataset. Examples are numbered by
// their shards, in the order of the shards' paths, and by their places in them.
//
// An index is kept in the user's cache folder, and is good for as long as the pattern finds the
// same files with the same sizes and times.
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

enum class ShardFormat { kTar, kTfrecord };

struct ShardIndex {
  ShardFormat format = ShardFormat::kTar;
  std::string pattern;  // an absolute path
  struct Shard {
    std::string path;
    FileState state;
    std::int64_t end = 0;    // of its examples
    std::uint64_t hash = 0;  // of its bytes
  };
  std::vector<Shard> shards;
  std::map<std::int32_t, std::string> class_texts;  // by label, where records have them
  std::int64_t others = 0;                          // files in tars that are no part of an example
  // By example.
  std::vector<std::int32_t> labels;  // as the shards have them
  std::vector<std::int64_t> offsets;
  std::vector<std::uint32_t> sizes;
  // Of tars: the names of the pictures.
  std::vector<std::uint64_t> name_ends;  // in `names`
  std::string names;
  // Of TFRecord: how far before the picture the data of its record begin, and their size.
  std::vector<std::uint32_t> leads, record_sizes;

  std::int64_t count() const { return std::ssize(labels); }
  std::int64_t memory_bytes() const;
  // Which shard has an example, and its first example.
  std::size_t shard_of(std::int64_t example) const;
  std::int64_t first_of(std::size_t shard) const { return shard == 0 ? 0 : shards[shard - 1].end; }
  // Of an example in its shard: "cats/1.jpg", "record 7".
  std::string name(std::int64_t example) const;
  ShardExample at(std::int64_t example) const;
};

// The index of the shards that `pattern` means (data/pictures/shard_pattern.h): that of the cache,
// or a new one, which is put there. Throws UserError(kData) where there are none, or they are bad;
// Stopped as the options say. `from_cache`, if not null, is told which it was.
ShardIndex index_shards(ShardFormat format, const std::string& pattern, const IndexOptions& options,
                        bool* from_cache = nullptr);
// The file of the index.
std::string shard_index_file(ShardFormat format, const std::string& pattern);

// The bytes of an index file, and back. Throws UserError(kData) for bytes that are none.
std::string shard_index_text(const ShardIndex& index);
ShardIndex parse_shard_index(std::string_view text, const std::string& name);

}  // namespace podium
