// TFRecord shards of tf.train.Example, as the TPU pipelines of published results have them. Each
// record has these features, in any order and among others:
//
//   image/encoded      bytes, one: a JPEG or PNG picture
//   image/class/label  int64, one: the number of its class
//   image/class/text   bytes, one at most, need not be there: the name of its class
//
// The checksums of lengths are checked when a shard is indexed, those of data when a record is
// read. Files are not packed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/storage/shard_file.h"

namespace podium {

// Visits the records in their order; pictures are not read. Throws UserError(kData), which names
// file and place, where the file is damaged or cut short, or a record is no such Example.
void scan_tfrecord(ShardFile& file, const std::function<void(const ShardExample&)>& visit);

// What follows the data of a record: its checksum.
inline constexpr std::int64_t kRecordFooter = 4;
// Whether the bytes of a record, with their checksum, are as they were written.
bool is_sound_record(std::span<const std::uint8_t> record);

// Reads the data of a record whole, by protobuf's own code, and compares it with what was found
// without reading the picture. Returns what is wrong; empty: nothing.
std::string record_problem(std::span<const std::uint8_t> data, const ShardExample& found);

}  // namespace podium
