// `podium data index`, `verify` and `show` of pictures in files: folder:PATH.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace podium {

struct PictureArguments {
  std::string name, data_dir;  // folder:PATH
  bool json = false;
  bool fresh = false;  // index, even if there is a good index
};

// Whether the name of a dataset on the command line means pictures in files.
bool names_pictures(const std::string& name);

// Makes or reads the index, and says what is in it.
ExitCode index_pictures(const PictureArguments& arguments);
// Decodes every picture, whole, and names those that cannot be; kData if there are any.
ExitCode verify_pictures(const PictureArguments& arguments);
// How many pictures each class has to train and to evaluate.
ExitCode show_pictures(const PictureArguments& arguments);

}  // namespace podium
