// Arrays of a program's own memory as a source: a field each, and nothing is copied. Python's NumPy
// arrays become one (python/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source/source.h"

namespace podium {

// A field and its values: [rows, ...], row-major, floats or integers as the field says.
struct FieldArray {
  Field field;
  const void* values = nullptr;
  std::int64_t rows = 0;
};

// Such fields as a source.
class ArraySource : public Source {
 public:
  // `owner` keeps the memory as long as the source lives; none: the caller does. The values may not
  // change meanwhile. Throws UserError(kData), which names the field, if there is none, two have
  // the same name, or they are of different numbers of rows.
  explicit ArraySource(std::vector<FieldArray> arrays, std::shared_ptr<const void> owner = {},
                       std::string origin = "arrays in memory");

  std::vector<Field> fields() const override;
  std::int64_t examples() const override { return arrays_.front().rows; }
  const std::string& origin() const override { return origin_; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  // Throws UserError(kData), which names field and row, if there is no row, a float is not finite,
  // or an integer does not lie in [0, below) of its field.
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;

 private:
  std::vector<FieldArray> arrays_;
  std::shared_ptr<const void> owner_;
  std::string origin_;
};

}  // namespace podium
