#include "tensor/field.h"

#include <algorithm>

namespace podium {

TensorType Field::batch(std::int64_t rows) const {
  std::vector<std::int64_t> extents = {rows};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return {dtype, Shape(std::move(extents))};
}

std::string word_of(const Field& field, std::int64_t value) {
  const bool named = value >= 0 && value < std::ssize(field.words);
  return named ? field.words[static_cast<std::size_t>(value)] : cat(value);
}

const Field* find_field(std::span<const Field> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

const Field* target_of(std::span<const Field> fields) {
  const Field* target = nullptr;
  for (const Field& field : fields) {
    if (!field.target) continue;
    if (target != nullptr) return nullptr;
    target = &field;
  }
  return target;
}

std::string unit_of(std::span<const Field> fields) {
  const auto found =
      std::ranges::find_if(fields, [](const Field& field) { return !field.unit.empty(); });
  return found == fields.end() ? "example" : found->unit;
}

std::vector<Field> fields_of_length(std::vector<Field> fields, std::int64_t length) {
  for (Field& field : fields) {
    if (field.longest == 0) continue;
    std::vector<std::int64_t> extents(field.shape.extents().begin(), field.shape.extents().end());
    extents.front() = length;
    field.shape = Shape(std::move(extents));
  }
  return fields;
}

std::string to_text(std::span<const Field> fields) {
  std::string text;
  for (const Field& field : fields) {
    text += cat(text.empty() ? "\"" : ", \"", field.name, "\" ",
                to_string(TensorType{field.dtype, field.shape}));
    if (field.below > 0) text += cat(" below ", field.below);
  }
  return text.empty() ? "none" : text;
}

}  // namespace podium
