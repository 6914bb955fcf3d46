// Writing a recipe as text: resolved, every key.
#include <string>
#include <vector>

#include "base/error.h"
#include "train/recipe/recipe.h"
#include "train/recipe/recipe_keys.h"

namespace podium {

// A recipe in FP32 has no order, and one in BF16 none until a device decides. A dataset has a name
// alone; of data in files, the name stands in their table. A model that has one size has no table.
// Streams are of few models, and only pairs are translated.
bool has_meaning(const RecipeKey& key, const Recipe& recipe) {
  if (key.path() == "bf16_order") return !recipe.bf16_order.empty();
  if (key.path() == "data") return !has_files(recipe);
  if (key.path() == "evaluation.streams") return recipe.evaluation.streams != 1;
  if (key.path() == "evaluation.translations") return has_pairs(recipe);
  if (key.table == "network") return key.fits_name(recipe.model);
  if (key.table != "data") return true;
  // One of them says what is held out.
  if (key.path() == "data.held_out_path" && recipe.text.held_out_path.empty()) return false;
  if (key.path() == "data.target_path" && recipe.pairs.target_path.empty()) return false;
  if (key.path() == "data.held_out_target_path" && recipe.pairs.held_out_target_path.empty())
    return false;
  if (key.path() == "data.held_out_files" && recipe.sounds.held_out_files.empty()) return false;
  if (key.path() == "data.held_out" &&
      !(recipe.text.held_out_path.empty() && recipe.sounds.held_out_files.empty()))
    return false;
  // All keys of pictures have a meaning for shards.
  return has_files(recipe) && key.fits_name(has_pictures(recipe) ? kTarData : recipe.data);
}

std::string to_toml(const Recipe& recipe) {
  std::string text, table;
  for (const RecipeKey& key : recipe_keys(recipe)) {
    if (!has_meaning(key, recipe)) continue;
    // Of epochs and steps the one that is given.
    if (key.path() == "epochs" && recipe.epochs == 0 && recipe.steps != 0) continue;
    if (key.path() == "steps" && recipe.steps == 0) continue;
    if (key.table != table) {
      table = key.table;
      text += key.group != 0 ? cat("\n[[", kGroupTable, "]]\n") : cat("\n[", table, "]\n");
      if (table == "data") text += cat("name = ", quoted_text(recipe.data), "\n");
    }
    // Of a group that is frozen there is no more to say.
    if (key.group != 0 && key.name != "parameters" && key.name != "frozen" &&
        recipe.optimizer_groups[key.group - 1].frozen)
      continue;
    text += cat(key.name, " = ", value_text(key, recipe), "\n");
  }
  return text;
}

std::string resolved_anew(const std::string& text) {
  try {
    return to_toml(parse_recipe(text, "recipe"));
  } catch (const UserError&) {
    return text;
  }
}

bool goes_on_as(const std::string& own, const std::string& text) {
  try {
    Recipe recipe = parse_recipe(own, "recipe");
    const Recipe next = parse_recipe(text, "recipe");
    recipe.pictures.path = next.pictures.path;
    const auto moves = [](std::string& from, const std::string& to) {
      if (!from.empty() && !to.empty()) from = to;
    };
    moves(recipe.text.held_out_path, next.text.held_out_path);
    moves(recipe.pairs.target_path, next.pairs.target_path);
    moves(recipe.pairs.held_out_target_path, next.pairs.held_out_target_path);
    if (is_tokenizer_path(recipe.text.tokenizer) && is_tokenizer_path(next.text.tokenizer))
      recipe.text.tokenizer = next.text.tokenizer;
    recipe.pictures.skip_limit = next.pictures.skip_limit;
    if (recipe.pictures.on_error == "stop") recipe.pictures.on_error = next.pictures.on_error;
    return to_toml(recipe) == to_toml(next);
  } catch (const UserError&) {
    return own == text;
  }
}

}  // namespace podium
