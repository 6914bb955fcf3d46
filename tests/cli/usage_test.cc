// What the command line says of itself, and of words that it does not know.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class Usage : public CommandLine {
 protected:
  // The text of a recipe that the program finds by its name.
  static std::string read_recipe_of(const std::string& name) {
    return file_text(std::filesystem::path("recipes") / (name + ".toml"));
  }
};

TEST_F(Usage, every_help_opens_with_two_examples) {
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"train"},
                                                          {"eval"},
                                                          {"predict"},
                                                          {"show"},
                                                          {"inspect"},
                                                          {"plan"},
                                                          {"diff"},
                                                          {"compare"},
                                                          {"report"},
                                                          {"band"},
                                                          {"recipes"},
                                                          {"prices"},
                                                          {"devices"},
                                                          {"data"},
                                                          {"bench"},
                                                          {"plugin"},
                                                          {"generate"},
                                                          {"data", "list"},
                                                          {"data", "fetch"},
                                                          {"data", "verify"},
                                                          {"data", "index"},
                                                          {"data", "show"},
                                                          {"bench", "ops"},
                                                          {"bench", "data"},
                                                          {"bench", "recipe"},
                                                          {"completion"},
                                                          {"man"}};
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

TEST_F(Usage, numbers_out_of_range_and_empty_values_are_refused) {
  expect_refusal(podium({"train", "glyphs", "--workers", "0"}), 2,
                 {"--workers", "\"0\" is not a whole number from 1 to 9223372036854775807"});
  expect_refusal(podium({"train", "glyphs", "--steps", "99999999999999999999"}), 2, {"--steps"});
  expect_refusal(podium({"train", "glyphs", "--threads", "1000000"}), 2,
                 {"--threads 1000000", "1 to"});
  expect_refusal(podium({"train", "glyphs", "--memory-limit", ""}), 2, {"--memory-limit", "empty"});
  expect_refusal(podium({"train", "glyphs", "--out", ""}), 2, {"--out", "empty"});
  expect_refusal(podium({"train", "glyphs", "optimizer=1"}), 2,
                 {"`optimizer` is a table", "`optimizer.name`"});
}

TEST_F(Usage, a_device_or_a_pipe_is_not_replaced_by_a_file) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(path("file.png"), path("link.png"));
  write("file.png", "");
  const auto show = [&](const std::string& out) {
    return podium({"data", "show", "glyphs", "--force", "--out", out, "train_examples=64",
                   "test_examples=10", "batch=32"});
  };
  expect_refusal(show("pipe"), 3, {"pipe", "device or a pipe"});
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_EQ(show("link.png").code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.png")));
  EXPECT_FALSE(read("file.png").empty());
}

TEST_F(Usage, results_that_cannot_be_written_are_an_error_with_the_reason) {
  const Outcome closed = podium({"recipes"}, {.closed_stdout = true});
  expect_refusal(closed, 3, {"standard output is closed"});
  EXPECT_EQ(closed.err.find("disk"), std::string::npos) << closed.err;
  const Outcome full = podium({"recipes"}, {.stdout_file = "/dev/full"});
  expect_refusal(full, 3, {"standard output: cannot write: No space left on device"});
}

// Otherwise the first file that a run opens becomes standard output, and the results end up in it.
TEST_F(Usage, results_of_a_closed_stdout_land_in_no_file_of_the_run) {
  const Outcome outcome = podium(train_small("a"), {.closed_stdout = true});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("a"))) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read(std::filesystem::relative(entry.path(), path("")).string());
    EXPECT_EQ(text.find("glyphs, seed 0: "), std::string::npos) << entry.path();
  }
  EXPECT_EQ(podium({"eval", "a"}).code, 0);
}

TEST_F(Usage, recipe_folder_that_does_not_exist_is_named) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"show", "mnist"}, std::vector<std::string>{"recipes"}})
    expect_refusal(podium(words, {.environment = {{"PODIUM_RECIPES", "nowhere"}}}), 2,
                   {"PODIUM_RECIPES is \"nowhere\"", "no such folder"});
}

TEST_F(Usage, fetch_names_the_variable_that_moves_its_addresses) {
  const Outcome outcome = podium({"data", "fetch", "--help"});
  EXPECT_NE(outcome.out.find("PODIUM_DOWNLOAD_BASE"), std::string::npos) << outcome.out;
}

TEST_F(Usage, files_are_not_overwritten_unasked) {
  write("there", "mine");
  write("folder/x", "");
  ASSERT_EQ(podium(train_small("a", {"--steps", "1"})).code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"compare", "a", "--plot"},
      {"inspect", "glyphs", "train_examples=256", "batch=32", "--step", "1", "--out"},
      {"data", "show", "glyphs", "train_examples=256", "--out"}};
  for (const std::vector<std::string>& command : commands) {
    const auto with = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words = command;
      words.insert(words.end(), more.begin(), more.end());
      return podium(words);
    };
    expect_refusal(with({"there"}), 2, {command.back() + " there: exists already", "--force"});
    EXPECT_EQ(read("there"), "mine");
    for (const std::string folder : {"folder", ".", "/"})
      expect_refusal(with({folder}), 2, {command.back() + " " + folder + ": is a folder"});
    expect_refusal(with({"no/file"}), 3, {"no/file", "cannot write"});
    const Outcome outcome = with({"there", "--force"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(read("there"), "mine");
    write("there", "mine");
  }
}

TEST_F(Usage, show_plans_memory_and_kernels_quickly_for_any_placement) {
  const double before = children_seconds();
  const Outcome alone = podium({"show", "cifar10-resnet32", "--all", "--workers", "2"});
  EXPECT_LT(children_seconds() - before, 0.5);
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* part : {"2 workers of 1 thread", "\nworker 1 ", "TRAINING ARENA",
                           "\nconv2d_winograd stage1.1.conv1 ", "\nreplica: ", ", 2 runs a step\n",
                           "\nupdate: ", "\nevaluation: "})
    EXPECT_NE(alone.out.find(part), std::string::npos) << part;
  EXPECT_EQ(alone.out.find("EXCHANGE"), std::string::npos);
  const Outcome ranks = podium({"show", "cifar10-resnet32", "--all", "--ranks", "4"});
  ASSERT_EQ(ranks.code, 0) << ranks.err;
  for (const char* part : {"4 ranks of 1 worker", "EXCHANGE", ", 1 run a step\n"})
    EXPECT_NE(ranks.out.find(part), std::string::npos) << part;
  expect_refusal(podium({"show", "mnist", "replicas=4", "--ranks", "5"}), 2,
                 {"a run of 4 replicas has at most as many ranks, not 5"});
}

TEST_F(Usage, show_escapes_what_a_recipe_says) {
  std::string recipe = read_recipe_of("glyphs");
  const std::size_t at = recipe.find("description = ");
  ASSERT_NE(at, std::string::npos) << recipe;
  recipe.replace(at, recipe.find('\n', at) - at,
                 "description = \"a \\u001b[31m \\u009b31m \\\"b\\\" \\\\ \\n c\"");
  write("odd.toml", recipe);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"show", "odd.toml"}, {"recipes"}}) {
    const Outcome outcome = podium(words, {.environment = {{"PODIUM_RECIPES", "."}}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(outcome.out.find("\xc2\x9b"), std::string::npos);
    EXPECT_NE(outcome.out.find("a ?[31m ?31m \"b\" \\ ? c"), std::string::npos) << outcome.out;
    if (words[0] == "recipes") continue;
    EXPECT_NE(
        outcome.out.find("description = \"a \\u001B[31m \\u009B31m \\\"b\\\" \\\\ \\u000A c\""),
        std::string::npos)
        << outcome.out;
  }
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
  // One more than an int holds.
  for (const char* flag : {"--threads", "--input-threads"})
    expect_refusal(podium({"train", "glyphs", flag, "2147483648"}), 2,
                   {cat(flag, ": \"2147483648\" is not a whole number from ")});
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

TEST_F(Usage, devices_names_what_the_build_lacks_and_what_adds_it) {
  const std::string text = podium({"devices"}).out;
  const auto json = nlohmann::json::parse(podium({"devices", "--json"}).out);
  std::string names;
  for (const auto& part : json["not_built"]) names += part["name"].get<std::string>() + " ";
  EXPECT_EQ(names, PODIUM_NOT_BUILT);
  for (const auto& part : json["not_built"]) {
    const std::string name = part["name"], remedy = part["remedy"];
    EXPECT_NE(text.find(name + ", for "), std::string::npos) << text;
    EXPECT_NE(text.find("to add it: " + remedy), std::string::npos) << text;
    if (name != "mpi")
      expect_refusal(podium(train_small("run", {"--backend", name})), 2, {name, remedy});
  }
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
  const Outcome brief = podium({"show", "mnist", "seed=7"});
  EXPECT_LT(std::ranges::count(brief.out, '\n'), 100) << brief.out;
  for (const char* part : {"250,698 parameters", "TRAINING ARENA", "seed = 7", "--all"})
    EXPECT_NE(brief.out.find(part), std::string::npos) << part;
  EXPECT_EQ(brief.out.find("conv1.weight"), std::string::npos) << brief.out;
  const Outcome outcome = podium({"show", "mnist", "seed=7", "--all"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"conv1.weight", "[6, 1, 3, 3]", "FLOP", "250,698", "seed = 7"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  }
  const Outcome graph = podium({"show", "mnist", "--graph"});
  EXPECT_NE(graph.out.find("conv2d_grad_weight("), std::string::npos) << graph.out;
}

}  // namespace
}  // namespace podium::test
