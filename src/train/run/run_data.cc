// The sets that a recipe's data are.
#include "train/run/run_data.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/datasets/dataset.h"
#include "data/pairs/pairs.h"
#include "data/pictures/pictures.h"
#include "data/sentences/sentences.h"
#include "data/sounds/sounds.h"
#include "data/source/own_files.h"
#include "data/table/table.h"
#include "data/text/text.h"
#include "train/recipe/recipe_keys.h"

namespace podium {

RunData load_data(const Recipe& recipe, const std::string& data_dir, const IndexOptions& how) {
  if (has_pictures(recipe)) {
    const Pictures pictures =
        open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir, how);
    return {pictures.train, pictures.test, pictures.notes};
  }
  if (has_text(recipe)) {
    const Text text =
        open_text(recipe.pictures.path, recipe.text, recipe.pictures.held_out, data_dir);
    RunData data{text.train, text.held_out};
    if (text.tokenizer) data.tokenizer_files = text.tokenizer->files();
    return data;
  }
  if (has_sentences(recipe)) {
    const Sentences sentences = open_sentences(recipe.pictures.path, recipe.text, recipe.table,
                                               recipe.pictures.held_out, data_dir);
    return {sentences.train, sentences.held_out, sentences.notes, sentences.tokenizer->files()};
  }
  if (has_pairs(recipe)) {
    const Pairs pairs = open_pairs(recipe.pictures.path, recipe.pairs, recipe.text, recipe.table,
                                   recipe.pictures.held_out, data_dir);
    return {pairs.train, pairs.held_out, pairs.notes, pairs.tokenizer->files()};
  }
  if (has_sounds(recipe)) {
    const Sounds sounds = open_sounds(recipe.pictures.path, recipe.sounds, recipe.text,
                                      recipe.pictures.held_out, recipe.table.split_seed, data_dir);
    return {sounds.train, sounds.held_out, sounds.notes};
  }
  if (has_table(recipe)) {
    const TableParts table =
        open_table(recipe.pictures.path, recipe.table, recipe.pictures.held_out, data_dir);
    return {table.train, table.held_out};
  }
  const DatasetOptions options{.data_dir = data_dir,
                               .seed = 0,
                               .train_examples = recipe.train_examples,
                               .test_examples = recipe.test_examples,
                               .stop = how.stop};
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

RunData load_data(const Recipe& recipe, const std::string& data_dir) {
  // A picture that was repaired in its place is read anew.
  return load_data(recipe, data_dir, {.check_files = true});
}

namespace {

void require_stated(const Recipe& recipe, const RunData& data) {
  std::string differences, remedy;
  const auto compare = [&](const char* key, std::int64_t stated, std::int64_t found,
                           const char* what) {
    if (stated == 0 || stated == found) return;
    differences +=
        cat(differences.empty() ? "" : ", ", found, " ", what, " (`", key, "` = ", stated, ")");
    remedy += cat(" ", key, "=", found);
  };
  compare("train_examples", recipe.train_examples, data.train->examples(), "to train on");
  compare("test_examples", recipe.test_examples, data.held_out->examples(), "to evaluate");
  if (has_pictures(recipe))
    compare("data.classes", recipe.pictures.classes, target_of(data.train->fields())->below,
            "classes");
  const OwnFile* const own = own_file(recipe.data);
  PODIUM_REQUIRE(differences.empty(), ExitCode::kData, data.train->origin(), ": the ",
                 own ? "file is not the one" : "pictures are not those",
                 " that the recipe states: ", differences, ". Name the ",
                 own ? "file that has it" : "folder that has them",
                 " (data.path=", own ? own->example : "PHOTOS", "), or train on these with", remedy,
                 "; a run that has begun goes on only with those that it had");
}

}  // namespace

Recipe with_counts(Recipe recipe, const RunData& data) {
  if (!has_files(recipe)) return recipe;
  data.train->require_usable("the training set");
  require_stated(recipe, data);
  recipe.train_examples = data.train->examples();
  recipe.test_examples = data.held_out->examples();
  check_counts(recipe);
  return recipe;
}

}  // namespace podium
