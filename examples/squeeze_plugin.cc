// A plugin: the network and the operation of squeeze.h, and a dataset that is drawn, for the podium
// command.
//
//   podium plugin squeeze_plugin.so
//   podium train squeeze.toml --plugin squeeze_plugin.so --out runs/squeeze
//   podium eval runs/squeeze --plugin squeeze_plugin.so
#include <podium/train/plugin/plugin.h>

#include "squeeze.h"

namespace {

// Stripes of four directions, three pixels apart: example i of a split is a function of i alone.
podium::ImageSet draw_stripes(const podium::DatasetInfo& info, podium::Split split,
                              const podium::DatasetOptions& options) {
  const bool train = split == podium::Split::kTrain;
  podium::ImageSet set;
  set.count = train ? options.train_examples : options.test_examples;
  if (set.count == 0) set.count = train ? info.train_examples : info.test_examples;
  set.channels = info.channels, set.height = info.height, set.width = info.width;
  set.classes = info.classes;
  set.source = "drawn";
  constexpr std::int64_t kSteps[4][2] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};
  for (std::int64_t i = 0; i < set.count; ++i) {
    const std::int64_t label = i % 4, shift = i / 4 + (train ? 0 : 1);
    set.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::int64_t y = 0; y < set.height; ++y)
      for (std::int64_t x = 0; x < set.width; ++x) {
        const std::int64_t at = kSteps[label][0] * x + kSteps[label][1] * y + shift + 100;
        const std::int64_t noise = (i * 7919 + y * 104729 + x * 1299709) % 97;
        set.pixels.push_back(static_cast<std::uint8_t>((at % 6 < 3 ? 150 : 0) + noise));
      }
  }
  return set;
}

}  // namespace

PODIUM_PLUGIN(registry) {
  registry.model("squeeze", "two convolutions with squeeze-and-excitation", squeeze::model);
  registry.dataset({.name = "stripes",
                    .description = "stripes of four directions, drawn",
                    .channels = 1,
                    .height = 28,
                    .width = 28,
                    .classes = 4,
                    .train_examples = 4000,
                    .test_examples = 800,
                    .load = draw_stripes,
                    .class_names = {"flat", "upright", "rising", "falling"}});
  registry.operation(squeeze::gate_op);
}
