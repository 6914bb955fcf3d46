#include "data/pictures/pictures.h"

#include <utility>

#include "base/error.h"
#include "data/datasets/dataset.h"
#include "data/pictures/shards/shard_pattern.h"
#include "data/source/own_files.h"

namespace podium {

bool is_picture_data(const std::string& data) {
  return data == kFolderData || data == kTarData || data == kTfrecordData;
}

DataName split_data_name(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, ""};
  const std::string name = text.substr(0, colon);
  if (!is_picture_data(name) && own_file(name) == nullptr) return {text, ""};
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
  std::string searched;
  for (const std::string& place : places_of(path, data_dir)) {
    if (matches_files(place)) return place;
    searched += cat(searched.empty() ? "" : "\n  ", place);
  }
  throw UserError(cat("the pictures ", path, " were not found. Searched:\n  ", searched,
                      "\nName their folder: data.path=PHOTOS; shards also by a pattern: "
                      "data.path='PHOTOS/*.tar'"),
                  ExitCode::kData);
}

std::unique_ptr<const RecordIndex> index_pictures(const DataName& data, const std::string& data_dir,
                                                  const IndexOptions& options, bool* from_cache) {
  PODIUM_CHECK(is_picture_data(data.name), data.name);
  const std::string path = find_pictures(data.path, data_dir);
  const PictureFormat format = data.name == kFolderData ? PictureFormat::kFolder
                               : data.name == kTarData  ? PictureFormat::kTar
                                                        : PictureFormat::kTfrecord;
  return std::make_unique<const RecordIndex>(index_of(format, path, options, from_cache), options);
}

Pictures open_pictures(const std::string& data, const PictureOptions& options,
                       const AugmentOptions& augment, const std::string& data_dir,
                       const IndexOptions& how) {
  const BadPictures bad{options.on_error == "skip", options.skip_limit};
  const CropOptions crop = crop_of(options, augment);
  const auto index = index_pictures({data, options.path}, data_dir, how);
  const RecordParts parts = index->parts(options);
  Pictures pictures{std::make_shared<const PictureSource>(parts.train, crop, bad),
                    std::make_shared<const PictureSource>(parts.test, crop, bad), index->notes()};
  for (std::string& note : notes_of(parts)) pictures.notes.push_back(std::move(note));
  return pictures;
}

}  // namespace podium
