#include "data/pictures.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "data/dataset.h"
#include "data/folder_records.h"

namespace podium {

namespace fs = std::filesystem;

bool is_picture_data(const std::string& data) { return data == kFolderData; }

DataName split_data_name(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || !is_picture_data(text.substr(0, colon))) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

CropOptions crop_of(const PictureOptions& options, const AugmentOptions& augment) {
  CropOptions crop;
  crop.size = options.size;
  crop.resize = options.resize != 0 ? options.resize : (options.size * 8 + 3) / 7;
  crop.random = augment.crop == "random-resized";
  if (augment.crop_area.size() == 2)
    crop.least_area = augment.crop_area[0], crop.most_area = augment.crop_area[1];
  if (augment.crop_ratio.size() == 2)
    crop.least_ratio = augment.crop_ratio[0], crop.most_ratio = augment.crop_ratio[1];
  return crop;
}

std::vector<OptionProblem> picture_problems(const PictureOptions& options,
                                            const AugmentOptions& augment) {
  std::vector<OptionProblem> problems;
  if (options.resize != 0 && options.resize < options.size)
    problems.push_back(
        {"data.resize", cat("`data.resize` = ", options.resize,
                            " is below `data.size` = ", options.size, ", which is cut from it")});
  const auto range = [&](const char* key, const std::vector<double>& values, double most) {
    const bool good =
        values.size() == 2 && values[0] > 0 && values[0] <= values[1] && values[1] <= most;
    if (good) return;
    problems.push_back({key, cat("`", key, "` needs two numbers above 0 and at most ", most,
                                 ", the smaller one first")});
  };
  range("augment.crop_area", augment.crop_area, 1);
  range("augment.crop_ratio", augment.crop_ratio, 100);
  return problems;
}

std::string find_pictures(const std::string& path, const std::string& data_dir) {
  PODIUM_REQUIRE(!path.empty(), ExitCode::kData,
                 "`data.path` is empty: it names the folder of pictures, as in data.path=PHOTOS");
  std::error_code error;
  if (fs::exists(path, error)) return path;
  std::string searched = path;
  if (fs::path(path).is_relative()) {
    for (const std::string& folder : dataset_folders(data_dir)) {
      const std::string full = (fs::path(folder) / path).string();
      if (fs::exists(full, error)) return full;
      searched += "\n  " + full;
    }
  }
  throw UserError(cat("the pictures ", path, " were not found. Searched:\n  ", searched,
                      "\nName their folder: data.path=PHOTOS"),
                  ExitCode::kData);
}

Pictures open_pictures(const std::string& data, const PictureOptions& options,
                       const AugmentOptions& augment, const std::string& data_dir, StopToken stop,
                       const std::function<void(std::int64_t files)>& progress) {
  PODIUM_CHECK(data == kFolderData, data);
  const CropOptions crop = crop_of(options, augment);
  const BadPictures bad{options.on_error == "skip", options.skip_limit};
  const auto index = std::make_shared<const FolderIndex>(
      index_folder(find_pictures(options.path, data_dir), {.stop = stop, .progress = progress}));
  const FolderParts parts = parts_of(index, options.held_out);
  return {std::make_shared<const PictureSource>(parts.train, crop, bad),
          std::make_shared<const PictureSource>(parts.test, crop, bad)};
}

}  // namespace podium
