// The memory of a batch: one piece a field (tensor/field.h), which the host fills and programs
// read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/bound_executable.h"
#include "backend/staging.h"
#include "data/source/source.h"

namespace podium {

class BatchMemory {
 public:
  BatchMemory() = default;  // of nothing: only to be assigned to
  BatchMemory(Device& device, std::vector<Field> fields, std::int64_t rows)
      : fields_(std::move(fields)), rows_(rows) {
    for (const Field& field : fields_) {
      memory_.emplace_back(device, rows * field.bytes());
      host_.push_back(memory_.back().host<std::byte>());
    }
  }

  const std::vector<Field>& fields() const { return fields_; }
  std::size_t size() const { return fields_.size(); }
  std::int64_t rows() const { return rows_; }
  // Where the host writes, and reads what it wrote; after writing, send().
  FieldMemory host() const { return host_; }
  void send() const {
    for (const Staging& field : memory_) field.send();
  }
  // Rows [first, first + n) of a field.
  View view(std::size_t field, std::int64_t first, std::int64_t n) const {
    const std::int64_t row = fields_[field].bytes();
    return memory_[field].view().part(first * row, n * row);
  }
  View view(std::size_t field) const { return memory_[field].view(); }
  // Of other memory of the host, a pointer for each field.
  void upload(Device& device, FieldMemory from) const {
    for (std::size_t i = 0; i < size(); ++i) device.upload(memory_[i].view(), from[i]);
  }
  // Integers from row `first` on become 0, which any field may be: rows that are there but not
  // meant.
  void clear_integers(std::int64_t first) const {
    for (std::size_t i = 0; i < size(); ++i)
      if (fields_[i].dtype == DType::kI32)
        std::memset(memory_[i].host<std::byte>() + first * fields_[i].bytes(), 0,
                    static_cast<std::size_t>((rows_ - first) * fields_[i].bytes()));
  }
  // The inputs of these names that the graph of a program has.
  void bind(BoundExecutable& program, const Graph& graph) const {
    for (std::size_t i = 0; i < size(); ++i)
      if (std::ranges::find(graph.inputs(), fields_[i].name, &NamedValue::name) !=
          graph.inputs().end())
        program.bind_input(fields_[i].name, view(i));
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Staging& field : memory_) sum += field.bytes();
    return sum;
  }

 private:
  std::vector<Field> fields_;
  std::int64_t rows_ = 0;
  std::vector<Staging> memory_;
  std::vector<void*> host_;
};

}  // namespace podium
