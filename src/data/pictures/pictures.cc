#include "data/pictures/pictures.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/words.h"
#include "data/datasets/dataset.h"
#include "data/pictures/folder_records.h"
#include "data/pictures/shard_pattern.h"
#include "data/pictures/shard_records.h"

namespace podium {

namespace fs = std::filesystem;

bool is_picture_data(const std::string& data) {
  return data == kFolderData || data == kTarData || data == kTfrecordData;
}

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
  const bool is_relative = fs::path(path).is_relative();
  std::string searched;
  // What --data-dir names comes before the current folder, as it does for datasets.
  if (is_relative && !data_dir.empty()) {
    const std::string full = (fs::path(data_dir) / path).string();
    if (matches_files(full)) return full;
    searched = full + "\n  ";
  }
  if (matches_files(path)) return path;
  searched += path;
  if (is_relative) {
    for (const std::string& folder : dataset_folders(data_dir)) {
      const std::string full = (fs::path(folder) / path).string();
      if (matches_files(full)) return full;
      searched += "\n  " + full;
    }
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
  if (data.name == kFolderData)
    return std::make_unique<const FolderRecordIndex>(index_folder(path, options, from_cache));
  const ShardFormat format = data.name == kTarData ? ShardFormat::kTar : ShardFormat::kTfrecord;
  return std::make_unique<const ShardRecordIndex>(index_shards(format, path, options, from_cache));
}

namespace {

// "cats, dogs and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += cat(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMost) text += cat(" and ", names.size() - kMost, " more");
  return text;
}

// Classes that a user would not expect to be as they are, said once in a process.
void say_what_is_odd(const RecordIndex& index, const RecordParts& parts) {
  static std::set<std::string> said;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!said.insert(index.origin()).second) return;
  if (const std::vector<std::string> folders = index.left_out(); !folders.empty())
    log(LogLevel::kInfo,
        cat(index.origin(), ": ", count_text(std::ssize(folders), "folder has", "folders have"),
            " no pictures and is no class: ", some_of(folders)));
  std::vector<std::int64_t> trained(static_cast<std::size_t>(parts.train->classes())),
      evaluated(trained.size());
  const auto count = [](const Records& part, std::vector<std::int64_t>& counts) {
    for (std::int64_t i = 0; i < part.count(); ++i)
      ++counts.at(static_cast<std::size_t>(part.label(i)));
  };
  count(*parts.train, trained);
  count(*parts.test, evaluated);
  const std::vector<std::string>& names = parts.train->class_names();
  std::vector<std::string> single, unseen;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : std::to_string(i);
    if (trained[i] + evaluated[i] == 1) {
      single.push_back(name);
    } else if (evaluated[i] == 0) {
      unseen.push_back(name);
    }
  }
  const auto say = [&](const std::vector<std::string>& classes, const char* what) {
    if (!classes.empty())
      log(LogLevel::kWarning,
          cat(index.origin(), ": ", count_text(std::ssize(classes), "class has", "classes have"),
              what, some_of(classes)));
  };
  say(single, " one picture alone, so nothing can be both learned and evaluated of it: ");
  say(unseen, " no picture that is evaluated: ");
}

}  // namespace

Pictures open_pictures(const std::string& data, const PictureOptions& options,
                       const AugmentOptions& augment, const std::string& data_dir,
                       const IndexOptions& how) {
  const BadPictures bad{options.on_error == "skip", options.skip_limit};
  const CropOptions crop = crop_of(options, augment);
  const std::unique_ptr<const RecordIndex> index =
      index_pictures({data, options.path}, data_dir, how);
  const RecordParts parts = index->parts(options);
  say_what_is_odd(*index, parts);
  return {std::make_shared<const PictureSource>(parts.train, crop, bad),
          std::make_shared<const PictureSource>(parts.test, crop, bad)};
}

}  // namespace podium
