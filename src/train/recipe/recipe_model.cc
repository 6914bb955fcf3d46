// The network of a recipe.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/pictures/image_source.h"
#include "nn/models.h"
#include "train/recipe/recipe.h"

namespace podium {
namespace {

constexpr std::int64_t kSearched = 128;  // how far from a size that does not fit one is looked for

// Whether the network can be built for images of other sides than those of `inputs`.
bool fits(const Model::Forward& forward, const Inputs& inputs, std::int64_t size) {
  std::vector<Field> fields = inputs.fields();
  for (Field& field : fields)
    if (field.name == kImagesField) field.shape = Shape{field.shape[0], size, size};
  Graph graph;
  Network net(graph, Mode::kEvaluate, 0);
  try {
    static_cast<void>(forward(net, Inputs(graph, fields, 1, false)));
  } catch (const UserError&) {
    return false;
  }
  return true;
}

// The nearest sides that fit: "88 and 92 fit"; empty: none near.
std::string fitting_sizes(const Model::Forward& forward, const Inputs& inputs, std::int64_t size) {
  const auto nearest = [&](std::int64_t step) -> std::int64_t {
    for (std::int64_t i = 1; i <= kSearched && size + i * step > 0; ++i)
      if (fits(forward, inputs, size + i * step)) return size + i * step;
    return 0;
  };
  const std::int64_t below = nearest(-1), above = nearest(1);
  if (below == 0 && above == 0) return "";
  if (below == 0 || above == 0) return cat(std::max(below, above), " fits");
  return cat(below, " and ", above, " fit");
}

}  // namespace

Model model_of(const Recipe& recipe) {
  Model model = model_of(find_model(recipe.model), recipe.network);
  if (!has_pictures(recipe)) return model;
  model.forward = [forward = std::move(model.forward), name = recipe.model,
                   size = recipe.pictures.size](Network& net, const Inputs& inputs) {
    try {
      return forward(net, inputs);
    } catch (const UserError& error) {
      const std::string sizes = fitting_sizes(forward, inputs, size);
      if (sizes.empty()) throw;
      throw UserError(cat("`data.size` = ", size, " does not fit the network ", name, "; ", sizes,
                          ": ", error.what()),
                      error.code());
    }
  };
  return model;
}

}  // namespace podium
