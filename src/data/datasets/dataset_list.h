// Every dataset, a line each: X(name) stands for `DatasetInfo name_dataset()`, defined in
// data/datasets/name.cc. To add one: its file, its line here, and its source in CMakeLists.txt.
#pragma once

#include "data/datasets/dataset.h"

#define PODIUM_DATASET_LIST(X) \
  X(mnist)                     \
  X(cifar10)                   \
  X(glyphs)

namespace podium {

#define PODIUM_DECLARE_DATASET(name) DatasetInfo name##_dataset();
PODIUM_DATASET_LIST(PODIUM_DECLARE_DATASET)
#undef PODIUM_DECLARE_DATASET

}  // namespace podium
