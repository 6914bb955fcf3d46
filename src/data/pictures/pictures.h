// Pictures that lie in files as sources: what a recipe's [data] table names is found and opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/pictures/picture_options.h"
#include "data/pictures/picture_source.h"
#include "data/pictures/prepare/augment.h"
#include "data/pictures/prepare/crop.h"
#include "data/pictures/shards/picture_records.h"
#include "data/source/option_problem.h"

namespace podium {

// The options that contradict each other.
std::vector<OptionProblem> picture_problems(const PictureOptions& options,
                                            const AugmentOptions& augment);
CropOptions crop_of(const PictureOptions& options, const AugmentOptions& augment);

// Where the pictures are. An absolute path or pattern is taken as it is. A relative one is looked
// up in the folder of --data-dir, if that is given, in the current folder, and then in the other
// folders that are searched for datasets (data/datasets/dataset.h); the first that has it is taken.
// Throws UserError(kData).
std::string find_pictures(const std::string& path, const std::string& data_dir);

// What is known of the pictures that `data` ("folder", "tar", "tfrecord") and `path` name. Throws
// UserError(kData) where there are none, or files are not readable; Stopped as the options say.
// `from_cache`, if not null, is told whether it had been made before.
std::unique_ptr<const RecordIndex> index_pictures(const DataName& data, const std::string& data_dir,
                                                  const IndexOptions& options,
                                                  bool* from_cache = nullptr);

struct Pictures {
  std::shared_ptr<const PictureSource> train, test;
  std::vector<std::string> notes;  // what people should hear before they train
};
// Throws UserError(kData) where there are none, or files are not readable.
Pictures open_pictures(const std::string& data, const PictureOptions& options,
                       const AugmentOptions& augment, const std::string& data_dir,
                       const IndexOptions& how = {});

}  // namespace podium
