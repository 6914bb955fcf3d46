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
