#include "data/source/row_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {

RowSource::RowSource(std::string file, std::vector<Field> fields, std::string value,
                     std::vector<std::int32_t> values, std::vector<std::int32_t> targets,
                     std::vector<std::string> names)
    : file_(std::move(file)),
      fields_(std::move(fields)),
      value_(std::move(value)),
      width_(fields_.at(0).shape.elements()),
      values_(std::move(values)),
      targets_(std::move(targets)),
      names_(std::move(names)) {}

std::int64_t RowSource::examples() const { return std::ssize(values_) / width_; }

std::string RowSource::example_name(std::int64_t index) const {
  return names_.empty() ? "" : names_[static_cast<std::size_t>(index)];
}

void RowSource::read(std::int64_t index, const ExampleKey* /*key*/, FieldMemory to) const {
  std::copy_n(values_.begin() + index * width_, width_, to.at<std::int32_t>(0));
  if (!targets_.empty()) *to.at<std::int32_t>(1) = targets_[static_cast<std::size_t>(index)];
}

void RowSource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(examples() > 0, ExitCode::kData, file_, ": ", what, " has no ", unit_of(fields_),
                 "s; give a file with more of them");
}

std::string RowSource::identity(StopToken stop) const {
  const auto hash_of = [&](const std::vector<std::int32_t>& words) {
    return hash_bytes({reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * 4},
                      stop);
  };
  std::uint64_t hash = hash_append(hash_of(values_), hash_of(targets_));
  for (const Field& field : fields_)
    for (const std::string& word : field.words)
      hash = hash_append(
          hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(word.data()), word.size()}));
  return cat(count_text(examples(), unit_of(fields_)), " of ", count_text(width_, value_),
             ", hash ", hash_text(hash));
}

std::int64_t RowSource::memory_bytes() const {
  return 4 * (std::ssize(values_) + std::ssize(targets_));
}

}  // namespace podium
