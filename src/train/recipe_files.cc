// Where recipes are found by name.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/words.h"
#include "train/recipe.h"
#include "train/toml_records.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recipe_folders() { return shared_folders("recipes", "PODIUM_RECIPES"); }

}  // namespace

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

}  // namespace podium
