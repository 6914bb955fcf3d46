// A trained network that predicts, generates or translates.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "data/sentences/sentences.h"
#include "data/table/table.h"
#include "module.h"
#include "store/local_copy.h"
#include "train/predict/generate.h"
#include "train/predict/predictor.h"
#include "train/predict/translate.h"
#include "train/run/run_text.h"

namespace nb = nanobind;

namespace podium::python {
namespace {

// The tensor's own memory as an array.
nb::ndarray<nb::numpy, float> array_of(Tensor tensor) {
  auto* const held = new Tensor(std::move(tensor));
  const nb::capsule owner(held, [](void* memory) noexcept { delete static_cast<Tensor*>(memory); });
  std::vector<std::size_t> shape;
  for (const std::int64_t extent : held->shape().extents())
    shape.push_back(static_cast<std::size_t>(extent));
  return {held->data(), shape.size(), shape.data(), owner};
}

Tensor predict_rows(Predictor& predictor, const Source& rows) {
  const nb::gil_scoped_release python;
  return predictor.predict(rows);
}

nb::ndarray<nb::numpy, float> predict(Predictor& predictor, const Data& data) {
  return array_of(predict_rows(predictor, *data.source));
}

// Rows of a table: `cells` are texts, row by row.
nb::ndarray<nb::numpy, float> predict_table(Predictor& predictor,
                                            const std::vector<std::string>& names,
                                            const std::vector<std::string>& cells,
                                            std::int64_t rows) {
  Cells table{.file = "the columns", .names = names, .cells = cells};
  for (std::int64_t row = 1; row <= rows; ++row) table.lines.push_back(row);
  return array_of(predict_rows(predictor, rows_to_predict(table, predictor.fields())));
}

nb::ndarray<nb::numpy, float> predict_texts(Predictor& predictor,
                                            const std::vector<std::string>& texts) {
  const Recipe& recipe = predictor.recipe();
  Cells cells{.file = "the texts", .names = {recipe.text.text_column}, .cells = texts};
  for (std::size_t i = 1; i <= texts.size(); ++i)
    cells.lines.push_back(static_cast<std::int64_t>(i));
  const auto tokenizer = tokenizer_of(recipe, predictor.fields());
  return array_of(predict_rows(
      predictor, sentences_to_predict(cells, recipe.text, predictor.fields(), *tokenizer)));
}

// Bytes: a token may be a part of a character.
void generate_text(Predictor& predictor, const std::string& prompt, std::int64_t tokens,
                   double temperature, std::int64_t top_k, std::uint64_t seed,
                   const nb::object& on_bytes) {
  const nb::gil_scoped_release free;
  generate(predictor, prompt,
           {.tokens = tokens, .temperature = temperature, .top_k = top_k, .seed = seed},
           [&](std::string_view text) {
             const nb::gil_scoped_acquire python;
             if (PyErr_CheckSignals() != 0) throw nb::python_error();
             on_bytes(nb::bytes(text.data(), text.size()));
           });
}

std::vector<std::string> translate_texts(Predictor& predictor,
                                         const std::vector<std::string>& texts, std::int64_t beam) {
  std::vector<std::string> all(texts.size());
  const nb::gil_scoped_release free;
  translate(predictor, texts, {.beam = beam}, [&](std::size_t index, const Translation& found) {
    all[index] = found.text;
    const nb::gil_scoped_acquire python;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
  return all;
}

nb::list fields_of(const Predictor& predictor) {
  nb::list all;
  for (const Field& field : predictor.fields()) {
    nb::dict dict;
    dict["name"] = field.name;
    dict["dtype"] = field.dtype == DType::kF32 ? "float32" : "int32";
    nb::list shape;
    for (const std::int64_t extent : field.shape.extents()) shape.append(extent);
    dict["shape"] = nb::tuple(shape);
    dict["below"] = field.below;
    dict["words"] = field.words;
    dict["target"] = field.target;
    all.append(dict);
  }
  return all;
}

// What the run was trained on: "table", "sentences", "pairs", "text", "sounds", "pictures", or, of
// a dataset or of own data, "arrays".
std::string kind_of_data(const Predictor& predictor) {
  const Recipe& recipe = predictor.recipe();
  if (has_pictures(recipe)) return "pictures";
  return has_files(recipe) ? recipe.data : "arrays";
}

}  // namespace

void add_prediction(nb::module_& module) {
  nb::class_<Predictor>(module, "Predictor")
      .def_prop_ro("step", &Predictor::step)
      .def_prop_ro("recipe", [](const Predictor& predictor) { return to_toml(predictor.recipe()); })
      .def_prop_ro("fields", fields_of)
      .def_prop_ro("kind_of_data", kind_of_data)
      .def("predict", predict, nb::arg("data"))
      .def("predict_table", predict_table, nb::arg("names"), nb::arg("cells"), nb::arg("rows"))
      .def("predict_texts", predict_texts, nb::arg("texts"))
      .def("generate", generate_text, nb::arg("prompt"), nb::arg("tokens"), nb::arg("temperature"),
           nb::arg("top_k"), nb::arg("seed"), nb::arg("on_bytes"))
      .def("translate", translate_texts, nb::arg("texts"), nb::arg("beam"));
  module.def(
      "local_path",
      [](const std::string& path) {
        const nb::gil_scoped_release python;
        return local_path(path);
      },
      nb::arg("path"));
  module.def(
      "load_predictor",
      [](const std::string& run, const std::string& step, std::int64_t workers, int threads,
         const std::string& backend) {
        const nb::gil_scoped_release python;
        return Predictor::load(run, {},
                               {.workers = workers, .threads = threads, .backend = backend}, step);
      },
      nb::arg("run"), nb::arg("step"), nb::arg("workers"), nb::arg("threads"), nb::arg("backend"));
}

}  // namespace podium::python
