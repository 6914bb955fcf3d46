// The models that a recipe can name. To add one, see docs/adding-a-model.md.
#pragma once

#include <span>
#include <string>

#include "nn/network.h"

namespace podium {

// A model that a recipe can name.
struct ModelInfo {
  const char* name;
  const char* description;
  Value (*build)(Network& net, Value images, std::int64_t classes);
};

std::span<const ModelInfo> all_models();
// UserError that names the known ones.
const ModelInfo& find_model(const std::string& name);

// images [N, C, H, W] -> logits [N, classes]; each in nn/models/.
Value mnist_model(Network& net, Value images, std::int64_t classes);
Value davidnet_model(Network& net, Value images, std::int64_t classes);
Value resnet32_model(Network& net, Value images, std::int64_t classes);
Value sprint_model(Network& net, Value images, std::int64_t classes);

}  // namespace podium
