// Registers a program's datasets by name, for recipes and commands. Examples that need no name can
// be passed to run() or to a Trainer directly.
#pragma once

#include "data/datasets/dataset.h"

namespace podium {

// Adds a dataset to dataset_list(). Throws UserError if the name is taken or has other characters
// than letters, digits, '-', '_' and '.', or if `info` is incomplete. What `load` returns later is
// checked against `info`. Do not call it while other threads look up names.
void register_dataset(DatasetInfo info);

}  // namespace podium
