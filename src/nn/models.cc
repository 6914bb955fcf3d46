#include "nn/models.h"

namespace podium {
namespace {

constexpr ModelInfo kModels[] = {
    {"mnist", "three convolutions and two dense layers for 28x28 images", mnist_model},
};

}  // namespace

std::span<const ModelInfo> all_models() { return kModels; }

const ModelInfo& find_model(const std::string& name) {
  std::string known;
  for (const ModelInfo& model : kModels) {
    if (name == model.name) return model;
    known += cat(known.empty() ? "" : ", ", model.name);
  }
  throw UserError(cat("model = \"", name, "\": no such model; known are ", known));
}

}  // namespace podium
