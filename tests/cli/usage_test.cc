// What the command line says of itself, and of words that it does not know.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

using Usage = CommandLine;

TEST_F(Usage, every_help_opens_with_two_examples) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"train"},
                                                          {"eval"},
                                                          {"predict"},
                                                          {"show"},
                                                          {"inspect"},
                                                          {"diff"},
                                                          {"compare"},
                                                          {"band"},
                                                          {"recipes"},
                                                          {"devices"},
                                                          {"data"},
                                                          {"bench"},
                                                          {"data", "list"},
                                                          {"data", "fetch"},
                                                          {"data", "verify"},
                                                          {"data", "show"},
                                                          {"bench", "ops"},
                                                          {"bench", "recipe"}};
  for (std::vector<std::string> words : commands) {
    std::string name = "podium";
    for (const std::string& word : words) name += " " + word;
    words.emplace_back("--help");
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_EQ(outcome.out.find("Examples:\n  "), 0u) << name << "\n" << outcome.out;
    const std::string examples = outcome.out.substr(0, outcome.out.find("\n\n"));
    EXPECT_EQ(std::count(examples.begin(), examples.end(), '\n'), 2) << examples;
    EXPECT_NE(outcome.out.find("Usage: " + name), std::string::npos) << outcome.out;
  }
}

TEST_F(Usage, version_is_printed) {
  const Outcome outcome = podium({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find("podium "), 0u);
}

TEST_F(Usage, no_command_shows_the_help_and_is_an_error) {
  expect_refusal(podium({}), 2, {"Usage: podium", "train", "podium train mnist"});
}

TEST_F(Usage, unknown_command_names_the_nearest) {
  expect_refusal(podium({"trian", "mnist"}), 2,
                 {"podium trian", "the nearest is \"podium train\""});
  expect_refusal(podium({"data", "fecth"}), 2, {"the nearest is \"podium data fetch\""});
}

TEST_F(Usage, unknown_flag_names_the_nearest) {
  expect_refusal(podium({"train", "glyphs", "--wrkers", "2"}), 2,
                 {"\"--wrkers\"", "--workers", "podium train --help"});
  expect_refusal(podium({"train", "glyphs", "--no-such=1"}), 2,
                 {"\"--no-such=1\"", "nearest flag"});
}

TEST_F(Usage, missing_and_wrong_arguments_are_named) {
  expect_refusal(podium({"train"}), 2, {"RECIPE"});
  expect_refusal(podium({"inspect", "glyphs", "--step", "1"}), 2, {"--out"});
  expect_refusal(podium({"train", "glyphs", "--workers", "two"}), 2, {"--workers", "two"});
  expect_refusal(podium({"train", "glyphs", "--workers", "0"}), 2, {"--workers", "0"});
  expect_refusal(podium({"train", "glyphs", "--steps", "-5"}), 2, {"--steps"});
}

TEST_F(Usage, recipes_lists_every_recipe) {
  const Outcome outcome = podium({"recipes"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("mnist"), std::string::npos);
  EXPECT_NE(outcome.out.find("glyphs"), std::string::npos);
  const auto json = nlohmann::json::parse(podium({"recipes", "--json"}).out);
  EXPECT_GE(json.size(), 2u);
}

TEST_F(Usage, devices_names_targets_and_backends) {
  const auto json = nlohmann::json::parse(podium({"devices", "--json"}).out);
  EXPECT_GE(json["vector_targets"].size(), 1u);
  EXPECT_EQ(json["backends"], (std::vector<std::string>{"cpu", "reference"}));
  EXPECT_GT(json["memory_bytes"].get<double>(), 0);
  const std::string last = json["vector_targets"].back();
  const auto forced = nlohmann::json::parse(
      podium({"devices", "--json"}, {.environment = {{"PODIUM_VECTOR_TARGET", last}}}).out);
  EXPECT_EQ(forced["vector_target"], last);
}

TEST_F(Usage, vector_target_that_the_machine_lacks_is_refused) {
  expect_refusal(podium({"devices"}, {.environment = {{"PODIUM_VECTOR_TARGET", "mmx"}}}), 2,
                 {"PODIUM_VECTOR_TARGET", "mmx"});
}

TEST_F(Usage, unknown_backend_names_those_there_are) {
  expect_refusal(podium(train_small("run", {"--backend", "gpu"})), 2, {"gpu", "cpu, reference"});
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(Usage, show_prints_layers_costs_and_the_recipe) {
  const Outcome outcome = podium({"show", "mnist", "seed=7"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"conv1.weight", "[6, 1, 3, 3]", "FLOP", "250,698", "seed = 7"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  }
  const Outcome graph = podium({"show", "mnist", "--graph"});
  EXPECT_NE(graph.out.find("conv2d_grad_weight("), std::string::npos) << graph.out;
}

}  // namespace
}  // namespace podium::test
