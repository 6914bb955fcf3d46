// Where recipes are found by name.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/words.h"
#include "train/recipe.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// In the order of search; those that exist.
std::vector<fs::path> recipe_folders() {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    const bool known = std::any_of(folders.begin(), folders.end(), [&](const fs::path& other) {
      return fs::equivalent(folder, other, error);
    });
    if (!known) folders.push_back(folder);
  };
  if (const char* named = std::getenv("PODIUM_RECIPES"); named != nullptr && *named != '\0') {
    std::error_code error;
    PODIUM_REQUIRE(fs::is_directory(named, error), ExitCode::kUsage, "PODIUM_RECIPES is \"", named,
                   "\", and there is no such folder; correct the variable, or unset it");
    add(named);
  }
  add("recipes");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    add(program / "recipes");
    add((program / ".." / "recipes").lexically_normal());
    add((program / ".." / "share" / "podium" / "recipes").lexically_normal());
  }
  return folders;
}

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
