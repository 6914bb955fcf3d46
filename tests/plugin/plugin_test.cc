// `--plugin FILE.so`: a model, a dataset and an operation that the program was built without, in
// every command that meets them; and plugins that must be refused.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/pictures/formats/image_file.h"
#include "nn/models.h"
#include "tests/cli/run_podium.h"
#include "train/predict/predictor.h"
#include "train/run/run.h"

namespace podium::test {
namespace {

class Plugin : public CommandLine {
 protected:
  // With the plugin of examples/.
  Outcome with_plugin(std::vector<std::string> words) const {
    words.insert(words.end(), {"--plugin", SQUEEZE_PLUGIN});
    return podium(words);
  }
  Outcome train(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "train",    SQUEEZE_RECIPE, "train_examples=512", "test_examples=64",
        "batch=64", "replicas=4",   "epochs=2",           "--out",
        out};
    words.insert(words.end(), more.begin(), more.end());
    return with_plugin(words);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static std::string bad(int kind) {
    return std::string(BAD_PLUGINS) + "/bad_plugin_" + std::to_string(kind) + ".so";
  }
};

TEST_F(Plugin, brings_a_model_a_dataset_and_an_operation_that_learn) {
  const Outcome outcome = train("a", {"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["accuracy"], 0.9) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "model squeeze, data stripes")) << outcome.err;
}

TEST_F(Plugin, gives_the_same_bits_for_any_placement_and_when_resumed) {
  ASSERT_EQ(train("one", {"--workers", "1"}).code, 0);
  ASSERT_EQ(train("four", {"--workers", "4"}).code, 0);
  ASSERT_EQ(train("threads", {"--workers", "2", "--threads", "2"}).code, 0);
  ASSERT_EQ(train("resumed", {"--workers", "3", "--steps", "5"}).code, 0);
  ASSERT_EQ(train("resumed", {"--workers", "2"}).code, 0);
  const std::string hashes = read("one/hashes.jsonl");
  EXPECT_EQ(std::count(hashes.begin(), hashes.end(), '\n'), 16);
  for (const char* other : {"four", "threads", "resumed"})
    EXPECT_EQ(read(std::string(other) + "/hashes.jsonl"), hashes) << other;
}

TEST_F(Plugin, is_understood_by_the_commands_that_read_a_run) {
  ASSERT_EQ(train("a").code, 0);
  ASSERT_EQ(train("b", {"seed=8"}).code, 0);
  const Outcome evaluated = with_plugin({"eval", "a", "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out)["examples"], 64);

  std::vector<std::uint8_t> colours(28 * 28 * 3);
  for (std::size_t i = 0; i < colours.size(); ++i) colours[i] = i / 3 / 28 % 6 < 3 ? 200 : 30;
  const std::vector<std::uint8_t> png = png_bytes(colours, 28, 28);
  write("flat.png", std::string(png.begin(), png.end()));
  const Outcome predicted = with_plugin({"predict", "a", "flat.png", "--json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(nlohmann::json::parse(predicted.out)[0]["class"], 0) << predicted.out;

  const Outcome compared = with_plugin({"compare", "a", "b"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_TRUE(has(compared.out, "SEED")) << compared.out;
  const Outcome shown = with_plugin({"show", SQUEEZE_RECIPE, "--all"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "channel_gate")) << shown.out;
  EXPECT_TRUE(has(shown.out, "excite2.up")) << shown.out;
  const Outcome listed = with_plugin({"data", "list"});
  EXPECT_TRUE(has(listed.out, "stripes")) << listed.out;
  const Outcome timed = with_plugin({"bench", "ops", "channel_gate"});
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_TRUE(has(timed.out, "channel_gate")) << timed.out;
}

TEST_F(Plugin, stands_in_environment_json_and_in_the_error_of_a_command_that_lacks_it) {
  ASSERT_EQ(train("a").code, 0);
  const auto environment = nlohmann::json::parse(read("a/environment.json"));
  const auto& plugins = environment["starts"][0]["plugins"];
  ASSERT_EQ(plugins.size(), 1U) << environment;
  EXPECT_EQ(plugins[0]["path"], std::filesystem::canonical(SQUEEZE_PLUGIN).string());
  EXPECT_EQ(plugins[0]["sha256"].get<std::string>().size(), 64U);
  const std::string remedy =
      "the run was made with --plugin " + std::filesystem::canonical(SQUEEZE_PLUGIN).string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", "a"}, {"predict", "a", "x.png"}})
    expect_refusal(podium(words), 2, {"\"squeeze\"", remedy});
}

// What a run has recorded needs neither its model nor its dataset.
TEST_F(Plugin, is_not_needed_by_the_commands_that_read_records_alone) {
  ASSERT_EQ(train("a").code, 0);
  ASSERT_EQ(train("b", {"--workers", "3", "train_examples=0", "--steps", "2"}).code, 0);
  std::filesystem::copy(path("a"), path("c"));
  const Outcome alone = podium({"compare", "a", "c", "--json"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, with_plugin({"compare", "a", "c", "--json"}).out);
  EXPECT_EQ(podium({"compare", "a", "b"}).code, 0);
  const Outcome report = podium({"report", "b", "--out", "b.html"});
  ASSERT_EQ(report.code, 0) << report.err;
  // 4,000 stripes, as environment.json says, in batches of 64, twice.
  EXPECT_TRUE(has(read("b.html"), "of 124 steps")) << read("b.html").substr(0, 2000);
  EXPECT_EQ(podium({"diff", "a", "a"}).code, 0);
  // What needs them still says so.
  expect_refusal(podium({"report", "a", "--pictures", "--out", "c.html"}), 2,
                 {"\"stripes\"", "the run was made with --plugin"});
}

TEST_F(Plugin, another_file_of_its_name_is_said_when_the_run_goes_on) {
  ASSERT_EQ(train("a", {"--steps", "3"}).code, 0);
  std::string environment = read("a/environment.json");
  const std::size_t at = environment.find("\"sha256\": \"") + 11;
  environment[at] = environment[at] == '0' ? '1' : '0';
  write("a/environment.json", environment);
  const Outcome outcome = train("a");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "is not the file with which the run was made so far"))
      << outcome.err;
}

TEST_F(Plugin, command_lists_what_it_registers_and_checks_operations) {
  const Outcome outcome = podium({"plugin", SQUEEZE_PLUGIN});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"model", "squeeze", "dataset", "stripes", "channel_gate", "checked"})
    EXPECT_TRUE(has(outcome.out, part)) << part << " in\n" << outcome.out;
  const Outcome wrong = podium({"plugin", bad(7)});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(has(wrong.err, "[twice] of f32[3, 5]: the gradient of output 0 for input 0 is"))
      << wrong.err;
}

TEST_F(Plugin, that_cannot_be_loaded_is_refused_with_its_path_and_the_reason) {
  write("text.so", "not a shared object\n");
  const auto refused = [&](const std::string& file, std::vector<std::string> parts) {
    parts.push_back("plugin ");
    expect_refusal(podium({"show", "glyphs", "--plugin", file}), 2, parts);
  };
  refused("no.so", {"no.so: cannot be opened", "No such file"});
  refused(".", {"it is not a file"});
  refused("text.so", {"text.so: the system cannot load it"});
  refused(bad(1), {"bad_plugin_1.so: it was compiled for Podium 9.8.7, and this is"});
  refused(bad(2), {"bad_plugin_2.so: it was compiled against other headers"});
  refused(bad(3), {"bad_plugin_3.so: it has no entry point podium_plugin_build"});
  refused(bad(4), {"bad_plugin_4.so: the system cannot load it", "podium_has_no_such_function"});
  refused(bad(5), {"bad_plugin_5.so: its registration failed: model \"mnist\" is registered"});
  refused(bad(6), {"bad_plugin_6.so: its registration failed: no licence"});
  refused(bad(8), {"bad_plugin_8.so: the system cannot load it: its initialisation threw: no "
                   "licence file"});
}

TEST_F(Plugin, may_be_given_twice_and_beside_another) {
  const Outcome outcome = podium({"show", SQUEEZE_RECIPE, "--plugin", SQUEEZE_PLUGIN, "--plugin",
                                  bad(7), "--plugin", SQUEEZE_PLUGIN});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Plugin, an_unknown_name_lists_those_that_it_registered) {
  const Outcome outcome = with_plugin({"show", "glyphs", "model=sqeeze"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(has(outcome.err, "the nearest is \"squeeze\"")) << outcome.err;
}

// A program that hands its model to run() need not register it.
TEST(OwnModel, of_a_run_is_given_to_the_predictor_where_its_name_is_not_registered) {
  const TestFolder scratch;
  Recipe recipe = parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 40\n"
      "batch = 32\nreplicas = 2\nepochs = 1\n",
      "text");
  recipe.model = "nameless";
  ::podium::RunOptions options;
  options.out = scratch.path() / "run";
  RunObserver nobody;
  const RunResult result = run(recipe, mnist_model, options, nobody);
  const auto set = std::dynamic_pointer_cast<const ImageSet>(load_data(recipe, "").held_out);
  Predictor predictor = Predictor::load(options.out, mnist_model);
  EXPECT_EQ(predictor.recipe().model, "nameless");
  const Tensor logits = predictor.logits(*set);
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < set->labels.size(); ++i)
    correct += ranking(logits.f32().subspan(10 * i, 10))[0] == set->labels[i] ? 1 : 0;
  EXPECT_EQ(correct, result.evaluation.sums.count(kCorrectCount));
  try {
    Predictor::load(options.out);
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("`model` = \"nameless\" is unknown"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace podium::test
