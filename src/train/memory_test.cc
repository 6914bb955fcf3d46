#include "train/memory.h"

#include <gtest/gtest.h>

#include "nn/models.h"

namespace podium {
namespace {

std::string refusal(const Trainer& trainer, const RunData& data, std::int64_t limit,
                    std::int64_t usable) {
  try {
    check_memory(trainer, find_model("mnist").build, data, limit, usable);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    return error.what();
  }
  return "accepted";
}

TEST(Memory, too_little_of_the_machine_or_of_a_limit_is_refused_with_a_setting_that_fits) {
  const Recipe recipe = parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 512\ntest_examples = 10\n"
      "batch = 256\nreplicas = 2\nepochs = 1\n",
      "small");
  const RunData data = load_data(recipe, "");
  const Trainer trainer(recipe, find_model("mnist").build, data.train, data.held_out,
                        {.workers = 2});
  const std::int64_t needed = trainer.memory_use().total();
  EXPECT_GT(usable_memory_bytes(), 0);
  EXPECT_EQ(refusal(trainer, data, 0, needed), "accepted");
  EXPECT_EQ(refusal(trainer, data, needed, 1), "accepted") << "the user's word counts";
  EXPECT_NE(refusal(trainer, data, 0, needed - 1).find("this process may take"), std::string::npos);
  EXPECT_NE(refusal(trainer, data, 0, needed - 1).find("--workers 1 fits"), std::string::npos)
      << refusal(trainer, data, 0, needed - 1);
  EXPECT_NE(refusal(trainer, data, needed - 1, 1).find("the limit is"), std::string::npos);
}

// What is asked before anything is loaded is what the loaded run would be refused for.
TEST(Memory, the_check_before_loading_counts_what_the_run_will_need) {
  for (const std::int64_t validation : {0, 100}) {
    Recipe recipe = parse_recipe(
        "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 700\ntest_examples = 300\n"
        "batch = 32\nreplicas = 2\nepochs = 1\n",
        "small");
    recipe.validation = validation;
    const Model& model = find_model("mnist").build;
    const Placement placement{.workers = 2};
    const RunData data = load_data(recipe, "");
    const std::int64_t needed =
        Trainer(recipe, model, data.train, data.held_out, placement).memory_use().total();
    EXPECT_NO_THROW(check_memory_before_loading(recipe, model, placement, needed));
    try {
      check_memory_before_loading(recipe, model, placement, needed - 1);
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kMemory);
      EXPECT_NE(std::string(error.what()).find("--workers 1 fits"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Memory, data_that_do_not_fit_are_refused_before_they_are_loaded) {
  Recipe recipe = parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 10000000\n"
      "batch = 32\nepochs = 1\n",
      "large");
  const Model& model = find_model("mnist").build;
  const std::int64_t limit = std::int64_t{1} << 30;
  for (const bool of_machine : {false, true}) {
    try {
      check_memory_before_loading(recipe, model, {}, of_machine ? 0 : limit,
                                  of_machine ? limit : limit * 100);
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kMemory);
      for (const char* part : {"7.35 GiB of it for its data alone", "1.00 GiB", "fewer examples"})
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(Memory, an_evaluation_batch_that_is_too_large_is_the_first_thing_to_change) {
  const Recipe recipe = parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 2000\n"
      "batch = 16\nepochs = 1\n[evaluation]\nbatch = 2000\n",
      "small");
  const RunData data = load_data(recipe, "");
  const Trainer trainer(recipe, find_model("mnist").build, data.train, data.held_out,
                        {.workers = 1});
  const std::string text = refusal(trainer, data, 0, trainer.memory_use().total() / 2);
  EXPECT_NE(text.find("evaluation.batch=0 fits (the same result)"), std::string::npos) << text;
}

}  // namespace
}  // namespace podium
