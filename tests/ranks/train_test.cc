// podium train under mpirun: the bits of one process however many ranks there are, a folder that
// one of them writes, and failures that end the run in bounded time and lose no checkpoint.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/ranks/mpirun_test_util.h"

namespace podium::test {
namespace {

class TrainUnderMpirun : public MpirunTest {
 protected:
  // A short run on drawn digits, 8 replicas.
  std::vector<std::string> train(const std::string& out, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {PODIUM_PROGRAM,
                                      "train",
                                      "glyphs",
                                      "train_examples=960",
                                      "test_examples=100",
                                      "batch=64",
                                      "replicas=8",
                                      "epochs=4",
                                      "run.hash_every_steps=1",
                                      "--out",
                                      (folder_ / out).string(),
                                      "--rank-timeout",
                                      "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // A longer one, to be disturbed.
  std::vector<std::string> train_long(const std::string& out) {
    return train(out,
                 {"epochs=4000", "run.checkpoint_every_steps=20", "evaluation.every_epochs=0"});
  }
  std::string text(const std::string& file) { return file_text(folder_ / file); }

  // The process that is rank `rank` of the last run.
  pid_t process_of(int rank) {
    for (const pid_t process : marked()) {
      std::ifstream name("/proc/" + std::to_string(process) + "/comm");
      std::string comm;
      std::getline(name, comm);
      if (comm != "podium") continue;  // mpirun, or a rank's guard
      std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
      std::string variable;
      while (std::getline(file, variable, '\0'))
        for (const char* known : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
          if (variable == known + std::to_string(rank)) return process;
    }
    return -1;
  }
  bool wait_for_checkpoint(const std::string& out) {
    for (int i = 0; i < 1000; ++i) {
      if (std::filesystem::exists(folder_ / (out + "/checkpoints/step-00000040"))) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
};

TEST_F(TrainUnderMpirun, any_number_of_ranks_gives_the_run_of_one_process) {
  ASSERT_EQ(run_program(0, train("alone", {"--workers", "1"})).code, 0);
  const auto evaluations = [&](const std::string& run) {
    std::string kept, line;
    std::ifstream file(folder_ / (run + "/metrics.jsonl"));
    while (std::getline(file, line))
      if (line.find("test_correct") != std::string::npos) kept += line + "\n";
    return kept;
  };
  EXPECT_NE(text("alone/hashes.jsonl"), "");
  for (const auto& [ranks, workers] :
       std::vector<std::pair<int, int>>{{2, 1}, {3, 1}, {2, 2}, {8, 1}}) {
    const std::string out = "ranks" + std::to_string(ranks) + "x" + std::to_string(workers);
    const Outcome outcome =
        run_program(ranks, train(out, {"--workers", std::to_string(workers), "--json"}));
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_EQ(count(outcome.out, "\"parameter_hash\""), 1) << "one rank reports:\n" << outcome.out;
    EXPECT_EQ(text(out + "/hashes.jsonl"), text("alone/hashes.jsonl")) << out;
    EXPECT_EQ(evaluations(out), evaluations("alone")) << out;
    EXPECT_EQ(outcome.left, 0);
  }
}

TEST_F(TrainUnderMpirun, ranks_with_other_vector_targets_give_the_same_run) {
  ASSERT_EQ(run_program(0, train("alone")).code, 0);
  // Each rank has another one than the next, of those that this machine offers.
  std::string targets;
  for (const char* target : {"avx2", "avx512", "neon"})
    if (run_program(0, {PODIUM_PROGRAM, "devices"}, {{"PODIUM_VECTOR_TARGET", target}}).code == 0)
      targets += std::string(" ") + target;
  std::string command = "set --" + targets +
                        "; shift $(( ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % $# )); "
                        "export PODIUM_VECTOR_TARGET=$1; exec";
  for (const std::string& word : train("mixed")) command += " " + word;
  const Outcome outcome = run_program(4, {"/bin/sh", "-c", command});
  EXPECT_EQ(outcome.code, 0) << targets << "\n" << outcome.out;
  EXPECT_EQ(text("mixed/hashes.jsonl"), text("alone/hashes.jsonl")) << targets;
}

TEST_F(TrainUnderMpirun, a_run_goes_on_with_another_number_of_ranks) {
  ASSERT_EQ(run_program(0, train("alone")).code, 0);
  for (const auto& [ranks, steps] :
       std::vector<std::pair<int, std::string>>{{3, "20"}, {0, "35"}, {2, "50"}, {5, "60"}})
    EXPECT_EQ(run_program(ranks, train("moved", {"--steps", steps})).code, 0) << ranks;
  EXPECT_EQ(text("moved/hashes.jsonl"), text("alone/hashes.jsonl"));
}

TEST_F(TrainUnderMpirun, a_rank_that_is_killed_or_stopped_ends_the_run_and_leaves_the_checkpoint) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    for (const int rank : {0, 2}) {
      const std::string out = "run" + std::to_string(signal) + "-" + std::to_string(rank);
      const pid_t launcher = start_program(3, train_long(out));
      ASSERT_TRUE(wait_for_checkpoint(out));
      const pid_t process = process_of(rank);
      ASSERT_GT(process, 0);
      const auto struck = Clock::now();
      kill(process, signal);
      const Outcome outcome = wait_for(launcher);
      EXPECT_NE(outcome.code, 0);
      EXPECT_LT(seconds_since(struck), kTimeout + kMore) << outcome.out;
      EXPECT_EQ(count(outcome.out, "podium: rank " + std::to_string(rank) + " on host "), 1)
          << outcome.out;
      EXPECT_EQ(outcome.left, 0);
      // The same command goes on, here with another number of ranks, for some steps more.
      std::vector<std::string> again = train_long(out);
      again.insert(again.end(), {"--steps", "100000", "--json"});
      const std::size_t before = text(out + "/hashes.jsonl").size();
      const pid_t next = start_program(2, again);
      for (int i = 0; i < 500 && text(out + "/hashes.jsonl").size() <= before; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      kill(process_of(0), SIGTERM);
      const Outcome resumed = wait_for(next);
      EXPECT_EQ(resumed.code, 75) << resumed.out;
      EXPECT_EQ(count(resumed.out, "the same command resumes the run"), 1) << resumed.out;
    }
  }
}

TEST_F(TrainUnderMpirun, the_only_rank_saves_and_stops_when_its_launcher_is_killed) {
  const pid_t launcher = start_program(1, train_long("one"));
  ASSERT_TRUE(wait_for_checkpoint("one"));
  kill(launcher, SIGKILL);
  const auto struck = Clock::now();
  while (!marked().empty() && seconds_since(struck) < kMore)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Outcome outcome = wait_for(launcher);
  EXPECT_EQ(outcome.left, 0) << outcome.out;
  // Its words are lost with the launcher. The last step is in the last checkpoint.
  const auto steps = std::to_string(count(text("one/hashes.jsonl"), "\n"));
  EXPECT_TRUE(std::filesystem::exists(
      folder_ / ("one/checkpoints/step-" + std::string(8 - steps.size(), '0') + steps)))
      << steps;
}

// How many kills: PODIUM_KILLS in the environment, 3 otherwise; PODIUM_KILL_SEED draws other
// moments. scripts/check-kills.sh makes 200.
TEST_F(TrainUnderMpirun, killed_and_resumed_in_any_layout_a_run_ends_as_if_undisturbed) {
  const auto number_from = [](const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  const std::vector<std::string> more = {"run.checkpoint_every_steps=3", "epochs=8"};
  const auto begin = Clock::now();
  ASSERT_EQ(run_program(2, train("alone", more)).code, 0);
  const double whole = seconds_since(begin);
  const std::string hashes = text("alone/hashes.jsonl");
  const std::vector<std::pair<int, int>> layouts = {{2, 1}, {1, 1}, {3, 1}, {2, 2},
                                                    {1, 2}, {8, 1}, {4, 2}, {5, 1}};
  std::mt19937_64 random(static_cast<std::uint64_t>(number_from("PODIUM_KILL_SEED", 1)));
  const auto part = [&] { return static_cast<double>(random() % 1000) / 1000; };
  const int wanted = number_from("PODIUM_KILLS", 3);
  int kills = 0, lives = 0, of_ranks = 0, resumed = 0;
  std::string history;
  for (std::size_t start = 0; kills < wanted || lives == 0; ++start) {
    ASSERT_LT(start, 20u * static_cast<std::size_t>(wanted) + 20) << "nothing is killed in time";
    const auto [ranks, workers] = layouts[start % layouts.size()];
    const std::string out = "life" + std::to_string(lives);
    resumed += std::filesystem::exists(folder_ / out / "checkpoints") ? 1 : 0;
    std::vector<std::string> words = train(out, more);
    words.insert(words.end(), {"--workers", std::to_string(workers)});
    const pid_t launcher = start_program(ranks, words);
    history += std::to_string(ranks) + "x" + std::to_string(workers) + " ";
    if (kills < wanted) {
      // The launcher, or one of the ranks, which then is the run's end.
      std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * whole * part()));
      const int rank = static_cast<int>(random() % static_cast<std::uint64_t>(ranks + 1));
      const pid_t victim = rank == ranks ? launcher : process_of(rank);
      if (victim > 0) kill(victim, SIGKILL);
      of_ranks += victim > 0 && rank < ranks ? 1 : 0;
      // Ranks find out that their launcher is gone.
      const auto struck = Clock::now();
      while (victim == launcher && !marked().empty() && seconds_since(struck) < kTimeout + kMore)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const Outcome outcome = wait_for(launcher);
    EXPECT_EQ(outcome.left, 0) << history << outcome.out;
    if (outcome.code != 0) {
      ++kills;
      ASSERT_LE(kills, wanted) << history << outcome.out;
      continue;
    }
    ASSERT_EQ(text(out + "/hashes.jsonl"), hashes) << history;
    ++lives;
    history.clear();
  }
  std::printf("%d kills, %d of them of a rank, in %d whole runs of 120 steps, %d starts resumed\n",
              kills, of_ranks, lives, resumed);
}

TEST_F(TrainUnderMpirun, a_trace_holds_the_steps_and_messages_of_all_ranks) {
  const std::string trace = (folder_ / "trace.json").string();
  ASSERT_EQ(run_program(0, train("plain")).code, 0);
  ASSERT_EQ(run_program(2, train("traced", {"--trace", trace})).code, 0);
  EXPECT_EQ(text("traced/hashes.jsonl"), text("plain/hashes.jsonl"));
  const std::string all = file_text(trace);
  EXPECT_EQ(all.rfind("{\"displayTimeUnit\"", 0), 0u);
  EXPECT_EQ(all.substr(all.size() - 5), "}\n]}\n");
  for (const char* rank : {"0", "1"}) {
    for (const char* span : {"step 3", "replica 7", "replica 0", "gradients 0", "parameters 0",
                             "sum bucket 0", "update bucket 0", "evaluation", "checkpoint"}) {
      if (span == std::string("replica ") + (*rank == '0' ? "7" : "0")) continue;  // the other's
      EXPECT_NE(all.find(std::string("\"name\": \"") + span + "\", \"pid\": " + rank),
                std::string::npos)
          << span << " of rank " << rank;
    }
  }
  const Outcome refused = run_program(2, train("more", {"--trace", "/nowhere/trace.json"}));
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.out.find("/nowhere"), std::string::npos) << refused.out;
}

TEST_F(TrainUnderMpirun, ranks_with_another_recipe_are_refused_before_the_first_step) {
  // The seed is the rank's number.
  const std::vector<std::string> words = train("differ");
  std::string command = "exec";
  for (const std::string& word : words) command += " " + word;
  const Outcome outcome =
      run_program(2, {"/bin/sh", "-c", command + " seed=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "has a different recipe than rank 0 on host"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "seed = 1"), 1) << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "differ"));
}

TEST_F(TrainUnderMpirun, more_ranks_than_replicas_are_refused) {
  const Outcome outcome = run_program(3, train("many", {"replicas=2"}));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "a run of 2 replicas has at most as many ranks, not 3"), 1)
      << outcome.out;
}

TEST_F(TrainUnderMpirun, too_little_memory_is_refused_with_a_setting_that_fits_and_then_does) {
  const auto with = [&](const std::string& workers, const std::string& limit) {
    return run_program(2, train("small", {"--workers", workers, "--memory-limit", limit}));
  };
  // The program counts, and has another size in each build.
  const std::string one = with("1", "1KiB").out;
  const std::string limit = std::to_string(std::stoi(one.substr(one.find(" needs ") + 7)) + 2);
  const Outcome refused = with("3", limit + "MiB");
  EXPECT_EQ(refused.code, 4) << refused.out;
  EXPECT_EQ(
      count(refused.out, "; the limit is " + limit + " MiB; --workers 1 fits (the same result)"), 1)
      << refused.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "small"));
  const Outcome fits = with("1", limit + "MiB");
  EXPECT_EQ(fits.code, 0) << fits.out;
}

TEST_F(TrainUnderMpirun, ranks_with_other_data_are_refused_before_the_first_step) {
  // Rank 1 reads a folder in which one picture is another one.
  for (const char* first : {"1", "2"})
    ASSERT_EQ(run_program(0, {PODIUM_PROGRAM, "data", "show", "glyphs", "--count", "1", "--first",
                              first, "--out", (folder_ / first).string() + ".png"})
                  .code,
              0);
  for (const std::string rank : {"0", "1"}) {
    for (int i = 0; i < 16; ++i) {
      const std::filesystem::path file =
          folder_ / rank / (i % 2 == 0 ? "even" : "odd") / (std::to_string(i) + ".png");
      std::filesystem::create_directories(file.parent_path());
      std::filesystem::copy_file(folder_ / (rank == "1" && i == 5 ? "2.png" : "1.png"), file);
      std::filesystem::last_write_time(file, std::filesystem::file_time_type());
    }
  }
  std::string command = "cd " + folder_.path().string() +
                        "/${OMPI_COMM_WORLD_RANK:-$PMI_RANK} && exec " PODIUM_PROGRAM
                        " train folder:. replicas=2 batch=4 --out ../run";
  const Outcome outcome = run_program(2, {"/bin/sh", "-c", command});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "has a different "), 1) << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(TrainUnderMpirun, a_run_that_is_under_way_is_not_started_twice) {
  const pid_t first = start_program(2, train_long("twice"));
  ASSERT_TRUE(wait_for_checkpoint("twice"));
  const pid_t leader = process_of(0);
  std::string command =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 exec " PODIUM_MPIRUN " -n 2";
  for (const std::string& word : train_long("twice")) command += " " + word;
  command += " >" + (folder_ / "second").string() + " 2>&1";
  EXPECT_NE(std::system(command.c_str()), 0);
  const std::string said = file_text(folder_ / "second");
  EXPECT_EQ(count(said, ": in use by process "), 1) << said;
  kill(leader, SIGTERM);
  EXPECT_EQ(wait_for(first).code, 75);
}

TEST_F(TrainUnderMpirun, bench_exchange_measures_what_a_step_of_ranks_costs) {
  const Outcome sizes = run_program(
      3, {PODIUM_PROGRAM, "bench", "exchange", "--sizes", "1KB,3MB", "--rounds", "1", "--json"});
  EXPECT_EQ(sizes.code, 0) << sizes.out;
  EXPECT_EQ(count(sizes.out, "\"allreduce_seconds\": "), 2) << sizes.out;
  EXPECT_EQ(count(sizes.out, "\"ranks\": 3"), 1) << sizes.out;
  const Outcome recipe = run_program(
      2, {PODIUM_PROGRAM, "bench", "exchange", "glyphs", "train_examples=960", "test_examples=100",
          "batch=64", "replicas=4", "--rounds", "1", "--steps", "5"});
  EXPECT_EQ(recipe.code, 0) << recipe.out;
  EXPECT_EQ(count(recipe.out, "with MPI_Allreduce after the backward pass"), 1) << recipe.out;
  const Outcome alone = run_program(0, {PODIUM_PROGRAM, "bench", "exchange"});
  EXPECT_EQ(alone.code, 2) << alone.out;
  const Outcome uneven = run_program(3, {PODIUM_PROGRAM, "bench", "exchange", "glyphs"});
  EXPECT_EQ(uneven.code, 2) << uneven.out;
}

TEST_F(TrainUnderMpirun, other_commands_are_refused) {
  const Outcome outcome = run_program(2, {PODIUM_PROGRAM, "recipes"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_GE(count(outcome.out, "podium recipes runs as one process, but the launcher starts 2 ("),
            1)
      << outcome.out;
}

TEST_F(TrainUnderMpirun, a_folder_that_cannot_be_written_ends_all_with_the_reason) {
  std::ofstream(folder_ / "file") << "no folder";
  const Outcome outcome = run_program(2, train("file"));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "podium: rank 0 on host "), 1) << outcome.out;
  EXPECT_EQ(outcome.left, 0);
}

}  // namespace
}  // namespace podium::test
