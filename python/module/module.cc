#include "module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <string>

#include "base/error.h"
#include "base/version.h"
#include "train/recipe/recipe.h"

namespace nb = nanobind;

NB_MODULE(_podium, module) {
  using namespace podium;
  using namespace podium::python;
  module.doc() = "Podium's C++ library; use the package podium";

  // Raised for a UserError; its attribute `code` is what the command would exit with.
  static PyObject* error = nb::exception<UserError>(module, "Error", PyExc_RuntimeError).ptr();
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const UserError& fault) {
          const nb::object raised = nb::handle(error)(fault.what());
          raised.attr("code") = static_cast<int>(fault.code());
          PyErr_SetObject(error, raised.ptr());
        }
      },
      nullptr);

  module.attr("__version__") = kVersion;
  module.def("recipe_names", recipe_names);
  module.def(
      "resolved_recipe",
      [](const std::string& recipe, const std::string& text,
         const std::vector<std::string>& changes, const std::string& data_dir) {
        const Recipe resolved = text.empty() ? read_named_recipe(recipe, changes, data_dir)
                                             : parse_recipe(text, recipe, changes);
        return nb::make_tuple(resolved.name, resolved.seed, to_toml(resolved));
      },
      nb::arg("recipe"), nb::arg("text"), nb::arg("changes"), nb::arg("data_dir"));
  add_data(module);
  add_training(module);
  add_prediction(module);
}
