// Pictures in files, as named in a recipe: `data = "folder:PATH"`, "tar:PATTERN" or
// "tfrecord:PATTERN", or the [data] table.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// The keys of a recipe's [data] table, except the name.
struct PictureOptions {
  std::string path;         // of the folder, or the pattern of the shards
  std::int64_t size = 224;  // the sides of an example
  std::int64_t resize = 0;  // in evaluation, the shorter side before the crop; 0: size * 8 / 7
  double held_out = 0.1;    // share of each class, if the folder has no part for evaluation
  std::string on_error = "stop";  // or "skip"
  std::int64_t skip_limit = 100;
  std::int64_t classes = 0;     // how many there are; 0: as many as the data have
  std::int64_t label_base = 0;  // of shards, whose labels are numbers: what the first class has
  bool operator==(const PictureOptions&) const = default;
};

// A value of a recipe's `data` that is not the name of a dataset: pictures in a folder.
inline constexpr const char* kFolderData = "folder";
inline constexpr const char* kTarData = "tar";
inline constexpr const char* kTfrecordData = "tfrecord";
// Whether it is one of these.
bool is_picture_data(const std::string& data);

// The two parts of "folder:PATH", "text:FILE" and their like; the second is empty if it is missing.
struct DataName {
  std::string name, path;
};
// Splits a recipe's `data` into its parts.
DataName split_data_name(const std::string& text);

}  // namespace podium
