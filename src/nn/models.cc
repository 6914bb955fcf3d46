#include "nn/models.h"

namespace podium {
namespace {

constexpr ModelInfo kModels[] = {
    {"mnist", "three convolutions and two dense layers for 28x28 images", mnist_model},
    {"davidnet", "ResNet-9 for 32x32 images (Page's DavidNet)", davidnet_model},
    {"resnet32", "ResNet-32 for 32x32 images, activations before convolutions", resnet32_model},
    {"sprint", "whitening, six convolutions and a dense layer (airbench94)", sprint_model},
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
