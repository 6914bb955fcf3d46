// A field of an example: a tensor by name, as a batch holds it. Data state which fields they have,
// a model names those that it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace podium {

// Of one example; in a batch the examples are one more extent before the others.
struct Field {
  std::string name;                     // "images", "labels", "tokens", "price"
  DType dtype = DType::kF32;            // f32 or i32
  Shape shape = {};                     // of one example
  std::string unit = {};                // what people count of it: "image", "token"; empty: nothing
  std::int64_t below = 0;               // integers lie in [0, below): classes, a vocabulary
  std::vector<std::string> words = {};  // names of these integers, for people
  bool target = false;                  // what a model predicts: unknown when it does
  std::int64_t longest = 0;  // the first extent is a length, at most so many; 0: it is none
  // Of floats that are normalised, one for each, or one for each index of the last extent:
  // (number - mean) / deviation.
  std::vector<double> mean = {}, deviation = {};

  // Of `rows` examples.
  TensorType batch(std::int64_t rows) const;
  std::int64_t bytes() const { return TensorType{dtype, shape}.bytes(); }
  bool operator==(const Field&) const = default;
};

// Data whose examples, or items, do not all count alike have a field of this name: i32, one for
// each item, not negative. The scores that follow from a target read it.
inline constexpr const char* kWeightsField = "weights";

// The name of an integer of the field, or its digits if it has none.
std::string word_of(const Field& field, std::int64_t value);
// The field of this name; null: there is none.
const Field* find_field(std::span<const Field> fields, std::string_view name);
// The one target; null: there is none, or more than one.
const Field* target_of(std::span<const Field> fields);
// What people count of an example: the unit of its first field that has one, else "example".
std::string unit_of(std::span<const Field> fields);
// The fields of examples that are filled up to `length` and no further: each that has a length is
// cut to that.
std::vector<Field> fields_of_length(std::vector<Field> fields, std::int64_t length);
// For people: `"images" f32[3, 32, 32], "labels" i32 below 10`.
std::string to_text(std::span<const Field> fields);

}  // namespace podium
