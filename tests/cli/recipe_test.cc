// Recipes that are refused: exit 2, said at once and whole, and nothing is left behind.
#include <filesystem>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class BadRecipe : public CommandLine {
 protected:
  void expect_refused(const std::vector<std::string>& words,
                      const std::vector<std::string>& parts) const {
    std::vector<std::string> all = {"train"};
    all.insert(all.end(), words.begin(), words.end());
    expect_refusal(podium(all), 2, parts);
    EXPECT_FALSE(std::filesystem::exists(path("runs")));
  }
};

TEST_F(BadRecipe, unknown_name_names_the_nearest) {
  expect_refused({"mnits"}, {"unknown recipe \"mnits\"", "the nearest is \"mnist\"", "glyphs"});
}

TEST_F(BadRecipe, missing_file) {
  expect_refused({"no/such.toml"}, {"no/such.toml", "no such file", "podium recipes"});
}

TEST_F(BadRecipe, unknown_key_in_the_file_and_on_the_command_line) {
  write("r.toml", "model = \"mnist\"\ndata = \"glyphs\"\nbatch = 8\nepochs = 1\nsede = 3\n");
  expect_refused({"r.toml"}, {"r.toml:5", "`sede`", "`seed`"});
  expect_refused({"glyphs", "optimizer.lr=0.1"},
                 {"`optimizer.lr=0.1`", "unknown key `optimizer.lr`"});
}

TEST_F(BadRecipe, wrong_type) {
  write("r.toml", "model = \"mnist\"\ndata = \"glyphs\"\nbatch = \"8\"\nepochs = 1\n");
  expect_refused({"r.toml"}, {"r.toml:3", "`batch` must be an integer", "the string \"8\""});
  expect_refused({"glyphs", "batch=many"}, {"`batch=many`", "must be an integer"});
}

TEST_F(BadRecipe, several_errors_are_all_shown) {
  write("r.toml", "model = \"mnsit\"\ndata = \"glyphs\"\nbatch = \"8\"\n[augment]\nflpi = true\n");
  expect_refused({"r.toml", "precision=fp16"}, {"r.toml:1", "\"mnist\"", "r.toml:3", "r.toml:5",
                                                "`augment.flip`", "fp16", "`epochs` or `steps`"});
}

TEST_F(BadRecipe, text_that_is_no_toml) {
  write("r.toml", "model = = 1\n");
  expect_refused({"r.toml"}, {"r.toml:1:9", "not TOML"});
}

TEST_F(BadRecipe, batch_not_divisible_by_replicas) {
  expect_refused({"glyphs", "batch=250"}, {"`batch` = 250", "`replicas` = 8", "248 or 256"});
}

TEST_F(BadRecipe, more_workers_than_replicas) {
  expect_refused({"glyphs", "--workers", "9"}, {"--workers 9", "8 replicas", "--threads"});
}

TEST_F(BadRecipe, optimizer_of_parameters_that_the_model_has_not) {
  const auto expect_of = [&](const std::string& patterns, const std::vector<std::string>& parts,
                             const std::string& more = "seed=0") {
    expect_refused({"glyphs", "optimizer.group.1.parameters=" + patterns, more}, parts);
  };
  expect_of("[\"conv4.*\"]", {"group 1", "\"conv4.*\" matches no parameter of model \"mnist\"",
                              "the nearest are conv1.weight, conv2.weight, conv3.weight"});
  expect_of("[\"conv*\", \"conv1.weight\"]", {"group 2", "what earlier groups have"},
            "optimizer.group.2.parameters=[\"conv2*\"]");
  expect_of("[\"bn*\"]", {"muon is for matrices", "bn1.weight [6]"}, "optimizer.group.1.name=muon");
  expect_of("[\"*\"]", {"every parameter", "nothing to train"}, "optimizer.group.1.frozen=true");
  expect_refused({"glyphs", "model=sprint", "optimizer.group.1.parameters=[\"whiten.weight\"]"},
                 {"group 1", "\"whiten.weight\"", "\"sprint\" does not train"});
}

TEST_F(BadRecipe, batch_larger_than_the_dataset) {
  expect_refused({"glyphs", "train_examples=100"}, {"batch", "100"});
}

TEST_F(BadRecipe, memory_limit_that_is_no_amount) {
  expect_refused({"glyphs", "--memory-limit", "lots"}, {"lots", "2GiB"});
}

}  // namespace
}  // namespace podium::test
