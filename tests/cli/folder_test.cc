// The run's folder: another recipe's, in use, damaged, unwritable; and runs that must not go on.
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

namespace fs = std::filesystem;

class Folder : public CommandLine {
 protected:
  void train(const std::vector<std::string>& more = {}) const {
    const Outcome outcome = podium(train_small("run", more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string state(int step) const {
    return "run/checkpoints/step-0000000" + std::to_string(step) + "/state.safetensors";
  }
};

TEST_F(Folder, another_recipe_is_refused_with_the_difference) {
  train({"--steps", "2"});
  expect_refusal(podium(train_small("run", {"optimizer.learning_rate=0.5"})), 2,
                 {"run", "- learning_rate = 0.01", "+ learning_rate = 0.5", "--out", "--fresh"});
}

TEST_F(Folder, in_use_by_a_running_process_is_refused) {
  const pid_t process = start(train_small("run", {"epochs=10000"}));
  EXPECT_TRUE(wait_for_output(process, "run/metrics.jsonl"));
  expect_refusal(podium(train_small("run", {"epochs=10000"})), 3, {"run", std::to_string(process)});
  kill(process, SIGTERM);
  EXPECT_EQ(wait_for(process).code, 75);
}

TEST_F(Folder, damaged_newest_checkpoint_is_named_and_the_previous_one_used) {
  train({"run.checkpoint_every_steps=3", "--steps", "6"});
  std::string bytes = read(state(6));
  ASSERT_GT(bytes.size(), 1000u);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write(state(6), bytes);
  const Outcome outcome =
      podium(train_small("run", {"run.checkpoint_every_steps=3", "--steps", "7"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("step-00000006"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("checkpoint of step 3"), std::string::npos) << outcome.err;
}

TEST_F(Folder, all_checkpoints_truncated_is_refused) {
  train({"run.checkpoint_every_steps=3", "--steps", "6"});
  for (const int step : {3, 6}) fs::resize_file(path(state(step)), 100);
  expect_refusal(podium(train_small("run", {"run.checkpoint_every_steps=3", "--steps", "7"})), 3,
                 {"step-00000006", "step-00000003"});
  expect_refusal(podium({"eval", "run"}), 3, {"step-00000006"});
}

TEST_F(Folder, checkpoint_of_another_version_is_refused) {
  train({"--steps", "6"});
  const std::string place = "run/checkpoints/step-00000006/checkpoint.json";
  std::string text = read(place);
  const std::size_t at = text.find("\"format_version\": 1");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 19, "\"format_version\": 9");
  write(place, text);
  // Its text stands under a checksum, so a version that was edited by hand counts as damage.
  expect_refusal(podium(train_small("run")), 3, {"step-00000006"});
}

TEST_F(Folder, checkpoint_of_another_recipe_is_refused) {
  train({"--steps", "6"});
  ASSERT_EQ(podium(train_small("other", {"--steps", "6", "optimizer.name=sgd"})).code, 0);
  fs::remove_all(path("other/checkpoints"));
  fs::copy(path("run/checkpoints"), path("other/checkpoints"), fs::copy_options::recursive);
  expect_refusal(podium({"eval", "other"}), 3, {"recipe"});
}

TEST_F(Folder, that_is_no_runs_folder_is_refused) {
  fs::create_directory(path("empty"));
  expect_refusal(podium({"eval", "empty"}), 3, {"empty", "recipe.toml", "podium train"});
  expect_refusal(podium({"eval", "none"}), 3, {"none"});
  expect_refusal(podium({"diff", "empty", "none"}), 3, {"empty", "recipe.toml"});
}

TEST_F(Folder, that_cannot_be_written_is_refused) {
  write("file", "x");
  expect_refusal(podium(train_small("file/run")), 3, {"file"});
  EXPECT_EQ(read("file"), "x");
}

TEST_F(Folder, that_is_a_file_or_holds_the_current_folder_is_a_usage_error) {
  write("file", "x");
  expect_refusal(podium(train_small("file")), 2, {"--out file: is a file", "needs a folder"});
  EXPECT_EQ(read("file"), "x");
  const std::string here = fs::canonical(path("")).string();
  for (const std::string& out : {std::string("."), std::string("./"), std::string("sub/.."), here})
    expect_refusal(podium(train_small(out)), 2,
                   {"--out " + out + ": is the current folder", "--out runs/a"});
  for (const std::string out : {"/", "..", "../"})
    expect_refusal(podium(train_small(out)), 2,
                   {"--out " + out + ": is a folder above the current one"});
  expect_refusal(podium({"band", "glyphs", "--seeds", "1", "--out", "file"}), 2,
                 {"file: is a file"});
  EXPECT_FALSE(fs::exists(path("recipe.toml")));
}

TEST_F(Folder, file_where_the_checkpoints_belong_is_refused_and_stays) {
  train({"--steps", "2"});
  fs::remove_all(path("run/checkpoints"));
  write("run/checkpoints", "x");
  const std::vector<std::string> parts = {"run/checkpoints", "a file is in the place of a folder"};
  expect_refusal(podium(train_small("run")), 3, parts);
  expect_refusal(podium({"eval", "run"}), 3, parts);
  EXPECT_EQ(read("run/checkpoints"), "x");
}

TEST_F(Folder, file_where_a_checkpoint_belongs_is_named) {
  train({"run.checkpoint_every_steps=3", "--steps", "6"});
  fs::remove_all(path("run/checkpoints/step-00000006"));
  write("run/checkpoints/step-00000006", "x");
  const Outcome outcome =
      podium(train_small("run", {"run.checkpoint_every_steps=3", "--steps", "7"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"step-00000006: is a file, not the folder of a checkpoint", "checkpoint of step 3"})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << "\n" << outcome.err;
  EXPECT_EQ(read("run/checkpoints/damaged-step-00000006"), "x");
}

TEST_F(Folder, full_disk_ends_the_run_and_leaves_the_previous_checkpoint) {
  train({"run.checkpoint_every_steps=3", "--steps", "6"});
  const std::string before = read(state(6));
  expect_refusal(
      podium(train_small("run", {"run.checkpoint_every_steps=3"}), {.most_file_bytes = 200000}), 3,
      {"run", "cannot write"});
  EXPECT_EQ(read(state(6)), before);
  train({"run.checkpoint_every_steps=3"});
}

TEST_F(Folder, too_little_memory_is_refused_before_the_first_step) {
  expect_refusal(podium(train_small("run", {"--memory-limit", "1KiB"})), 4, {"1.00 KiB"});
  EXPECT_FALSE(fs::exists(path("run")));
  // The program counts, and has another size in each build.
  const std::string one =
      podium(train_small("run", {"--workers", "1", "--memory-limit", "1KiB"})).err;
  const std::string limit = cat(std::stoi(one.substr(one.find(" needs ") + 7)) + 2, "MiB");
  const Outcome outcome = podium(train_small("run", {"--workers", "4", "--memory-limit", limit}));
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.err.find("--workers "), std::string::npos) << outcome.err;
}

TEST_F(Folder, replica_of_one_image_is_refused_with_the_recipes_numbers) {
  expect_refusal(
      podium(train_small("run", {"batch=4"})), 2,
      {"recipe glyphs", "batch = 4", "replicas = 4", "1 image", "batch_norm", "fewer replicas"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Folder, threads_that_the_system_does_not_start_are_refused) {
  for (const char* flag : {"--threads", "--workers"}) {
    // UCX, which some MPIs bring, complains when it is loaded.
    expect_refusal(
        podium(train_small("run", {flag, "2"}), {.environment = {{"UCX_LOG_LEVEL", "fatal"}},
                                                 .thread_stack_bytes = std::uint64_t{1} << 46}),
        4, {"no further thread", flag});
  }
}

TEST_F(Folder, pipe_that_nobody_reads_does_not_end_a_run) {
  EXPECT_EQ(podium(train_small("run"), {.nobody_reads = true}).code, 0);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-00000016")));
  EXPECT_EQ(podium({"recipes", "--keys"}, {.nobody_reads = true}).code, 0);
}

TEST_F(Folder, checkpoint_of_another_recipe_is_refused_and_nothing_lost) {
  train({"--steps", "3"});
  const std::string hashes = read("run/hashes.jsonl"), metrics = read("run/metrics.jsonl");
  fs::remove(path("run/recipe.toml"));  // as where a move of the run's files is cut short
  expect_refusal(
      podium(train_small("run", {"optimizer.learning_rate=0.5"})), 3,
      {"run/checkpoints", "step 3", "- learning_rate = 0.01", "+ learning_rate = 0.5", "--fresh"});
  expect_refusal(podium({"eval", "run"}), 3, {"run/checkpoints", "another recipe"});
  EXPECT_EQ(read("run/hashes.jsonl"), hashes);
  EXPECT_EQ(read("run/metrics.jsonl"), metrics);
}

TEST_F(Folder, parameters_that_are_not_finite_are_not_saved) {
  expect_refusal(
      podium(train_small("run", {"optimizer.name=sgd", "optimizer.learning_rate=1e10",
                                 "optimizer.weight_decay=1e38", "schedule.name=constant",
                                 "run.checkpoint_every_steps=1"})),
      5, {"step 1", "conv1", "not finite", "No checkpoint had been saved in run", "--fresh"});
  EXPECT_FALSE(fs::exists(path("run/checkpoints")));
}

TEST_F(Folder, run_that_ends_with_an_evaluation_that_is_not_finite_does_not_end_well) {
  for (int again = 0; again < 2; ++again)
    expect_refusal(podium(train_small("run", {"optimizer.name=sgd", "optimizer.learning_rate=1e20",
                                              "schedule.name=constant", "--steps", "1"})),
                   5, {"step 1", "evaluation", "not finite"});
}

TEST_F(Folder, loss_that_is_not_finite_ends_the_run_with_the_step_and_the_operation) {
  const Outcome outcome =
      podium(train_small("run", {"optimizer.name=sgd", "optimizer.learning_rate=1e38",
                                 "schedule.name=constant", "run.checkpoint_every_steps=1"}));
  expect_refusal(outcome, 5, {"step ", "not finite", "operation", "learning_rate"});
  EXPECT_TRUE(fs::exists(path("run/checkpoints")));
}

}  // namespace
}  // namespace podium::test
