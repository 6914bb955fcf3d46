// podium recipes: which there are.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "train/recipe/recipe_keys.h"

namespace podium {
namespace {

struct RecipesArguments {
  bool json = false, keys = false;
};

ExitCode list_recipes(const RecipesArguments& arguments) {
  if (arguments.keys) {
    std::cout << recipe_keys_markdown();
    return ExitCode::kDone;
  }
  Table table({"RECIPE", "MODEL", "DATA", "LENGTH", ""});
  auto json = nlohmann::ordered_json::array();
  ExitCode code = ExitCode::kDone;
  for (const std::string& name : recipe_names()) {
    try {
      const Recipe recipe = read_recipe(find_recipe(name));
      const std::string length =
          recipe.steps != 0 ? count_text(recipe.steps, "step") : count_text(recipe.epochs, "epoch");
      table.add({name, recipe.model, recipe.data, length, recipe.description});
      json.push_back({{"name", name},
                      {"file", find_recipe(name).string()},
                      {"model", recipe.model},
                      {"data", recipe.data},
                      {"epochs", recipe.epochs},
                      {"steps", recipe.steps},
                      {"description", recipe.description}});
    } catch (const UserError& error) {
      complain(error.what());  // one bad file hides no other
      code = error.code();
    }
  }
  PODIUM_REQUIRE(
      !recipe_names().empty(), ExitCode::kUsage,
      "no recipes folder was found here or beside the program; set $PODIUM_RECIPES to one");
  std::cout << (arguments.json ? json_text(json, 2) + "\n" : table.text());
  return code;
}

}  // namespace

void add_recipes_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<RecipesArguments>();
  CLI::App* command = add_command(app, line, "recipes", "Lists the recipes",
                                  {"podium recipes", "podium recipes --keys    # every key"},
                                  [arguments] { return list_recipes(*arguments); });
  command->add_flag("--keys", arguments->keys, "Describe every key of a recipe");
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
