// Pictures that lie in files, as a recipe names them: `data = "folder:PATH"`, or its [data] table.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// The keys of a recipe's [data] table, but for its name.
struct PictureOptions {
  std::string path;         // of the folder
  std::int64_t size = 224;  // the sides of an example
  std::int64_t resize = 0;  // in evaluation, the shorter side before the crop; 0: size * 8 / 7
  double held_out = 0.1;    // the share of each class, where the folder has no part for that
  std::string on_error = "stop";  // or "skip"
  std::int64_t skip_limit = 100;
  bool operator==(const PictureOptions&) const = default;
};

// What a recipe may have as `data` beside the names of datasets: where its pictures lie.
inline constexpr const char* kFolderData = "folder";
bool is_picture_data(const std::string& data);

// "folder:PATH" as its two parts; the second is empty where there is no such part.
struct DataName {
  std::string name, path;
};
// The parts of `data` in a recipe.
DataName split_data_name(const std::string& text);

}  // namespace podium
