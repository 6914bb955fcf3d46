#include "data/source/array_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {
namespace {

std::int64_t bytes_of(const FieldArray& array) { return array.rows * array.field.bytes(); }

std::span<const std::uint8_t> bytes_in(const FieldArray& array) {
  return {static_cast<const std::uint8_t*>(array.values),
          static_cast<std::size_t>(bytes_of(array))};
}

template <typename T>
std::span<const T> values_in(const FieldArray& array) {
  return {static_cast<const T*>(array.values),
          static_cast<std::size_t>(bytes_of(array)) / sizeof(T)};
}

void require_finite(const FieldArray& array, const std::string& what) {
  const std::span<const float> values = values_in<float>(array);
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  PODIUM_REQUIRE(bad == values.end(), ExitCode::kData, what, ": field \"", array.field.name,
                 "\", row ", (bad - values.begin()) / array.field.shape.elements(),
                 " (counted from 0): ", *bad, " is not a finite number; leave the row out");
}

void require_below(const FieldArray& array, const std::string& what) {
  const std::int64_t below = array.field.below;
  const std::span<const std::int32_t> values = values_in<std::int32_t>(array);
  const auto bad = std::ranges::find_if(
      values, [&](std::int32_t x) { return x < 0 || (below > 0 && x >= below); });
  PODIUM_REQUIRE(bad == values.end(), ExitCode::kData, what, ": field \"", array.field.name,
                 "\", row ", (bad - values.begin()) / array.field.shape.elements(),
                 " (counted from 0): ", *bad, " is not one of its numbers, which are ",
                 below > 0 ? cat("0 to ", below - 1) : std::string("0 and above"));
}

}  // namespace

ArraySource::ArraySource(std::vector<FieldArray> arrays, std::shared_ptr<const void> owner,
                         std::string origin)
    : arrays_(std::move(arrays)), owner_(std::move(owner)), origin_(std::move(origin)) {
  PODIUM_REQUIRE(!arrays_.empty(), ExitCode::kData, origin_, ": there is no field");
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const FieldArray& array = arrays_[i];
    PODIUM_REQUIRE(array.rows == examples(), ExitCode::kData, origin_, ": field \"",
                   array.field.name, "\" has ", count_text(array.rows, "row"), ", and \"",
                   arrays_[0].field.name, "\" has ", examples(), "; give as many of each");
    PODIUM_REQUIRE(array.field.shape.elements() > 0, ExitCode::kData, origin_, ": field \"",
                   array.field.name, "\" is ", to_string(array.field.shape),
                   " of each row, which is no value");
    for (std::size_t k = 0; k < i; ++k)
      PODIUM_REQUIRE(arrays_[k].field.name != array.field.name, ExitCode::kData, origin_,
                     ": there are two fields \"", array.field.name, "\"; rename one");
  }
}

std::vector<Field> ArraySource::fields() const {
  std::vector<Field> all;
  for (const FieldArray& array : arrays_) all.push_back(array.field);
  return all;
}

void ArraySource::read(std::int64_t index, const ExampleKey* /*key*/, FieldMemory to) const {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(arrays_[i].field.bytes());
    std::memcpy(to[i],
                static_cast<const std::uint8_t*>(arrays_[i].values) +
                    static_cast<std::size_t>(index) * bytes,
                bytes);
  }
}

void ArraySource::require_usable(const std::string& what) const {
  PODIUM_REQUIRE(examples() > 0, ExitCode::kData, what, " (", origin_,
                 ") has no rows; give at least one");
  for (const FieldArray& array : arrays_) {
    if (array.field.dtype == DType::kF32) {
      require_finite(array, what);
    } else {
      require_below(array, what);
    }
  }
}

std::string ArraySource::identity(StopToken stop) const {
  std::uint64_t hash = 0;
  for (const FieldArray& array : arrays_) {
    const std::string field = cat(array.field.name, to_string(array.field.batch(array.rows)));
    hash = hash_append(
        hash, hash_bytes({reinterpret_cast<const std::uint8_t*>(field.data()), field.size()}));
    hash = hash_append(hash, hash_bytes(bytes_in(array), stop));
  }
  return cat(count_text(examples(), unit_of(fields())), " of arrays, hash ", hash_text(hash));
}

std::int64_t ArraySource::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const FieldArray& array : arrays_) bytes += bytes_of(array);
  return bytes;
}

}  // namespace podium
