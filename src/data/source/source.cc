#include "data/source/source.h"

#include "base/error.h"

namespace podium {

Source::~Source() = default;

std::string SourceFields::class_name(std::int64_t label) const {
  PODIUM_CHECK(label >= 0 && label < classes, label);
  return class_names.empty() ? cat(label) : class_names.at(static_cast<std::size_t>(label));
}

}  // namespace podium
