// `podium data index`, `verify` and `show` of pictures in files: folder:PATH and its like.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace podium {

struct PictureArguments {
  std::string name, data_dir;  // folder:PATH, tar:PATTERN, tfrecord:PATTERN
  bool json = false;
  bool fresh = false;  // index, even if there is a good index
};

// Whether the name of a dataset on the command line means pictures in files.
bool names_pictures(const std::string& name);

// Makes or reads the index, and prints what it contains.
ExitCode index_pictures(const PictureArguments& arguments);
// Decodes every picture completely and names those that cannot be decoded; kData if there are any.
ExitCode verify_pictures(const PictureArguments& arguments);
// Prints how many pictures of each class are for training and for evaluation.
ExitCode show_pictures(const PictureArguments& arguments);

}  // namespace podium
