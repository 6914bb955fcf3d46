// The models that a recipe can name. To add one, see docs/adding-a-model.md.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "nn/network.h"

namespace podium {

// A model that a recipe can name.
struct ModelInfo {
  std::string name;
  std::string description;  // one line
  Model build;
};

// The library's own, then those that were registered; entries stay where they are.
const std::deque<ModelInfo>& all_models();
// Makes a model known by its name to recipes and to the functions that read a run. Throws UserError
// where the name is taken or is not of letters, digits, '-', '_' and '.'. Not while other threads
// look names up.
void register_model(ModelInfo model);
// UserError that names the known ones.
const ModelInfo& find_model(const std::string& name);

// images [N, C, H, W] -> logits [N, classes]; each in nn/models/.
Value mnist_model(Network& net, Value images, std::int64_t classes);
Value davidnet_model(Network& net, Value images, std::int64_t classes);
Value resnet32_model(Network& net, Value images, std::int64_t classes);
Value sprint_model(Network& net, Value images, std::int64_t classes);
Value resnet18_model(Network& net, Value images, std::int64_t classes);
Value resnet34_model(Network& net, Value images, std::int64_t classes);
Value resnet50_model(Network& net, Value images, std::int64_t classes);
// The same, the last norm of each block starting with a scale of 0.
Value resnet18_zero_model(Network& net, Value images, std::int64_t classes);
Value resnet34_zero_model(Network& net, Value images, std::int64_t classes);
Value resnet50_zero_model(Network& net, Value images, std::int64_t classes);

}  // namespace podium
