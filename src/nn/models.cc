#include "nn/models.h"

#include <algorithm>

#include "base/plain_name.h"

namespace podium {
namespace {

std::deque<ModelInfo>& models() {
  static std::deque<ModelInfo> list = {
      {"mnist", "three convolutions and two dense layers for 28x28 images", mnist_model},
      {"davidnet", "ResNet-9 for 32x32 images (Page's DavidNet)", davidnet_model},
      {"resnet32", "ResNet-32 for 32x32 images, activations before convolutions", resnet32_model},
      {"sprint", "whitening, six convolutions and a dense layer (airbench94)", sprint_model},
  };
  return list;
}

}  // namespace

const std::deque<ModelInfo>& all_models() { return models(); }

void register_model(ModelInfo model) {
  PODIUM_REQUIRE(is_plain_name(model.name), ExitCode::kUsage, "model \"", model.name,
                 "\": a name has letters, digits, '-', '_' and '.', and begins with one of the "
                 "first two");
  PODIUM_REQUIRE(std::ranges::find(models(), model.name, &ModelInfo::name) == models().end(),
                 ExitCode::kUsage, "model \"", model.name,
                 "\" is registered already; give it another name");
  PODIUM_REQUIRE(model.build, ExitCode::kUsage, "model \"", model.name,
                 "\" has no function that builds it");
  models().push_back(std::move(model));
}

const ModelInfo& find_model(const std::string& name) {
  std::string known;
  for (const ModelInfo& model : models()) {
    if (name == model.name) return model;
    known += cat(known.empty() ? "" : ", ", model.name);
  }
  throw UserError(cat("model = \"", name, "\": no such model; known are ", known));
}

}  // namespace podium
