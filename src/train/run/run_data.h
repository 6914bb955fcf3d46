// The data of a run.
#pragma once

#include <string>

#include "data/storage/index_file.h"
#include "train/run/run.h"

namespace podium {

// load_data() of train/run/run.h. Throws Stopped as the options say.
RunData load_data(const Recipe& recipe, const std::string& data_dir, const IndexOptions& how);

}  // namespace podium
