// Recipes with groups of parameters, and with initial values from elsewhere.
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/recipe/recipe_keys.h"
#include "train/recipe/recipe_test_util.h"

namespace podium {
namespace {

const std::string kSprint =
    "model=\"sprint\"\ndata=\"cifar10\"\nbatch=8\nepochs=1\n";  // four lines

TEST(RecipeGroups, a_group_of_parameters_takes_what_its_own_optimizer_takes) {
  const std::string start = kSprint + "[[optimizer.group]]\nparameters = [\"group*\"]\n";
  EXPECT_EQ(refusal(start + "beta1 = 0.5\n"),
            "x.toml:7: `optimizer.group.1.beta1` has no effect with `optimizer.group.1.name` = "
            "\"sgd\"; that uses `momentum`, `nesterov`, `weight_decay`");
  EXPECT_EQ(refusal(start + "name = \"muon\"\nweight_decay = 0.5\n"),
            "x.toml:8: `optimizer.group.1.weight_decay` has no effect with "
            "`optimizer.group.1.name` = \"muon\"; that uses `momentum`, `nesterov`");
  EXPECT_EQ(
      refusal(start + "name = \"moon\"\n"),
      "x.toml:7: `optimizer.group.1.name` = \"moon\" is unknown; known: sgd, lars, adam, adamw, "
      "muon; the nearest is \"muon\"");
  EXPECT_EQ(refusal(start + "nesterov = true\n"),
            "x.toml:7: `optimizer.group.1.nesterov` = true needs `optimizer.group.1.momentum` "
            "above 0");
  EXPECT_EQ(refusal(start + "name = \"muon\"\nepochs = 2\n")
                .find("x.toml:8: "
                      "`optimizer.group.1.epochs` needs another optimizer"),
            0u);
  EXPECT_EQ(
      refusal(start + "[[optimizer.group]]\nlerning_rate = 1\n"),
      "x.toml: `optimizer.group.2.parameters` is missing: patterns of parameter names: `*` "
      "matches any characters, `?` matches one. A parameter belongs to the first group with a "
      "pattern that matches its name\n"
      "x.toml:8: unknown key `optimizer.group.2.lerning_rate`; the nearest known one is "
      "`optimizer.group.2.learning_rate`");
  EXPECT_EQ(refusal(kSprint + "[optimizer.group]\nname = \"sgd\"\n"),
            "x.toml:5: `optimizer.group` must be an array of tables, [[optimizer.group]], got a "
            "table");
  EXPECT_EQ(refusal(kSprint + "[[optimizer.group]]\nparameters = \"fc\"\n"),
            "x.toml:6: `optimizer.group.1.parameters` must be an array of strings, got the string "
            "\"fc\"");
  EXPECT_EQ(refusal(kSprint + "[[optimizer.group]]\nparameters = [\"fc\", 3]\n"),
            "x.toml:6: `optimizer.group.1.parameters` must be an array of strings; element 2 is "
            "the integer 3");
  for (const char* none : {"[]", "[\"\"]"})
    EXPECT_EQ(refusal(kSprint + "[[optimizer.group]]\nparameters = " + none + "\n"),
              "x.toml:6: `optimizer.group.1.parameters` needs patterns of names, such as \"fc.*\"");
}

TEST(RecipeGroups, a_group_of_parameters_has_what_it_does_not_say_from_the_optimizer) {
  const std::string groups =
      "[[optimizer.group]]\nparameters = [\"a\"]\nlearning_rate = 3\n"
      "[[optimizer.group]]\nparameters = [\"b\"]\nname = \"adam\"\n";
  const std::string table = "[optimizer]\nmomentum = 0.5\nweight_decay = 0.25\ndecay_all = true\n";
  std::vector<std::string> texts = {kSprint + table + groups};
#ifndef PODIUM_OLD_TOMLPLUSPLUS  // takes a table for defined twice that follows what lies in it
  texts.push_back(kSprint + groups + table);
#endif
  for (const std::string& text : texts) {
    const Recipe recipe = parse_recipe(text, "x.toml", {"optimizer.momentum=0.75"});
    ASSERT_EQ(recipe.optimizer_groups.size(), 2u);
    OptimizerOptions expected = recipe.optimizer;
    expected.learning_rate = 3;
    EXPECT_EQ(expected.momentum, 0.75f);
    EXPECT_EQ(recipe.optimizer_groups[0].optimizer, expected);
    // Of another optimizer its numbers would mean something else.
    EXPECT_EQ(recipe.optimizer_groups[1].optimizer,
              (OptimizerOptions{.name = "adam", .decay_all = true}));
  }
}

TEST(RecipeGroups, the_command_line_changes_groups_of_parameters_and_adds_some) {
  const std::string text = kSprint +
                           "[[optimizer.group]]\nparameters = [\"a\"]\n"
                           "name = \"muon\"\nmomentum = 0.5\n";
  const Recipe recipe = parse_recipe(
      text, "x.toml",
      {"optimizer.group.1.learning_rate=2", "optimizer.group.2.parameters=[\"b*\", \"c\"]",
       "optimizer.group.2.frozen=true"});
  ASSERT_EQ(recipe.optimizer_groups.size(), 2u);
  EXPECT_EQ(recipe.optimizer_groups[0].optimizer.learning_rate, 2);
  EXPECT_EQ(recipe.optimizer_groups[0].optimizer.momentum, 0.5f);
  EXPECT_EQ(recipe.optimizer_groups[1],
            (OptimizerGroup{.parameters = {"b*", "c"}, .frozen = true, .optimizer = {}}));
  EXPECT_EQ(parse_recipe(text, "x.toml", {"optimizer.group.1.name=adam"}).optimizer_groups[0],
            (OptimizerGroup{.parameters = {"a"}, .frozen = false, .optimizer = {.name = "adam"}}));
  EXPECT_EQ(parse_recipe(text, "x.toml", {"optimizer.group.1.frozen=true"}).optimizer_groups[0],
            (OptimizerGroup{.parameters = {"a"}, .frozen = true, .optimizer = {}}));
  EXPECT_EQ(refusal(text, {"optimizer.group.3.frozen=true"}),
            "`optimizer.group.3.frozen=true`: there is no group 3 of "
            "parameters; the next one is 2");
  EXPECT_NE(refusal(text, {"optimizer.group.0.frozen=true"}).find("unknown key"),
            std::string::npos);
}

TEST(RecipeGroups, a_frozen_group_of_parameters_takes_no_other_key) {
  const std::string start = kSprint + "[[optimizer.group]]\nparameters = [\"a\"]\nfrozen = true\n";
  EXPECT_EQ(refusal(start + "learning_rate = 0.1\n"),
            "x.toml:8: `optimizer.group.1.learning_rate` has no effect if "
            "`optimizer.group.1.frozen` = true; remove it");
  EXPECT_NE(to_toml(parse_recipe(start, "x.toml"))
                .find("\n[[optimizer.group]]\nparameters = [\"a\"]\nfrozen = true\n\n[schedule]"),
            std::string::npos);
}

// Run folders and published results hold them.
TEST(RecipeGroups, tables_of_groups_from_before_there_were_patterns_are_still_read) {
  const std::string older = kSprint +
                            "[optimizer]\nmomentum = 0.5\n"
                            "[optimizer.filters]\nname = \"muon\"\nlearning_rate = 0.24\n"
                            "[optimizer.dense]\nname = \"same\"\n"
                            "[optimizer.whitening]\nname = \"sgd\"\nepochs = 3\n";
  const std::string newer = kSprint +
                            "[optimizer]\nmomentum = 0.5\n"
                            "[[optimizer.group]]\nparameters = [\"group*.conv*.weight\"]\n"
                            "name = \"muon\"\nlearning_rate = 0.24\ndecay_all = true\n"
                            "[[optimizer.group]]\nparameters = [\"whiten.bias\"]\n"
                            "learning_rate = 0.1\nmomentum = 0\ndecay_all = true\nepochs = 3\n";
  EXPECT_EQ(to_toml(parse_recipe(older, "x.toml")), to_toml(parse_recipe(newer, "x.toml")));
  EXPECT_EQ(resolved_anew(older), to_toml(parse_recipe(newer, "recipe")));
  EXPECT_EQ(resolved_anew("no recipe"), "no recipe");
  EXPECT_TRUE(goes_on_as(older, newer));
  EXPECT_EQ(refusal(kSprint + "[optimizer.filters]\nmomentum = 0.5\n"),
            "x.toml:6: `optimizer.filters.momentum` has no effect with `optimizer.filters.name` = "
            "\"same\"; remove it");
  EXPECT_EQ(
      refusal(minimal_and("[optimizer.whitening]\nname = \"sgd\"\n")),
      "x.toml:6: [optimizer.whitening] is not a table of a recipe; choose parameters by their "
      "names, [[optimizer.group]] parameters = [\"conv*.weight\"]");
  EXPECT_EQ(refusal(kSprint, {"optimizer.filters.name=sgd"}),
            "`optimizer.filters.name=sgd`: unknown key "
            "`optimizer.filters.name`; a group of parameters is named by its number, as in "
            "`optimizer.group.1.name`");
}

TEST(RecipeInit, rules_of_initial_values_are_checked) {
  EXPECT_EQ(refusal(minimal_and("[init]\nfresh = [\"fc.*\"]\n")),
            "x.toml:7: `init.fresh` has no effect without `init.from`; remove it");
  for (const char* rule : {"a", "=b", "a*b*=c", "a=b*", "a*=b**"})
    EXPECT_NE(refusal(minimal_and(cat("[init]\nfrom = \"x\"\nmap = [\"", rule, "\"]\n")))
                  .find("is not a rule; write"),
              std::string::npos)
        << rule;
  for (const char* rule : {"a=b", "a*=b*", "a*=b", "*=x.*", "a*="})
    EXPECT_EQ(refusal(minimal_and(cat("[init]\nfrom = \"x\"\nmap = [\"", rule, "\"]\n"))),
              "accepted")
        << rule;
}

}  // namespace
}  // namespace podium
