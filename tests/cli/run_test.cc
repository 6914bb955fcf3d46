// Runs: what they print, how they go on, where they stop.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "files/safetensors.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class Run : public CommandLine {
 protected:
  nlohmann::json json(const std::vector<std::string>& words) const {
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(Run, json_has_the_promised_keys) {
  const auto result = json(train_small("a", {"--json", "seed=5", "--workers", "2"}));
  for (const char* key :
       {"recipe", "seed", "steps", "epochs", "replicas", "workers", "loss", "accuracy", "correct",
        "examples", "parameter_hash", "train_seconds", "eval_seconds", "images_per_second",
        "steps_per_second", "input_wait_percent", "peak_memory_bytes"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result["recipe"], "glyphs");
  EXPECT_EQ(result["seed"], 5);
  EXPECT_EQ(result["steps"], 16);
  EXPECT_EQ(result["epochs"], 2);
  EXPECT_EQ(result["replicas"], 4);
  EXPECT_EQ(result["workers"], 2);
  EXPECT_EQ(result["examples"], 100);
  EXPECT_EQ(result["parameter_hash"].get<std::string>().size(), 16u);
}

TEST_F(Run, what_was_resolved_is_said_before_the_first_step) {
  const Outcome outcome = podium(train_small("a"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t first_step = outcome.err.find("step 1/");
  for (const char* part : {"B = 32", "R = 4", "batch-norm span 8", "gradient", "peak learning rate",
                           "weight decay", "precision", "placement", "memory"}) {
    EXPECT_LT(outcome.err.find(part), first_step) << part << "\n" << outcome.err;
  }
  EXPECT_NE(outcome.out.find("of 100)"), std::string::npos) << outcome.out;
}

TEST_F(Run, the_folder_holds_what_it_should) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  for (const char* name : {"recipe.toml", "environment.json", "metrics.jsonl", "hashes.jsonl",
                           "checkpoints", "tensorboard"}) {
    EXPECT_TRUE(std::filesystem::exists(path("a") / name)) << name;
  }
  const std::string hashes = read("a/hashes.jsonl");
  EXPECT_EQ(std::count(hashes.begin(), hashes.end(), '\n'), 16);
  EXPECT_EQ(hashes.find("{\"step\": 1, \"hash\": \""), 0u) << hashes.substr(0, 60);
}

TEST_F(Run, default_folder_is_named_after_recipe_and_seed) {
  write("tiny.toml",
        "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 10\n"
        "batch = 16\nsteps = 2\n");
  ASSERT_EQ(podium({"train", "tiny.toml", "seed=4"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("runs/tiny-seed4/recipe.toml")));
}

TEST_F(Run, workers_threads_targets_and_backends_change_no_bit) {
  const auto hash = json(train_small("a", {"--json", "--workers", "1"}))["parameter_hash"];
  const std::vector<std::vector<std::string>> placements = {{"--workers", "3"},
                                                            {"--workers", "4"},
                                                            {"--workers", "2", "--threads", "2"},
                                                            {"--backend", "reference"}};
  for (std::vector<std::string> placement : placements) {
    placement.emplace_back("--json");
    placement.emplace_back("--fresh");
    EXPECT_EQ(json(train_small("b", placement))["parameter_hash"], hash) << placement[1];
    EXPECT_EQ(read("a/hashes.jsonl"), read("b/hashes.jsonl")) << placement[1];
  }
}

TEST_F(Run, more_threads_than_cores_are_said) {
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  EXPECT_EQ(podium(train_small("a", {"--workers", "1"})).err.find("computing threads"),
            std::string::npos);
  const Outcome more = podium(
      train_small("a", {"--fresh", "--workers", "1", "--threads", std::to_string(cores + 1)}));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find(std::to_string(cores + 1) + " computing threads share the "),
            std::string::npos)
      << more.err;
}

TEST_F(Run, the_same_command_reports_a_finished_run) {
  const auto first = json(train_small("a", {"--json"}));
  const auto again = json(train_small("a", {"--json"}));
  EXPECT_EQ(again["steps_made"], 0);
  for (const char* key : {"steps", "parameter_hash", "accuracy", "loss", "correct"}) {
    EXPECT_EQ(first[key], again[key]) << key;
  }
}

TEST_F(Run, stopping_early_changes_no_schedule_and_the_same_command_goes_on) {
  ASSERT_EQ(podium(train_small("whole")).code, 0);
  const auto part = json(train_small("parts", {"--json", "--steps", "5"}));
  EXPECT_EQ(part["steps"], 5);
  EXPECT_EQ(json(train_small("parts", {"--json", "--epochs", "1"}))["steps"], 8);
  EXPECT_EQ(json(train_small("parts", {"--json", "--workers", "1"}))["steps"], 16);
  EXPECT_EQ(read("whole/hashes.jsonl"), read("parts/hashes.jsonl"));
}

TEST_F(Run, the_last_step_is_always_hashed) {
  const auto steps = [&](const std::string& out, const std::string& every) {
    json(train_small(out, {"--json", "run.hash_every_steps=" + every}));
    std::string found;
    std::istringstream lines(read(out + "/hashes.jsonl"));
    for (std::string line; std::getline(lines, line);)
      found += std::to_string(nlohmann::json::parse(line)["step"].get<int>()) + " ";
    return found;
  };
  EXPECT_EQ(steps("never", "0"), "16 ");
  EXPECT_EQ(steps("some", "5"), "5 10 15 16 ");
  EXPECT_EQ(podium({"diff", "never", "some"}).code, 0);
}

// A result pairs its hash with an accuracy: that of the same parameters, or none.
TEST_F(Run, a_run_stopped_between_evaluations_shows_no_accuracy_but_with_its_own_step) {
  const std::vector<std::string> words = train_small("run", {"epochs=10000"});
  const auto interrupt = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    while (true) {
      std::filesystem::remove_all(path("run"));
      const pid_t process = start(all);
      EXPECT_TRUE(wait_for_output(process, "run/checkpoints/step-00000008/checkpoint.json"));
      usleep(30000);
      kill(process, SIGINT);
      Outcome outcome = wait_for(process);
      EXPECT_EQ(outcome.code, 75) << outcome.err;
      // Rarely the signal comes within an epoch's last step.
      const auto steps = nlohmann::json::parse(podium({"eval", "run", "--json"}).out)["steps"];
      if (steps.get<int>() % 8 != 0 || outcome.code != 75) return outcome;
    }
  };
  const auto result = nlohmann::json::parse(interrupt({"--json"}).out);
  for (const char* key : {"accuracy", "loss", "correct", "examples"})
    EXPECT_TRUE(result[key].is_null()) << key << " " << result;
  const int steps = result["steps"], evaluated = result["last_evaluation"]["step"];
  EXPECT_GT(evaluated, 0);
  EXPECT_EQ(evaluated, steps / 8 * 8);
  // It is what was written down of that step.
  const std::string line = "{\"step\": " + std::to_string(evaluated) + ", \"test_accuracy\": ";
  const std::string metrics = read("run/metrics.jsonl");
  const std::size_t at = metrics.find(line);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(metrics.substr(at, metrics.find('\n', at) - at))["test_accuracy"],
            result["last_evaluation"]["accuracy"]);

  const Outcome text = interrupt({});
  EXPECT_NE(text.out.find("glyphs, seed 0: "), std::string::npos) << text.out;
  EXPECT_EQ(text.out.substr(0, text.out.find('\n')).find('%'), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\nlast evaluation after step "), std::string::npos) << text.out;
}

// An evaluation is no reason to let a stop wait, or to lose the steps before it.
TEST_F(Run, an_evaluation_that_is_stopped_is_made_when_the_run_goes_on) {
  const std::vector<std::string> slow = {"test_examples=6000", "evaluation.batch=1", "--json"};
  const std::vector<std::string> words = train_small("run", slow);
  const pid_t process = start(words);
  EXPECT_TRUE(wait_for_output(process, "run/checkpoints/step-00000008/checkpoint.json"));
  kill(process, SIGTERM);
  const Outcome outcome = wait_for(process);
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["steps"], 8);
  EXPECT_EQ(read("run/metrics.jsonl").find("test_accuracy"), std::string::npos);
  EXPECT_EQ(json(words)["steps_made"], 8);
  const auto evaluations = [&](const std::string& out) {
    std::string found;
    std::istringstream lines(read(out + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (line.find("test_accuracy") != std::string::npos) found += line + "\n";
    return found;
  };
  json(train_small("undisturbed", slow));
  EXPECT_EQ(evaluations("run"), evaluations("undisturbed"));
  EXPECT_EQ(read("run/hashes.jsonl"), read("undisturbed/hashes.jsonl"));
}

TEST_F(Run, threads_that_make_batches_ahead_change_no_bit) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  const auto result = json(train_small("b", {"--json", "--workers", "2", "--input-threads", "2"}));
  EXPECT_EQ(result["input_threads"], 2);
  EXPECT_EQ(read("a/hashes.jsonl"), read("b/hashes.jsonl"));
}

TEST_F(Run, a_band_grows_and_loses_no_seed) {
  write("tiny.toml",
        "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 10\n"
        "batch = 16\nsteps = 2\n");
  const auto seeds = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"band", "tiny.toml", "--json", "--out", "band"};
    words.insert(words.end(), more.begin(), more.end());
    std::string found;
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto band = nlohmann::json::parse(outcome.out, nullptr, false);
    for (const auto& run : band["runs"]) found += std::to_string(run["seed"].get<int>()) + " ";
    return found;
  };
  EXPECT_EQ(seeds({"--seeds", "1", "--first-seed", "7"}), "7 ");
  EXPECT_EQ(seeds({"--seeds", "2", "--first-seed", "3"}), "3 4 7 ");
  EXPECT_EQ(seeds({"--seeds", "1", "--first-seed", "4"}), "3 4 7 ");
  expect_refusal(podium({"band", "tiny.toml", "batch=32", "--seeds", "1", "--out", "band"}), 2,
                 {"band.json", "+ batch = 32", "--out"});
  expect_refusal(podium({"band", "tiny.toml", "--seeds", "2", "--first-seed", "9223372036854775807",
                         "--out", "band"}),
                 2, {"--first-seed", "9223372036854775807"});
}

TEST_F(Run, a_band_of_fewer_than_five_seeds_says_that_it_means_nothing_yet) {
  write("tiny.toml",
        "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 10\n"
        "batch = 16\nsteps = 2\n");
  const Outcome four = podium({"band", "tiny.toml", "--seeds", "4", "--out", "band"});
  EXPECT_EQ(four.code, 0) << four.err;
  EXPECT_NE(four.out.find("fewer than 5 runs are too few to predict further runs"),
            std::string::npos)
      << four.out;
  EXPECT_EQ(four.out.find("further runs end between"), std::string::npos) << four.out;
  const std::vector<std::string> check = {"band",   "tiny.toml",      "--check", "band/seed-0",
                                          "--band", "band/band.json", "--json"};
  expect_refusal(podium(check), 2, {"holds 4 runs", "at least 5", "--seeds 5"});
  const Outcome five = podium({"band", "tiny.toml", "--seeds", "5", "--out", "band"});
  EXPECT_NE(five.out.find("99 of 100 further runs end between"), std::string::npos) << five.out;
  const auto result = json(check);
  EXPECT_EQ(result["inside"], true);
  EXPECT_GE(result["low"], 0.0);
  EXPECT_LE(result["high"], 1.0);
  EXPECT_EQ(podium({"band", "tiny.toml", "--check", "band/seed-0", "--out", "band"}).code, 0);
}

TEST_F(Run, fresh_starts_anew_and_deletes_nothing) {
  ASSERT_EQ(podium(train_small("a", {"--steps", "5"})).code, 0);
  const std::string before = read("a/hashes.jsonl");
  const auto again = json(train_small("a", {"--fresh", "--json", "--steps", "3"}));
  EXPECT_EQ(again["steps_made"], 3);
  EXPECT_EQ(read("a/previous-1/hashes.jsonl"), before);
}

TEST_F(Run, signals_save_and_exit_75) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    const std::string out = "run" + std::to_string(signal);
    const std::vector<std::string> words = train_small(out, {"epochs=10000", "--json"});
    const pid_t process = start(words);
    EXPECT_TRUE(wait_for_output(process, out + "/metrics.jsonl"));
    kill(process, signal);
    const Outcome outcome = wait_for(process);
    EXPECT_EQ(outcome.code, 75) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(result.is_object()) << outcome.out;
    EXPECT_EQ(result["stopped"], true);
    const std::int64_t steps = result["steps"];
    EXPECT_GT(steps, 0);
    const std::string hashes = read(out + "/hashes.jsonl");
    EXPECT_EQ(std::count(hashes.begin(), hashes.end(), '\n'), steps);
    const auto next =
        json(train_small(out, {"epochs=10000", "--json", "--steps", std::to_string(steps + 2)}));
    EXPECT_EQ(next["steps_made"], 2);
  }
}

TEST_F(Run, a_hangup_that_was_ignored_from_the_start_stays_ignored) {
  const pid_t process = start(train_small("run", {"epochs=6"}), {.ignore_hangup = true});
  EXPECT_TRUE(wait_for_output(process, "run/metrics.jsonl"));
  kill(process, SIGHUP);
  EXPECT_EQ(wait_for(process).code, 0);
}

// A million digits take some seven seconds to draw.
TEST_F(Run, a_signal_before_the_first_step_is_heard_soon_and_nothing_is_made) {
  for (const char* json : {"", "--json"}) {
    std::vector<std::string> words = train_small("run", {"train_examples=1000000"});
    if (*json != 0) words.emplace_back(json);
    const double before = children_seconds();
    const pid_t process = start(words);
    EXPECT_TRUE(wait_for_output(process, talk_of(process), "run folder"));
    kill(process, SIGTERM);
    const Outcome outcome = wait_for(process);
    EXPECT_LT(children_seconds() - before, 1.5);
    EXPECT_EQ(outcome.code, 75) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path("run")));
    EXPECT_NE(outcome.err.find("before the first step; nothing was saved"), std::string::npos)
        << outcome.err;
    if (*json == 0) {
      EXPECT_EQ(outcome.out, "glyphs, seed 0: stopped before the first step; nothing was saved\n");
      continue;
    }
    const auto result = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(result["stopped"], true);
    EXPECT_EQ(result["steps_made"], 0);
    for (const char* key : {"steps", "accuracy", "parameter_hash"})
      EXPECT_TRUE(result[key].is_null()) << key;
  }
}

// A step by the reference backend takes seconds: the first Ctrl-C waits for it.
TEST_F(Run, a_second_ctrl_c_ends_the_program_at_once_and_the_first_says_so) {
  // Again where the first came before the long step, and had ended the run when the second came.
  constexpr int kStopped = 75;
  int code = kStopped;
  for (int i = 0; i < 5 && code == kStopped; ++i) {
    const std::string folder = "run" + std::to_string(i);
    const pid_t process =
        start(train_small(folder, {"train_examples=2048", "batch=2048", "--backend", "reference"}));
    ASSERT_TRUE(wait_for_output(process, folder + "/resolved.txt"));
    kill(process, SIGINT);
    EXPECT_TRUE(wait_for_output(process, talk_of(process), "Ctrl-C again ends it at once"));
    kill(process, SIGINT);
    code = wait_for(process).code;
  }
  EXPECT_EQ(code, 128 + SIGINT);
}

TEST_F(Run, a_memory_limit_is_looked_at_before_data_are_loaded) {
  const double before = children_seconds();
  expect_refusal(podium(train_small("run", {"train_examples=10000000", "--memory-limit", "1GiB"})),
                 4,
                 {"7.34 GiB of it for its data alone", "the limit is 1.00 GiB", "fewer examples"});
  EXPECT_LT(children_seconds() - before, 5) << "drawing them takes seventy";
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(Run, one_damaged_byte_costs_one_line_of_the_history_and_the_file_is_kept) {
  const std::vector<std::string> every = {"run.log_every_steps=1"};
  ASSERT_EQ(podium(train_small("whole", every)).code, 0);
  ASSERT_EQ(podium(train_small("run", {every[0], "--epochs", "1"})).code, 0);
  const auto third_line = [](const std::string& text) {
    return text.find('\n', text.find('\n') + 1) + 1;
  };
  std::map<std::string, std::string> damaged;
  for (const std::string name : {"hashes.jsonl", "metrics.jsonl"}) {
    damaged[name] = read("run/" + name);
    damaged[name][third_line(damaged[name]) + 5] = '\x07';
    write("run/" + name, damaged[name]);
    expect_refusal(podium({"compare", "run"}), 3,
                   {name + ":3", "repair or remove that line", "podium train"});
  }
  const Outcome resumed = podium(train_small("run", every));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  for (const auto& [name, text] : damaged) {
    EXPECT_NE(resumed.err.find(name + ": line 3 could not be read"), std::string::npos)
        << resumed.err;
    EXPECT_EQ(read("run/" + name + ".damaged-1"), text);
  }
  std::string expected = read("whole/hashes.jsonl");
  const std::size_t third = third_line(expected);
  expected.erase(third, expected.find('\n', third) + 1 - third);
  EXPECT_EQ(read("run/hashes.jsonl"), expected);
  EXPECT_EQ(podium({"compare", "run"}).code, 0);
}

// Two copies of a dataset, whose test sets differ in a pixel.
TEST_F(Run, a_run_is_not_evaluated_on_other_data_than_its_own) {
  const auto idx = [](std::uint32_t count, const std::vector<int>& extents, char pixel) {
    std::string text("\0\0\x08", 3);
    text += static_cast<char>(1 + extents.size());
    const auto word = [&](std::uint32_t value) {
      for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    };
    word(count);
    std::uint32_t size = count;
    for (const int extent : extents) {
      word(static_cast<std::uint32_t>(extent));
      size *= static_cast<std::uint32_t>(extent);
    }
    for (std::uint32_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 % 10);
    text.back() = pixel;
    return text;
  };
  for (const char* folder : {"one/", "two/"}) {
    const char pixel = folder[0] == 'o' ? '\x01' : '\x02';
    write(folder + std::string("train-images-idx3-ubyte"), idx(64, {28, 28}, '\x03'));
    write(folder + std::string("train-labels-idx1-ubyte"), idx(64, {}, '\x03'));
    write(folder + std::string("t10k-images-idx3-ubyte"), idx(20, {28, 28}, pixel));
    write(folder + std::string("t10k-labels-idx1-ubyte"), idx(20, {}, '\x03'));
  }
  write("tiny.toml", "model = \"mnist\"\ndata = \"mnist\"\nbatch = 16\nsteps = 4\n");
  const auto train = [&](const char* data, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "tiny.toml", "--out", "run", "--data-dir", data});
    return podium(more);
  };
  const auto refused = [&](const Outcome& outcome) {
    expect_refusal(outcome, 3,
                   {"evaluated on other data", "on 20 examples, hash ", "now on 20 examples, hash ",
                    "(two)", "--data-dir"});
  };
  ASSERT_EQ(train("one", {"--steps", "2"}).code, 0);
  refused(podium({"eval", "run", "--data-dir", "two"}));
  refused(train("two"));
  EXPECT_EQ(podium({"eval", "run", "--data-dir", "one"}).code, 0);
  EXPECT_EQ(train("one").code, 0);
  refused(train("two"));  // a finished run, which would be evaluated again
}

TEST_F(Run, evaluation_depends_on_neither_batch_nor_workers) {
  const auto trained = json(train_small("a", {"--json"}));
  for (const char* batch : {"1", "7", "100", "1000"}) {
    const auto result = json({"eval", "a", "--json", "--batch", batch, "--workers", "3"});
    for (const char* key : {"correct", "examples", "loss", "accuracy", "parameter_hash"}) {
      EXPECT_EQ(result[key], trained[key]) << key << " with batch " << batch;
    }
  }
}

TEST_F(Run, eval_counts_each_class_and_what_it_was_taken_for) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  const auto result = json({"eval", "a", "--json", "--workers", "1"});
  ASSERT_EQ(result["classes"].size(), 10U);
  ASSERT_EQ(result["confusion"].size(), 10U);
  std::int64_t correct = 0, examples = 0;
  for (std::size_t k = 0; k < 10; ++k) {
    const auto& of_class = result["classes"][k];
    std::int64_t row = of_class["undecided"];
    for (const auto& count : result["confusion"][k]) row += count.get<std::int64_t>();
    EXPECT_EQ(of_class["examples"], row);
    EXPECT_EQ(of_class["correct"], result["confusion"][k][k]);
    EXPECT_EQ(of_class["name"], std::to_string(k));
    correct += of_class["correct"].get<std::int64_t>();
    examples += row;
  }
  EXPECT_EQ(correct, result["correct"]);
  EXPECT_EQ(examples, 100);
  const auto other = json({"eval", "a", "--json", "--workers", "4", "--batch", "7"});
  EXPECT_EQ(other["confusion"], result["confusion"]);
  std::int64_t in_cells = 0;
  for (const auto& cell : result["confusion_cells"]) {
    EXPECT_EQ(cell[2], result["confusion"][cell[0].get<std::size_t>()][cell[1].get<std::size_t>()]);
    in_cells += cell[2].get<std::int64_t>();
  }
  EXPECT_EQ(in_cells, examples);
  const Outcome text = podium({"eval", "a", "--per-class"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("MOST OFTEN MISTAKEN FOR"), std::string::npos) << text.out;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 2 + 1 + 11) << text.out;
}

TEST_F(Run, diff_of_equal_runs_exits_0) {
  ASSERT_EQ(podium(train_small("a", {"--workers", "1"})).code, 0);
  ASSERT_EQ(podium(train_small("b", {"--workers", "4"})).code, 0);
  const Outcome outcome = podium({"diff", "a", "b"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("equal after each of 16"), std::string::npos) << outcome.out;
}

// Hashes of steps 3, 6, ... and 5: a run's length is not that of its hashes, and none is compared.
TEST_F(Run, diff_says_where_no_hash_was_compared) {
  ASSERT_EQ(podium(train_small("a", {"--steps", "5", "run.hash_every_steps=3"})).code, 0);
  ASSERT_EQ(podium(train_small("b", {"--steps", "5", "run.hash_every_steps=5"})).code, 0);
  const Outcome outcome = podium({"diff", "a", "b"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("no step has a hash in both runs"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("checkpoints of step 5 is equal"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("has steps up to"), std::string::npos) << outcome.out;
}

TEST_F(Run, diff_names_the_first_step_and_the_tensors) {
  // The learning rate changes after the fifth step.
  const std::vector<std::string> schedule = {"schedule.name=piecewise", "schedule.boundaries=[5]"};
  const auto with = [&](const std::string& factors) {
    std::vector<std::string> words = schedule;
    words.push_back("schedule.factors=" + factors);
    return words;
  };
  ASSERT_EQ(podium(train_small("a", with("[1, 1]"))).code, 0);
  ASSERT_EQ(podium(train_small("b", with("[1, 0.5]"))).code, 0);
  const Outcome outcome = podium({"diff", "a", "b"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  for (const char* part : {"from step 6 on", "step 5 is equal", "checkpoints of step 8",
                           "conv1.weight", "ULPS", "factors = [1, 0.5]"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  const auto found = nlohmann::json::parse(podium({"diff", "a", "b", "--json"}).out);
  EXPECT_EQ(found["equal"], false);
  EXPECT_EQ(found["first_difference"], 6);
}

TEST_F(Run, diff_of_a_run_and_its_first_half_exits_1) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  ASSERT_EQ(podium(train_small("b", {"--steps", "8"})).code, 0);
  const Outcome outcome = podium({"diff", "a", "b"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("up to 16"), std::string::npos) << outcome.out;
}

TEST_F(Run, inspect_writes_a_step_whose_parameters_are_those_of_the_run) {
  ASSERT_EQ(podium(train_small("a")).code, 0);
  std::vector<std::string> words = train_small("step.safetensors", {"--step", "8"});
  words[0] = "inspect";
  const Outcome outcome = podium(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const SafetensorsFile file = read_safetensors(path("step.safetensors"));
  EXPECT_EQ(file.metadata.at("step"), "8");
  const auto shape = [&](const std::string& name) {
    const Tensor* tensor = file.find(name);
    return tensor == nullptr ? "none" : to_string(tensor->type());
  };
  EXPECT_EQ(shape("inputs"), "f32[32, 1, 28, 28]");
  EXPECT_EQ(shape("labels"), "i32[32]");
  EXPECT_EQ(shape("logits"), "f32[32, 10]");
  EXPECT_EQ(shape("loss"), "f32[4]");
  EXPECT_EQ(shape("gradient/conv1.weight"), "f32[6, 1, 3, 3]");
  EXPECT_EQ(shape("before/bn1.running_mean"), "f32[6]");
  EXPECT_EQ(shape("state_before/fc2.weight/m"), "f32[10, 200]");
  const SafetensorsFile saved =
      read_safetensors(path("a/checkpoints/step-00000008/state.safetensors"));
  for (const NamedTensor& t : saved.tensors) {
    if (t.name.starts_with("optimizer/")) continue;
    const Tensor* after = file.find("after/" + t.name);
    ASSERT_NE(after, nullptr) << t.name;
    EXPECT_EQ(std::memcmp(after->data(), t.tensor.data(), t.tensor.type().bytes()), 0) << t.name;
  }
}

}  // namespace
}  // namespace podium::test
