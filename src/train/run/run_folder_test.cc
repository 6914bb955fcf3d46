#include "train/run/run_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "base/numerics/hash.h"
#include "base/scratch_test_util.h"
#include "parallel/failure_record.h"
#include "train/recipe/recipe.h"
#include "train/run/last_failure.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

Checkpoint at_step(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.tensors.push_back({"a", Tensor::scalar(static_cast<float>(step))});
  return checkpoint;
}

std::string hash_line(std::int64_t step) {
  return cat("{\"step\": ", step, ", \"hash\": \"", hash_text(hash_mix(step)), "\"}\n");
}

std::string hash_lines(std::int64_t last) {
  std::string text;
  for (std::int64_t step = 1; step <= last; ++step) text += hash_line(step);
  return text;
}

std::optional<Checkpoint> resume(RunFolder& run,
                                 const std::function<void(const std::string&)>& warn = nullptr) {
  std::optional<Checkpoint> found;
  run.resume([&](const Checkpoint& checkpoint) { found = checkpoint; }, warn);
  return found;
}

// What a trainer does: resumes, appends, saves every `interval` steps.
void train(RunFolder& run, std::int64_t steps, std::int64_t interval) {
  const std::optional<Checkpoint> from = resume(run);
  for (std::int64_t step = from ? from->step + 1 : 1; step <= steps; ++step) {
    run.append_hash(step, hash_mix(static_cast<std::uint64_t>(step)));
    run.append_metrics(step, {{"loss", 1.0 / static_cast<double>(step)},
                              {"accuracy", 0.5},
                              {"images_per_second", 100.0}});
    if (step % interval == 0 || step == steps) run.save(at_step(step), 2);
  }
}

TEST(RunFolder, one_line_a_step_is_written) {
  const TestFolder folder;
  {
    RunFolder run(folder / "runs/a");
    train(run, 1200, 500);
    EXPECT_EQ(file_text(folder / "runs/a/hashes.jsonl"), hash_lines(1200));
  }
  const std::string metrics = file_text(folder / "runs/a/metrics.jsonl");
  EXPECT_TRUE(metrics.starts_with(
      "{\"step\": 1, \"loss\": 1.0, \"accuracy\": 0.5, \"images_per_second\": 100.0}\n"
      "{\"step\": 2, \"loss\": 0.5, "));
}

TEST(RunFolder, metrics_are_json_of_full_precision) {
  const TestFolder folder;
  RunFolder run(folder.path());
  run.append_metrics(3, {{"loss", 0.1f + 0.0},
                         {"accuracy", std::numeric_limits<double>::quiet_NaN()},
                         {"correct", std::int64_t{9930}},
                         {"split \"x\"", std::string_view("te\nst")}});
  run.flush();
  EXPECT_EQ(file_text(folder / "metrics.jsonl"),
            "{\"step\": 3, \"loss\": 0.10000000149011612, \"accuracy\": null, \"correct\": 9930, "
            "\"split \\\"x\\\"\": \"te\\nst\"}\n");
}

TEST(RunFolder, a_resumed_run_reads_like_an_uninterrupted_one) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 100, 40);
    for (std::int64_t step = 101; step < 130; ++step) run.append_hash(step, 1);  // lost steps
  }
  {
    RunFolder run(folder.path());
    train(run, 200, 40);
  }
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(200));
}

TEST(RunFolder, lines_of_a_run_without_a_checkpoint_are_cut_away) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    run.append_hash(1, 1);
  }
  RunFolder run(folder.path());
  train(run, 3, 10);
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(3));
}

TEST(RunFolder, a_torn_last_line_is_no_error) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 20, 10);
  }
  const std::string whole = hash_line(21);
  for (std::size_t torn = 0; torn < whole.size(); ++torn) {
    put_text(folder / "hashes.jsonl", hash_lines(20) + whole.substr(0, torn));
    RunFolder run(folder.path());
    resume(run, [](const std::string& warning) { ADD_FAILURE() << warning; });
    ASSERT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(20));
  }
}

// The lines of steps 1 to `last` but some.
std::string hash_lines_without(const std::set<std::int64_t>& missing, std::int64_t last) {
  std::string text;
  for (std::int64_t step = 1; step <= last; ++step)
    if (!missing.contains(step)) text += hash_line(step);
  return text;
}

TEST(RunFolder, one_damaged_byte_costs_its_line_alone_and_the_file_as_it_was_is_kept) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 12, 12);
  }
  const std::size_t third = 2 * hash_line(1).size(), end = hash_line(3).size();
  int copies = 0;
  // In the braces, the names, the marks between, the step, the hash and the newline.
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{7}, std::size_t{9},
                               std::size_t{14}, std::size_t{25}, end - 2, end - 1}) {
    std::string damaged = hash_lines(12);
    damaged[third + at] = '#';
    put_text(folder / "hashes.jsonl", damaged);
    std::string told;
    {
      RunFolder run(folder.path());
      resume(run, [&](const std::string& warning) { told += warning; });
    }
    // Without its newline a line takes the next one with it.
    const bool joined = hash_lines(12)[third + at] == '\n';
    ASSERT_EQ(
        file_text(folder / "hashes.jsonl"),
        hash_lines_without(joined ? std::set<std::int64_t>{3, 4} : std::set<std::int64_t>{3}, 12))
        << at;
    const std::string copy = cat("hashes.jsonl.damaged-", ++copies);
    ASSERT_EQ(file_text(folder / copy), damaged);
    EXPECT_CONTAINS(told, "hashes.jsonl: line 3 could not be read");
    EXPECT_CONTAINS(told, copy);
  }
}

TEST(RunFolder, a_line_whose_step_is_damaged_is_found_by_those_around_it) {
  struct Case {
    std::int64_t step;  // what line 3 says
    std::set<std::int64_t> missing;
  };
  // Of two lines of one step, nothing says which is right.
  for (const Case& c :
       std::vector<Case>{{9, {3}}, {900, {3}}, {1, {3}}, {0, {3}}, {2, {2, 3}}, {4, {3, 4}}}) {
    const TestFolder folder;
    {
      RunFolder run(folder.path());
      train(run, 12, 12);
    }
    std::string text = hash_lines(2) + hash_line(c.step);
    for (std::int64_t step = 4; step <= 12; ++step) text += hash_line(step);
    put_text(folder / "hashes.jsonl", text);
    RunFolder run(folder.path());
    resume(run);
    EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines_without(c.missing, 12)) << c.step;
    EXPECT_EQ(file_text(folder / "hashes.jsonl.damaged-1"), text) << c.step;
  }
}

TEST(RunFolder, damage_beyond_the_checkpoint_is_cut_away_with_steps_that_are_made_again) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 10, 10);
  }
  put_text(folder / "hashes.jsonl", hash_lines(12) + "garbage\n" + hash_line(14) + "{\"st");
  RunFolder run(folder.path());
  resume(run, [](const std::string& warning) { ADD_FAILURE() << warning; });
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(10));
  EXPECT_FALSE(fs::exists(folder / "hashes.jsonl.damaged-1"));
}

TEST(RunFolder, a_stop_while_a_checkpoint_is_read_changes_no_file) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 10, 10);
  }
  put_text(folder / "hashes.jsonl", hash_lines(12));
  RunFolder run(folder.path());
  const std::atomic<int> request{1};
  EXPECT_THROW(run.resume([](const Checkpoint&) {}, nullptr, StopToken(&request)), Stopped);
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(12));
  EXPECT_TRUE(fs::exists(folder / "checkpoints/step-00000010"));
}

TEST(RunFolder, a_damaged_line_of_the_metrics_costs_no_other) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 12, 12);
  }
  const std::string sound = file_text(folder / "metrics.jsonl");
  const std::size_t second = sound.find('\n') + 1, third = sound.find('\n', second) + 1;
  std::string damaged = sound;
  damaged[second + 15] = '#';  // in the name of a field
  put_text(folder / "metrics.jsonl", damaged);
  RunFolder run(folder.path());
  std::string told;
  resume(run, [&](const std::string& warning) { told += warning; });
  EXPECT_EQ(file_text(folder / "metrics.jsonl"), sound.substr(0, second) + sound.substr(third));
  EXPECT_EQ(file_text(folder / "metrics.jsonl.damaged-1"), damaged);
  EXPECT_CONTAINS(told, "metrics.jsonl: line 2 could not be read");
}

TEST(RunFolder, a_folder_or_a_file_that_is_deleted_moved_or_replaced_is_an_error) {
  const TestFolder folder;
  const auto expect_error = [](RunFolder& run, const std::string& what) {
    const std::string text = user_error(ExitCode::kData, [&] { run.flush(); });
    EXPECT_NE(text.find(what), std::string::npos) << text;
    EXPECT_FALSE(user_error(ExitCode::kData, [&] { run.save({.step = 1}, 1); }).empty());
  };
  {
    RunFolder run(folder / "deleted");
    run.append_metrics(1, {{"loss", 1.0}});
    fs::remove_all(folder / "deleted");
    expect_error(run, "the run's folder was deleted, moved or replaced");
    EXPECT_FALSE(fs::exists(folder / "deleted" / "checkpoints"));
  }
  {
    RunFolder run(folder / "moved");
    fs::rename(folder / "moved", folder / "elsewhere");
    expect_error(run, "the run's folder was deleted, moved or replaced");
  }
  {
    RunFolder run(folder / "cut");
    run.append_metrics(1, {{"loss", 1.0}});
    run.flush();
    fs::remove(folder / "cut" / "metrics.jsonl");
    expect_error(run, "metrics.jsonl: the file was deleted, moved or replaced");
  }
}

TEST(RunFolder, an_evaluation_is_found_by_what_lines_say_not_by_their_spelling) {
  const TestFolder folder;
  put_text(folder / "metrics.jsonl",
           "{\"test_loss\":1,\"test_accuracy\":0.5,\"step\":4}\n"
           "{\"step\": 5, \"loss\": 1, \"accuracy\": 0, \"images_per_second\": 1, \"note\": "
           "\"{\\\"step\\\": 7, \\\"test_accuracy\\\": \"}\n"
           "{\"step\": 6, \"test_accuracy\": oops}\n");
  RunFolder run(folder.path());
  EXPECT_TRUE(run.has_evaluation(4));
  for (const std::int64_t step : {5, 6, 7}) EXPECT_FALSE(run.has_evaluation(step)) << step;
  run.append_metrics(8, {{"test_accuracy", 0.5}, {"test_loss", 1.0}});
  EXPECT_TRUE(run.has_evaluation(8)) << "a line that was not flushed yet";
}

TEST(RunFolder, a_second_process_is_told_who_holds_it) {
  const TestFolder folder;
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder run(folder.path());
    (void)!::write(pipe_ends[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(pipe_ends[0], &byte, 1), 1);
  const std::string text = user_error(ExitCode::kData, [&] { RunFolder run(folder.path()); });
  EXPECT_CONTAINS(text, cat("in use by process ", child));
  EXPECT_CONTAINS(text, "--out");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const RunFolder run(folder.path());  // a killed holder holds nothing
}

TEST(RunFolder, another_recipe_is_refused_with_the_difference) {
  const TestFolder folder;
  RunFolder run(folder.path());
  EXPECT_FALSE(run.recipe().has_value());
  run.adopt_recipe("model = \"mnist\"\nseed = 1\nbatch = 256\n");
  run.adopt_recipe("model = \"mnist\"\nseed = 1\nbatch = 256\n");
  const std::string text = user_error(
      ExitCode::kUsage, [&] { run.adopt_recipe("model = \"mnist\"\nseed = 2\nbatch = 256\n"); });
  EXPECT_CONTAINS(text, "\n- seed = 1\n+ seed = 2\n");
  EXPECT_EQ(text.find("batch"), std::string::npos);
  EXPECT_EQ(run.recipe(), "model = \"mnist\"\nseed = 1\nbatch = 256\n");
}

// An earlier Podium wrote the recipe of its runs with other keys.
TEST(RunFolder, a_recipe_of_an_earlier_podium_is_the_same_if_it_means_the_same) {
  const std::string text =
      to_toml(parse_recipe("model = \"mnist\"\ndata = \"glyphs\"\nbatch = 8\nepochs = 1\n", "a"));
  const std::size_t schedule = text.find("\n[schedule]");
  std::string earlier = text;
  earlier.insert(schedule, "\n[optimizer.filters]\nname = \"same\"\n");
  const TestFolder folder;
  put_text(folder / "recipe.toml", earlier);
  RunFolder run(folder.path());
  run.adopt_recipe(text);
  EXPECT_EQ(run.recipe(), earlier);
  EXPECT_NO_THROW(require_same_recipe({.step = 1, .metadata = {{"recipe", text}}, .tensors = {}},
                                      folder.path()));
  EXPECT_THROW(
      require_same_recipe(
          {.step = 1, .metadata = {{"recipe", text + "\n[[optimizer.group]]\n"}}, .tensors = {}},
          folder.path()),
      UserError);
}

TEST(RunFolder, a_checkpoint_that_is_refused_costs_no_line) {
  const TestFolder folder;
  {
    RunFolder run(folder.path());
    train(run, 12, 10);
  }
  put_text(folder / "hashes.jsonl", hash_lines(15));
  RunFolder run(folder.path());
  EXPECT_THROW(run.resume([](const Checkpoint&) { throw UserError("of another recipe"); }, nullptr),
               UserError);
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(15));
}

TEST(RunFolder, differences_are_lines_in_order) {
  EXPECT_EQ(line_difference("a\nb\nc\n", "a\nx\nc\nd"), "- b\n+ x\n+ d\n");
  EXPECT_EQ(line_difference("", "a"), "+ a\n");
  EXPECT_EQ(line_difference("a\n", "a\n"), "");
}

TEST(RunFolder, starting_afresh_deletes_nothing) {
  const TestFolder folder;
  put_text(folder / "notes.txt", "mine");
  RunFolder run(folder.path());
  for (int i = 1; i <= 2; ++i) {
    run.adopt_recipe("seed = 1\n");
    train(run, 10, 10);
    put_text(folder / "hashes.jsonl.damaged-1", "kept");
    run.start_afresh();
    EXPECT_FALSE(run.recipe().has_value());
    EXPECT_FALSE(resume(run).has_value());
    const fs::path previous = folder / cat("previous-", i);
    EXPECT_EQ(file_text(previous / "hashes.jsonl"), hash_lines(10));
    EXPECT_TRUE(fs::exists(previous / "checkpoints/step-00000010/state.safetensors"));
    EXPECT_EQ(file_text(previous / "hashes.jsonl.damaged-1"), "kept");
  }
  run.start_afresh();  // nothing to move
  EXPECT_FALSE(fs::exists(folder / "previous-3"));
  EXPECT_EQ(file_text(folder / "notes.txt"), "mine");
}

TEST(RunFolder, no_space_for_a_line_is_an_error) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const TestFolder folder;
  fs::create_symlink("/dev/full", folder / "hashes.jsonl");
  RunFolder run(folder.path());
  run.append_hash(1, 1);
  const std::string text = user_error(ExitCode::kData, [&] { run.save(at_step(1), 2); });
  EXPECT_CONTAINS(text, "hashes.jsonl: cannot write: No space left on device; free some space");
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
}

TEST(RunFolder, a_place_that_cannot_be_a_folder_is_an_error) {
  const TestFolder folder;
  put_text(folder / "file", "x");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { RunFolder run(folder / "file"); }),
                  "cannot make this folder: ");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { RunFolder run(folder / "file/a"); }),
                  "cannot make this folder: Not a directory");
}

TEST(RunFolder, lines_reach_the_disk_within_about_a_second) {
  const TestFolder folder;
  RunFolder run(folder.path());
  run.append_hash(1, hash_mix(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  run.append_hash(2, hash_mix(2));
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(2));
}

TEST(RunFolder, killed_at_any_moment_and_resumed_reads_like_uninterrupted) {
  const TestFolder folder;
  std::mt19937 random(3);
  std::int64_t last = 0;
  for (int kill = 0; kill < 40; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        RunFolder run(folder.path());
        train(run, std::numeric_limits<std::int64_t>::max(), 1 + random() % 200);
      } catch (...) {
      }
      ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the run failed";
    // Wherever it was killed, the lines up to the newest checkpoint are there.
    const std::optional<Checkpoint> latest = load_latest(folder.path(), nullptr);
    ASSERT_GE(latest ? latest->step : 0, last);
    last = latest ? latest->step : 0;
    ASSERT_TRUE(file_text(folder / "hashes.jsonl").starts_with(hash_lines(last))) << last;
  }
  RunFolder run(folder.path());
  train(run, last + 50, 30);
  EXPECT_EQ(file_text(folder / "hashes.jsonl"), hash_lines(last + 50));
  std::string metrics = file_text(folder / "metrics.jsonl");
  std::int64_t step = 0;
  for (std::size_t at = 0; at < metrics.size(); at = metrics.find('\n', at) + 1)
    ASSERT_EQ(metrics.find(cat("{\"step\": ", ++step, ","), at), at);
  EXPECT_EQ(step, last + 50);
}

TEST(LastFailure, is_that_of_the_last_start_and_of_the_most_ranks) {
  const TestFolder folder;
  EXPECT_EQ(last_failure(folder.path()), "");
  put_text(
      folder / "failures.jsonl",
      "{\"date\": \"2026-01-01T00:00:01Z\", \"step\": 3, \"failure\": \"old\", \"heard\": 9}\n"
      "{\"date\": \"2026-01-02T00:00:01Z\", \"step\": 5, \"failure\": \"cut off\", \"heard\": 2}\n"
      "{\"date\": \"2026-01-02T00:00:02Z\", \"step\": 5, \"failure\": \"lost\", \"heard\": 4}\n"
      "{\"date\": \"2026-01-0");
  EXPECT_EQ(last_failure(folder.path()), "old");
  put_text(folder / "environment.json", "{\"starts\": [{\"date\": \"2026-01-02T00:00:00Z\"}]}");
  EXPECT_EQ(last_failure(folder.path()), "lost");
  put_text(folder / "environment.json", "{\"starts\": [{\"date\": \"2026-01-03T00:00:00Z\"}]}");
  EXPECT_EQ(last_failure(folder.path()), "");
}

TEST(LastFailure, reads_what_ranks_write) {
  const TestFolder folder;
  record_failure(folder.path().string(), 7, "rank 1 on host \"b\", step 7: a\nb", 3);
  EXPECT_EQ(last_failure(folder.path()), "rank 1 on host \"b\", step 7: a\nb");
  EXPECT_EQ(most_heard(folder.path().string(), 0), 3);
  EXPECT_EQ(most_heard(folder.path().string(), failure_bytes(folder.path().string())), -1);
}

}  // namespace
}  // namespace podium
