// A shard, a file that holds many records, read from place to place while it is indexed: what is
// passed over is not read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/storage/indexed_file.h"

namespace podium {

class ShardFile {
 public:
  // Throws UserError(kData) where it cannot be read, or is a folder, pipe or device.
  explicit ShardFile(const std::string& path);
  // Of bytes that outlive it; `name` stands for the path.
  ShardFile(std::span<const std::uint8_t> bytes, std::string name);
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  const std::string& name() const { return name_; }
  const FileState& state() const { return state_; }
  std::int64_t size() const { return state_.size; }

  // `size` bytes at `offset`, which must lie in the file; until the next call.
  std::string_view at(std::int64_t offset, std::int64_t size);
  // Throws UserError(kData) about the byte at `offset`; `what` ends with the remedy.
  [[noreturn]] void fail(std::int64_t offset, const std::string& what) const;

 private:
  std::string name_;
  FileState state_;
  int descriptor_ = -1;
  std::span<const std::uint8_t> bytes_;  // without a descriptor
  std::vector<char> window_;             // what was read last,
  std::int64_t begin_ = 0, end_ = 0;     // from here to there
};

// What a shard is found to hold: a picture and its label.
struct ShardExample {
  std::string_view name;        // of its member in a tar; of a record of TFRecord none
  std::int64_t label = 0;       // in [0, kMostClasses)
  std::string_view class_text;  // the name of the class, where the record has it
  std::int64_t offset = 0;      // of the picture's bytes in the shard
  std::int64_t size = 0;        // at most kMostPictureBytes
  std::int64_t record_offset = 0, record_size = 0;  // of the TFRecord record around it
};
inline constexpr std::int64_t kMostPictureBytes = (std::int64_t{1} << 31) - 1;

}  // namespace podium
