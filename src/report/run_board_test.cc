#include "report/run_board.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/scratch_test_util.h"
#include "nn/models.h"
#include "report/event.pb.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// The values of the folder's event files in the order of their names: by tag, by step.
std::map<std::string, std::map<std::int64_t, float>> scalars_in(const fs::path& folder) {
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.insert(entry.path());
  std::map<std::string, std::map<std::int64_t, float>> found;
  for (const fs::path& file : files) {
    const std::string text = file_text(file);
    // Of a record: 8 bytes of length, 4 of its checksum, the data, 4 of their checksum.
    for (std::size_t at = 0; at < text.size();) {
      std::uint64_t length = 0;
      std::memcpy(&length, text.data() + at, sizeof length);
      events::Event event;
      EXPECT_TRUE(event.ParseFromString(text.substr(at + 12, length))) << file;
      for (const auto& value : event.summary().value())
        EXPECT_TRUE(found[value.tag()].emplace(event.step(), value.simple_value()).second)
            << value.tag() << " is doubled at step " << event.step();
      at += 12 + length + 4;
    }
  }
  return found;
}

// Notes what run() tells, to hold the board against.
class Notes : public RunObserver {
 public:
  void measured(const RunMetrics& metrics) override {
    losses[metrics.step] = static_cast<float>(metrics.loss);
  }
  void evaluated(const Trainer&, const EvaluationResult& result) override {
    accuracies[result.step] = static_cast<float>(result.accuracy());
  }
  std::map<std::int64_t, float> losses, accuracies;
};

Recipe small_recipe() {
  return parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 20\n"
      "batch = 16\nepochs = 2\n[run]\nlog_every_steps = 2\n",
      "small");
}

RunOptions options_in(const TestFolder& folder) {
  RunOptions options;
  options.out = folder / "run";
  options.placement.workers = 1;
  return options;
}

TEST(RunBoard, a_program_that_calls_run_gets_the_curves_and_its_own_observer_hears_all) {
  const TestFolder folder;
  RunOptions options = options_in(folder);
  Notes notes;
  options.stop_steps = 4;
  for (const int steps : {4, 8}) {  // the second start goes on
    options.stop_steps = steps;
    RunBoard board(options.out);
    Observers both{&board, &notes};
    run(small_recipe(), find_model("mnist").build, options, both);
  }
  const auto found = scalars_in(options.out / "tensorboard");
  EXPECT_EQ(notes.losses.size(), 4U);
  EXPECT_EQ(notes.accuracies.size(), 2U);
  EXPECT_EQ(found.at("train/loss"), notes.losses);
  EXPECT_EQ(found.at("test/accuracy"), notes.accuracies);
  for (const char* tag : {"train/accuracy", "train/learning_rate", "speed/steps_per_second",
                          "speed/images_per_second", "speed/input_wait_percent"})
    EXPECT_EQ(found.at(tag).size(), 4U) << tag;
}

TEST(RunBoard, a_run_that_was_at_its_end_adds_nothing) {
  const TestFolder folder;
  const RunOptions options = options_in(folder);
  for (int start = 0; start < 2; ++start) {
    RunBoard board(options.out);
    run(small_recipe(), find_model("mnist").build, options, board);
  }
  const fs::directory_iterator files(options.out / "tensorboard");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(RunBoard, a_held_out_part_of_the_training_set_is_called_validation) {
  const TestFolder folder;
  const RunOptions options = options_in(folder);
  Recipe recipe = small_recipe();
  recipe.validation = 16;
  RunBoard board(options.out);
  run(recipe, find_model("mnist").build, options, board);
  const auto found = scalars_in(options.out / "tensorboard");
  EXPECT_TRUE(found.contains("validation/accuracy"));
  EXPECT_FALSE(found.contains("test/accuracy"));
}

}  // namespace
}  // namespace podium
