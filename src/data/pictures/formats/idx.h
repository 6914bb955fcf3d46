// IDX, the format of MNIST (Y. LeCun, http://yann.lecun.com/exdb/mnist): big-endian,
//   byte 0, 1   0
//   byte 2      element type: 0x08 unsigned byte, the only one read here
//   byte 3      rank
//   4 * rank    the extents
//   then        the elements, row-major, and nothing after them
// plain or in gzip. Every error names file, byte (of the unpacked data), rule and remedy.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/stop.h"

namespace podium {

struct IdxData {
  std::vector<std::int64_t> extents;
  std::vector<std::uint8_t> bytes;
};

struct IdxRules {
  int rank = 0;  // 0: any from 1 to 4
  std::string remedy = "replace the file by an intact copy";
  std::vector<std::int64_t> most = {};  // of each extent; empty: what the file holds
  StopToken stop = {};                  // reading throws Stopped as it says
};

// Throws UserError(kData): the file is missing, unreadable, empty, cut short, too long, corrupt
// gzip, or starts with another magic number or larger extents than the rules allow. What it
// promises takes memory only as it comes.
IdxData read_idx(const std::string& path, const IdxRules& rules = {});
// The same of a file that is in memory already; `name` stands for its path.
IdxData parse_idx(std::span<const std::uint8_t> file, const std::string& name,
                  const IdxRules& rules = {});

}  // namespace podium
