// Datasets of a program's own, by name, for recipes and commands. Examples that need no name are
// handed to run() or a Trainer as they are.
#pragma once

#include "data/dataset.h"

namespace podium {

// Adds a dataset to dataset_list(). Throws UserError where the name is taken or is not of letters,
// digits, '-', '_' and '.', or the description is not whole. What `load` gives later is checked
// against the description. Not while other threads look names up.
void register_dataset(DatasetInfo info);

}  // namespace podium
