// Records: labelled encoded pictures (files, members of archives), by index. What decodes them is
// the same for all (data/picture_source.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/stop.h"

namespace podium {

// Immutable, so threads may share them.
class Records {
 public:
  virtual ~Records() = default;
  virtual std::int64_t count() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  // The path of a record, for people.
  virtual std::string name(std::int64_t index) const = 0;
  // Its bytes. Throws UserError(kData) where they are not there any more or not as indexed.
  virtual void read(std::int64_t index, std::vector<std::uint8_t>& bytes) const = 0;
  // Of names, labels, sizes and times: contents are not read.
  virtual std::uint64_t hash(StopToken stop) const = 0;
  virtual std::int64_t memory_bytes() const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual const std::string& origin() const = 0;
};

}  // namespace podium
