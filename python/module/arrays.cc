// NumPy's arrays as examples, without a copy.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "base/error.h"
#include "data/pictures/image_set.h"
#include "data/source/array_source.h"
#include "module.h"

namespace nb = nanobind;

namespace podium::python {
namespace {

// Holds the arrays until the last source is gone, which may be in a thread of C++.
std::shared_ptr<const void> keep(std::vector<Array> arrays) {
  const auto release = [](const std::vector<Array>* held) {
    const nb::gil_scoped_acquire python;
    delete held;
  };
  return {new std::vector<Array>(std::move(arrays)), release};
}

Shape row_shape(const Array& array) {
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 1; axis < array.ndim(); ++axis)
    extents.push_back(static_cast<std::int64_t>(array.shape(axis)));
  return Shape(std::move(extents));
}

// `below` and `words` are those of each field, `target` is the name of one, or empty.
Data fields_of_arrays(const std::vector<std::string>& names, const std::vector<Array>& arrays,
                      const std::vector<std::int64_t>& below,
                      const std::vector<std::vector<std::string>>& words,
                      const std::string& target) {
  std::vector<FieldArray> fields;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Array& array = arrays[i];
    const bool is_float = array.dtype() == nb::dtype<float>();
    PODIUM_CHECK(is_float || array.dtype() == nb::dtype<std::int32_t>(), names[i]);
    PODIUM_REQUIRE(array.ndim() > 0, ExitCode::kData, "field \"", names[i],
                   "\" is a single number; give an array with a row for each example");
    fields.push_back({.field = {.name = names[i],
                                .dtype = is_float ? DType::kF32 : DType::kI32,
                                .shape = row_shape(array),
                                .unit = i == 0 ? "row" : "",
                                .below = below[i],
                                .words = words[i],
                                .target = names[i] == target},
                      .values = array.data(),
                      .rows = static_cast<std::int64_t>(array.shape(0))});
  }
  return {std::make_shared<const ArraySource>(std::move(fields), keep(arrays))};
}

Data images_of_arrays(const Array& pixels, const Array& labels, std::int64_t classes,
                      const std::vector<std::string>& words) {
  PODIUM_CHECK(pixels.dtype() == nb::dtype<std::uint8_t>() && pixels.ndim() == 4);
  PODIUM_CHECK(labels.dtype() == nb::dtype<std::int32_t>() && labels.ndim() == 1);
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::int64_t>(pixels.shape(axis));
  };
  return {std::make_shared<const BorrowedImages>(
      std::span(static_cast<const std::uint8_t*>(pixels.data()), pixels.size()),
      std::span(static_cast<const std::int32_t*>(labels.data()), labels.size()),
      ImageFields{.count = extent(0),
                  .channels = extent(1),
                  .height = extent(2),
                  .width = extent(3),
                  .classes = classes,
                  .source = "arrays in memory",
                  .class_names = words},
      keep({pixels, labels}))};
}

}  // namespace

void add_data(nb::module_& module) {
  nb::class_<Data>(module, "Data").def("__len__", [](const Data& data) {
    return data.source->examples();
  });
  module.def("fields_of_arrays", fields_of_arrays, nb::arg("names"), nb::arg("arrays"),
             nb::arg("below"), nb::arg("words"), nb::arg("target"));
  module.def("images_of_arrays", images_of_arrays, nb::arg("pixels"), nb::arg("labels"),
             nb::arg("classes"), nb::arg("words"));
}

}  // namespace podium::python
