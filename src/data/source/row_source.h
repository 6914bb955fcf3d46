// Rows in memory: one field of words of 32 bits (numbers or tokens), and for each row a target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source/source.h"

namespace podium {

class RowSource : public Source {
 public:
  // `file` is where the rows come from, `value` what people call one of a row's words: "feature".
  // The first field has the `values`, row by row; the second, if there is one, the `targets`. Both
  // are floats or integers, as their fields say. `names` are those of the rows, if they have any.
  RowSource(std::string file, std::vector<Field> fields, std::string value,
            std::vector<std::int32_t> values, std::vector<std::int32_t> targets,
            std::vector<std::string> names = {});

  std::vector<Field> fields() const override { return fields_; }
  std::int64_t examples() const override;
  const std::string& origin() const override { return file_; }
  std::string example_name(std::int64_t index) const override;
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;

 private:
  std::string file_;
  std::vector<Field> fields_;
  std::string value_;
  std::int64_t width_;
  std::vector<std::int32_t> values_, targets_;  // no targets: the rows have none
  std::vector<std::string> names_;
};

}  // namespace podium
