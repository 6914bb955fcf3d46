// The files that a pattern of shards means:
//
//   photos/                          a folder: the shards in it, by the ends of their names
//   photos/train-*.tar               *, ? and [abc], as in a shell
//   photos/train-{000..146}.tar      each of these, which must all be there; also {train,val}
#pragma once

#include <string>
#include <vector>

#include "data/pictures/shards/picture_index.h"

namespace podium {

// Whether a file in a folder of shards is one: NAME.tar; NAME.tfrecord, NAME.tfrecords or
// NAME-00000-of-00128.
bool is_shard_name(PictureFormat format, const std::string& name);

// Each way to read the braces of a pattern. Throws UserError(kData) where they give too many.
std::vector<std::string> expand_braces(const std::string& pattern);

// Whether a pattern finds something.
bool matches_files(const std::string& pattern);

// The files, sorted, each once. Throws UserError(kData) where there are none, or one that is named
// in full is not there.
std::vector<std::string> find_shards(PictureFormat format, const std::string& pattern);

}  // namespace podium
