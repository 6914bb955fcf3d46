// A network of two dense layers and a few drawn images of 4x4 pixels: for tests of the trainer that
// need no real training.
#pragma once

#include <cstdint>
#include <memory>

#include "base/numerics/philox.h"
#include "train/loop/trainer.h"

namespace podium {

inline constexpr std::int64_t kTinyClasses = 3;

inline Value tiny_model(Network& net, Value images, std::int64_t classes) {
  const Value hidden = net.relu(net.dense("fc1", net.flatten(images), {.units = 8, .bias = true}));
  return net.dense("fc2", hidden, {.units = classes, .bias = true});
}

// Images whose class decides which of their rows are bright.
inline ImageSet tiny_set(std::int64_t count, std::uint32_t draw = 0) {
  ImageSet set({count, 1, 4, 4, kTinyClasses, "drawn"});
  const PhiloxStream words(9, RandomPurpose::kInitialise, draw);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t label = n % kTinyClasses;
    for (std::int64_t i = 0; i < set.image_bytes(); ++i) {
      const std::uint32_t noise =
          words.word(static_cast<std::uint32_t>(n * set.image_bytes() + i)) % 60;
      set.pixels.push_back(static_cast<std::uint8_t>(noise + (i / 4 == label ? 150 : 0)));
    }
    set.labels.push_back(static_cast<std::uint8_t>(label));
  }
  return set;
}

inline Recipe tiny_recipe() {
  Recipe recipe;
  recipe.name = recipe.model = recipe.data = "tiny";
  recipe.batch = 12;
  recipe.replicas = 4;
  recipe.epochs = 3;
  recipe.seed = 5;
  recipe.optimizer.name = "sgd";
  recipe.optimizer.learning_rate = 0.1;
  return recipe;
}

inline std::unique_ptr<Trainer> tiny_trainer(const Recipe& recipe = tiny_recipe(),
                                             const Placement& placement = {.workers = 2}) {
  return std::make_unique<Trainer>(recipe, tiny_model,
                                   std::make_shared<const ImageSet>(tiny_set(60)),
                                   std::make_shared<const ImageSet>(tiny_set(30, 1)), placement);
}

}  // namespace podium
