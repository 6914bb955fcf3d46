// The sets that a recipe's data are.
#include "data/dataset.h"
#include "data/pictures.h"
#include "train/run.h"

namespace podium {

RunData load_data(const Recipe& recipe, const std::string& data_dir, StopToken stop) {
  if (has_pictures(recipe)) {
    const Pictures pictures =
        open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir, stop);
    return {pictures.train, pictures.test};
  }
  const DatasetOptions options{.data_dir = data_dir,
                               .seed = 0,
                               .train_examples = recipe.train_examples,
                               .test_examples = recipe.test_examples,
                               .stop = stop};
  auto train = std::make_shared<ImageSet>(load_dataset(recipe.data, Split::kTrain, options));
  if (recipe.validation == 0)
    return {train,
            std::make_shared<const ImageSet>(load_dataset(recipe.data, Split::kTest, options))};
  PODIUM_REQUIRE(recipe.validation < train->count, ExitCode::kUsage,
                 "validation = ", recipe.validation, ": the training set has ", train->count,
                 " examples");
  const std::int64_t kept = train->count - recipe.validation;
  auto held_out = std::make_shared<const ImageSet>(part_of(*train, kept, recipe.validation));
  // Shortened in place: a copy would need the set's memory twice.
  train->count = kept;
  train->pixels.resize(static_cast<std::size_t>(kept * train->image_bytes()));
  train->labels.resize(static_cast<std::size_t>(kept));
  return {train, held_out};
}

SourceFields example_fields(const Recipe& recipe, const std::string& data_dir) {
  if (has_pictures(recipe)) return *load_data(recipe, data_dir).train;
  const DatasetInfo& info = find_dataset(recipe.data);
  return {.count = training_examples(recipe),
          .channels = info.channels,
          .height = info.height,
          .width = info.width,
          .classes = info.classes,
          .source = info.name,
          .class_names = info.class_names};
}

}  // namespace podium
