#include "report/trackers/run_board.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/scratch_test_util.h"
#include "nn/models.h"
#include "report/trackers/event.pb.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

// Calls visit(step, value) for each value of the folder's event files in the order of their names.
void visit_values(const fs::path& folder,
                  const std::function<void(std::int64_t, const events::Summary::Value&)>& visit) {
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.insert(entry.path());
  for (const fs::path& file : files) {
    const std::string text = file_text(file);
    // Of a record: 8 bytes of length, 4 of its checksum, the data, 4 of their checksum.
    for (std::size_t at = 0; at < text.size();) {
      std::uint64_t length = 0;
      std::memcpy(&length, text.data() + at, sizeof length);
      events::Event event;
      EXPECT_TRUE(event.ParseFromString(text.substr(at + 12, length))) << file;
      for (const auto& value : event.summary().value()) visit(event.step(), value);
      at += 12 + length + 4;
    }
  }
}

// The scalars: by tag, by step.
std::map<std::string, std::map<std::int64_t, float>> scalars_in(const fs::path& folder) {
  std::map<std::string, std::map<std::int64_t, float>> found;
  visit_values(folder, [&](std::int64_t step, const events::Summary::Value& value) {
    if (!value.has_simple_value()) return;
    EXPECT_TRUE(found[value.tag()].emplace(step, value.simple_value()).second)
        << value.tag() << " is doubled at step " << step;
  });
  return found;
}

// Notes what run() tells, to hold the board against.
class Notes : public RunObserver {
 public:
  void measured(const RunMetrics& metrics) override {
    losses[metrics.step] = static_cast<float>(metrics.loss);
  }
  void evaluated(const Trainer&, const EvaluationResult& result) override {
    accuracies[result.step] = static_cast<float>(result.metric());
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

TEST(RunBoard, shows_the_worst_mistakes_and_how_each_parameter_is_spread) {
  const TestFolder folder;
  const RunOptions options = options_in(folder);
  Recipe recipe = small_recipe();
  recipe.histograms = true;
  {
    RunBoard board(options.out);
    run(recipe, find_model("mnist").build, options, board);
    board.finish();
  }
  std::map<std::string, std::set<std::int64_t>> steps;  // by tag
  visit_values(options.out / "tensorboard",
               [&](std::int64_t step, const events::Summary::Value& value) {
                 steps[value.tag()].insert(step);
                 if (value.tag() == "parameters/conv1.weight") {
                   EXPECT_EQ(value.histo().num(), 54);
                 }
                 if (value.tag() == "mistakes/1") {
                   EXPECT_EQ(value.image().encoded_image_string().substr(1, 3), "PNG");
                 }
                 if (value.tag() == "_hparams_/session_start_info") {
                   events::HparamsData data;
                   EXPECT_TRUE(data.ParseFromString(value.metadata().plugin_data().content()));
                   const auto& hparams = data.session_start_info().hparams();
                   EXPECT_EQ(hparams.at("batch").number_value(), 16);
                   EXPECT_EQ(hparams.at("model").string_value(), "mnist");
                   EXPECT_FALSE(hparams.contains("run.log_every_steps")) << "decides no result";
                 }
               });
  for (const char* tag : {"parameters/conv1.weight", "parameters/fc2.weight"})
    EXPECT_EQ(steps[tag], (std::set<std::int64_t>{4, 8})) << tag;
  for (const char* tag :
       {"mistakes/1", "mistakes", "_hparams_/session_start_info", "_hparams_/session_end_info"})
    EXPECT_TRUE(steps.contains(tag)) << tag;
}

TEST(RunBoard, writes_no_histograms_unless_they_are_asked_for) {
  const TestFolder folder;
  const RunOptions options = options_in(folder);
  RunBoard board(options.out);
  run(small_recipe(), find_model("mnist").build, options, board);
  visit_values(options.out / "tensorboard", [](std::int64_t, const events::Summary::Value& value) {
    EXPECT_FALSE(value.has_histo()) << value.tag();
    EXPECT_NE(value.tag(), "_hparams_/session_end_info") << "finish() says so";
  });
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
