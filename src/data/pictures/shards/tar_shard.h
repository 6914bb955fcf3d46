// Tar shards in the layout of WebDataset. The members of an example follow each other and have one
// key, which is their path up to the first dot of the file's name:
//
//   cats/0001.jpg    the picture: .jpg, .jpeg or .png, in small letters or large
//   cats/0001.cls    the label: the number of its class, in ASCII, with blanks around it
//   cats/0001.json   where there is no .cls: an object whose field "label" is that number
//
// Other members, with or without that key, are passed over. Tars may be ustar, pax or GNU's, with
// long names and large sizes, not packed, and end with a block of zeros as POSIX has it.
#pragma once

#include <cstdint>
#include <functional>

#include "data/storage/shard_file.h"

namespace podium {

// Visits the examples in their order; pictures are not read. Returns how many files of the tar are
// neither picture nor label. Throws UserError(kData), which names file and place, where the tar is
// damaged or cut short, a picture or a label stands alone, or a key has two.
std::int64_t scan_tar(ShardFile& file, const std::function<void(const ShardExample&)>& visit);

}  // namespace podium
