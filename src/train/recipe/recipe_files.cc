// Where recipes are found by name.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/words.h"
#include "data/pictures/pictures.h"
#include "data/source/own_files.h"
#include "files/toml_records.h"
#include "train/recipe/recipe.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recipe_folders() { return shared_folders("recipes", "PODIUM_RECIPES"); }

}  // namespace

bool has_files(const Recipe& recipe) {
  return has_pictures(recipe) || own_file(recipe.data) != nullptr;
}

std::filesystem::path find_recipe(const std::string& name_or_path) {
  std::error_code ignored;
  if (name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos) {
    PODIUM_REQUIRE(fs::exists(name_or_path, ignored), ExitCode::kUsage, name_or_path,
                   ": no such file; `podium recipes` lists the recipes that have a name");
    return name_or_path;
  }
  for (const fs::path& folder : recipe_folders()) {
    fs::path file = folder / (name_or_path + ".toml");
    if (!name_or_path.empty() && fs::is_regular_file(file, ignored)) return file;
  }
  const std::vector<std::string> names = recipe_names();
  PODIUM_REQUIRE(!names.empty(), ExitCode::kUsage, "unknown recipe \"", name_or_path,
                 "\": no recipes folder was found; give the path of a TOML file, or name the "
                 "folder in $PODIUM_RECIPES");
  if (const fs::path inside = fs::path(name_or_path) / "recipe.toml"; fs::exists(inside, ignored))
    throw UserError(cat("unknown recipe \"", name_or_path,
                        "\", which is the folder of a run; give its recipe, ", inside.string()));
  if (fs::is_directory(name_or_path, ignored))
    throw UserError(cat("unknown recipe \"", name_or_path,
                        "\", which is a folder; to train on the ",
                        "pictures in it, give folder:", name_or_path));
  throw UserError(cat("unknown recipe \"", name_or_path, "\"; the nearest is \"",
                      nearest_word(name_or_path, names), "\"; known: ", join_words(names),
                      "; or give the path of a TOML file"));
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : recipe_folders()) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() == ".toml") names.push_back(entry->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Recipe read_named_recipe(const std::string& name, const std::vector<std::string>& overrides,
                         const std::string& data_dir) {
  const DataName data = split_data_name(name);
  if (data.path.empty()) return read_recipe(find_recipe(name), overrides);
  const bool is_file = own_file(data.name) != nullptr;
  std::error_code error;
  // Of the recipe: the folder's name, as far as it can name another folder; of shards it is the
  // folder that they lie in.
  fs::path place = fs::path(data.path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  if (is_file) place = place.stem();
  if (!is_file && data.name != kFolderData && place.has_parent_path() &&
      !fs::is_directory(place, error))
    place = place.parent_path();
  std::string own;
  for (const char c : place.filename().string())
    own += static_cast<unsigned char>(c) < 0x20 || c == '/' || c == '\\' ? '-' : c;
  std::vector<std::string> all = {cat("data=", quoted_text(name))};
  if (!own.empty() && own.front() != '.') all.push_back(cat("name=", quoted_text(own)));
  for (const std::string& text : overrides)
    all.push_back(data.name != kTextData && is_file && text.starts_with("target=") ? "data." + text
                                                                                   : text);
  if (is_file) return read_recipe(find_recipe(data.name), all);
  Recipe recipe = read_recipe(find_recipe("pictures"), all);
  const bool given = std::ranges::any_of(
      overrides, [](const std::string& text) { return text.starts_with("batch="); });
  if (given) return recipe;
  const std::int64_t count =
      open_pictures(recipe.data, recipe.pictures, recipe.augment, data_dir).train->count;
  std::int64_t batch = recipe.batch;
  while (batch > count && batch > recipe.replicas) batch /= 2;
  if (batch == recipe.batch) return recipe;
  all.insert(all.begin(),
             {cat("batch=", batch), cat("schedule.warmup=", number_text(recipe.schedule.warmup))});
  return read_recipe(find_recipe("pictures"), all);
}

}  // namespace podium
