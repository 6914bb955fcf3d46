#include "report/trackers/prometheus.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "report/trackers/small_run_test_util.h"

namespace podium {
namespace {

// Looks at the file in the middle of the run.
class Look : public CurveNotes {
 public:
  explicit Look(std::filesystem::path file) : file_(std::move(file)) {}
  bool ends_run(const Trainer& trainer) override {
    if (trainer.steps_done() == 4) middle = file_text(file_);
    return false;
  }
  std::string middle;

 private:
  const std::filesystem::path file_;
};

TEST(PrometheusFile, has_the_newest_values_of_a_run) {
  const TestFolder folder;
  const std::filesystem::path file = folder / "digits.prom";
  const RunOptions options = small_run_options(folder);
  PrometheusFile prometheus(file, options.out);
  Look look(file);
  Observers both{&prometheus, &look};
  const Recipe recipe = small_run_recipe();
  const RunResult result = run(recipe, find_model(recipe.model).build, options, both);
  prometheus.finish();
  const auto line = [](const std::string& text, const std::string& name) {
    const std::string begin = "\n" + name + "{run=\"run\",recipe=\"small\"} ";
    const std::size_t at = ("\n" + text).find(begin);
    if (at == std::string::npos) return std::string("none");
    const std::size_t from = at - 1 + begin.size();
    return text.substr(from, text.find('\n', from) - from);
  };
  EXPECT_EQ(line(look.middle, "podium_running"), "1");
  EXPECT_EQ(line(look.middle, "podium_step"), "4");
  EXPECT_EQ(line(look.middle, "podium_last_step"), "8");
  const std::string end = file_text(file);
  EXPECT_EQ(line(end, "podium_running"), "0");
  EXPECT_EQ(line(end, "podium_step"), "8");
  EXPECT_EQ(std::stod(line(end, "podium_train_loss")), look.losses.at(8));
  EXPECT_EQ(std::stod(line(end, "podium_test_accuracy")), result.evaluation.metric());
  EXPECT_GT(std::stod(line(end, "podium_speed_images_per_second")), 0);
  EXPECT_GT(std::stod(line(end, "podium_updated_seconds")), 1.7e9);
  EXPECT_NE(end.find("# TYPE podium_train_loss gauge\n"), std::string::npos);
}

TEST(PrometheusFile, names_a_run_by_its_folder_with_and_without_a_slash) {
  EXPECT_EQ(run_name_of("runs/a"), "a");
  EXPECT_EQ(run_name_of("runs/a/"), "a");
}

TEST(PrometheusFile, refuses_names_that_its_collector_does_not_read) {
  const TestFolder folder;
  EXPECT_THROW(PrometheusFile(folder / "digits.txt", folder / "run"), UserError);
  EXPECT_THROW(PrometheusFile(folder / "none" / "digits.prom", folder / "run"), UserError);
}

}  // namespace
}  // namespace podium
