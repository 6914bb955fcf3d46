// What makes an index of pictures anew.
#pragma once

#include <string>
#include <vector>

#include "data/pictures/shards/picture_index.h"

namespace podium {

// A folder (index.place) and all below it:
//
//   PHOTOS/CLASS/...       every folder in PHOTOS that has pictures is a class; they may lie deeper
//   PHOTOS/train/CLASS/... and PHOTOS/val/CLASS/...: two parts (also "valid", "validation", "test")
//
// Pictures are the files whose names end in .jpg, .jpeg or .png, in small letters or large; others
// are counted. Names that begin with a dot are left out. Links are followed, but not in circles.
// Classes are numbered by their names in the order of their bytes.
void scan_folder(PictureIndex& index, const IndexOptions& options);

// The records of shards.
void scan_shards(PictureIndex& index, const std::vector<std::string>& paths,
                 const IndexOptions& options);

}  // namespace podium
