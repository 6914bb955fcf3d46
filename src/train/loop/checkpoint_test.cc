#include "train/loop/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <stop_token>
#include <thread>

#include "base/numerics/contract.h"
#include "base/scratch_test_util.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

Checkpoint sample(std::int64_t step, std::int64_t elements = 1000) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.metadata = {{"recipe", "model = \"mnist\"\n"}, {"recipe_hash", "0123"}};
  for (const char* name : {"conv1.weight", "optimizer/conv1.weight/m"}) {
    Tensor tensor(DType::kF32, Shape{elements});
    std::fill(tensor.f32().begin(), tensor.f32().end(), static_cast<float>(step));
    checkpoint.tensors.push_back({name, std::move(tensor)});
  }
  return checkpoint;
}

bool is_sample(const Checkpoint& checkpoint) {
  return checkpoint.tensors.size() == 2 && checkpoint.metadata == sample(0).metadata &&
         std::ranges::all_of(checkpoint.tensors, [&](const NamedTensor& entry) {
           return std::ranges::all_of(entry.tensor.f32(), [&](float value) {
             return value == static_cast<float>(checkpoint.step);
           });
         });
}

std::vector<std::int64_t> steps_in(const fs::path& run_dir) {
  std::vector<std::int64_t> steps;
  for (const CheckpointPlace& place : list_checkpoints(run_dir)) steps.push_back(place.step);
  return steps;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

struct Warnings {
  std::vector<std::string> texts;
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& text) { texts.push_back(text); };
  }
};

// Runs `action` in a process of its own; its exit code, or -1.
template <typename Action>
int in_child(const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Checkpoint, what_is_written_is_read) {
  const TestFolder run;
  EXPECT_FALSE(load_latest(run.path(), nullptr).has_value());
  write_checkpoint(run.path(), sample(470), 3);
  Warnings warnings;
  const std::optional<Checkpoint> read = load_latest(run.path(), warnings.sink());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->step, 470);
  EXPECT_TRUE(is_sample(*read));
  EXPECT_TRUE(warnings.texts.empty());
  EXPECT_EQ(names_in(run / "checkpoints/step-00000470"),
            (std::vector<std::string>{"checkpoint.json", "state.safetensors"}));
  const SafetensorsFile state =
      read_safetensors(run / "checkpoints/step-00000470/state.safetensors");
  EXPECT_EQ(state.metadata.at("step"), "470");
  EXPECT_EQ(state.metadata.at("format_version"), "1");
  EXPECT_EQ(state.metadata.at("recipe"), "model = \"mnist\"\n");
}

TEST(Checkpoint, the_best_is_kept_beside_the_last_few) {
  const TestFolder run;
  write_best_checkpoint(run.path(), sample(10));
  for (const std::int64_t step : {20, 30, 40}) write_checkpoint(run.path(), sample(step), 1);
  EXPECT_EQ(load_checkpoint(best_checkpoint(run.path())).step, 10);
  EXPECT_EQ(steps_in(run.path()), std::vector<std::int64_t>{40});
  EXPECT_EQ(load_latest(run.path(), nullptr)->step, 40);
  write_best_checkpoint(run.path(), sample(50));
  EXPECT_EQ(load_checkpoint(best_checkpoint(run.path())).step, 50);
  EXPECT_TRUE(is_sample(load_checkpoint(best_checkpoint(run.path()))));
  EXPECT_EQ(names_in(run / "checkpoints"), (std::vector<std::string>{"best", "step-00000040"}));
}

TEST(Checkpoint, the_last_few_are_kept) {
  const TestFolder run;
  for (std::int64_t step = 0; step <= 50; step += 10) write_checkpoint(run.path(), sample(step), 3);
  EXPECT_EQ(steps_in(run.path()), (std::vector<std::int64_t>{30, 40, 50}));
  write_checkpoint(run.path(), sample(60), 1);
  EXPECT_EQ(steps_in(run.path()), (std::vector<std::int64_t>{60}));
  EXPECT_EQ(names_in(run / "checkpoints").size(), 1u);
}

TEST(Checkpoint, steps_beyond_eight_digits_keep_their_order) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(99999999), 3);
  write_checkpoint(run.path(), sample(100000000), 3);
  EXPECT_EQ(load_latest(run.path(), nullptr)->step, 100000000);
}

TEST(Checkpoint, writing_the_same_one_again_changes_nothing) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 3);
  const auto before = fs::last_write_time(run / "checkpoints/step-00000010/checkpoint.json");
  write_checkpoint(run.path(), sample(10), 3);
  EXPECT_EQ(fs::last_write_time(run / "checkpoints/step-00000010/checkpoint.json"), before);
  EXPECT_EQ(names_in(run / "checkpoints").size(), 1u);
}

TEST(Checkpoint, a_damaged_one_of_the_same_step_is_replaced) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 1);
  put_text(run / "checkpoints/step-00000010/state.safetensors", "x");
  write_checkpoint(run.path(), sample(10), 1);
  EXPECT_TRUE(is_sample(load_latest(run.path(), nullptr).value()));
  EXPECT_EQ(names_in(run / "checkpoints").size(), 1u);
}

TEST(Checkpoint, any_flipped_bit_is_found_and_the_previous_one_used) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10, 3), 3);
  write_checkpoint(run.path(), sample(20, 3), 3);
  for (const char* part : {"checkpoint.json", "state.safetensors"}) {
    const fs::path path = run / "checkpoints/step-00000020" / part;
    const std::string good = file_text(path);
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] ^= static_cast<char>(1 << at % 8);
      put_text(path, bad);
      Warnings warnings;
      const std::optional<Checkpoint> read = load_latest(run.path(), warnings.sink());
      ASSERT_TRUE(read.has_value() && read->step == 10) << part << " byte " << at;
      ASSERT_EQ(warnings.texts.size(), 1u);
      ASSERT_NE(warnings.texts[0].find("step-00000020"), std::string::npos) << warnings.texts[0];
    }
    put_text(path, good);
  }
  EXPECT_EQ(load_latest(run.path(), nullptr)->step, 20);
}

TEST(Checkpoint, truncated_and_missing_parts_are_damage) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 3);
  for (const char* part : {"checkpoint.json", "state.safetensors"}) {
    write_checkpoint(run.path(), sample(20), 3);
    const fs::path path = run / "checkpoints/step-00000020" / part;
    fs::resize_file(path, fs::file_size(path) / 2);
    EXPECT_EQ(load_latest(run.path(), nullptr)->step, 10);
    fs::remove(path);
    EXPECT_EQ(load_latest(run.path(), nullptr)->step, 10);
  }
}

TEST(Checkpoint, a_damaged_one_is_set_aside_for_good_when_asked) {
  const TestFolder run;
  for (std::int64_t step : {10, 20, 30}) write_checkpoint(run.path(), sample(step), 3);
  put_text(run / "checkpoints/step-00000030/checkpoint.json", "{}");
  EXPECT_EQ(load_latest(run.path(), nullptr, Damaged::kSetAside)->step, 20);
  EXPECT_EQ(names_in(run / "checkpoints"),
            (std::vector<std::string>{"damaged-step-00000030", "step-00000010", "step-00000020"}));
  write_checkpoint(run.path(), sample(25), 2);
  EXPECT_EQ(steps_in(run.path()), (std::vector<std::int64_t>{20, 25}));
}

TEST(Checkpoint, one_of_a_later_step_does_not_push_out_the_new_one) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(30), 1);
  write_checkpoint(run.path(), sample(20), 1);
  EXPECT_EQ(names_in(run / "checkpoints"),
            (std::vector<std::string>{"damaged-step-00000030", "step-00000020"}));
}

TEST(Checkpoint, all_damaged_is_an_error_that_names_each) {
  const TestFolder run;
  for (std::int64_t step : {10, 20}) {
    write_checkpoint(run.path(), sample(step), 3);
    put_text(list_checkpoints(run.path()).back().folder / "state.safetensors", "short");
  }
  for (int i = 0; i < 2; ++i) {  // nothing was set aside, so a second start says the same
    const std::string text =
        user_error(ExitCode::kData, [&] { load_latest(run.path(), nullptr, Damaged::kSetAside); });
    EXPECT_CONTAINS(text, "every checkpoint is damaged");
    EXPECT_CONTAINS(text, "step-00000010: state.safetensors has 5 bytes");
    EXPECT_CONTAINS(text, "step-00000020: state.safetensors has 5 bytes");
    EXPECT_CONTAINS(text, "--fresh");
  }
}

TEST(Checkpoint, another_format_version_is_an_error_and_no_damage) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 3);
  write_checkpoint(run.path(), sample(20), 3);
  const fs::path path = run / "checkpoints/step-00000020/checkpoint.json";
  std::string text = file_text(path);
  text[text.find("\"format_version\": 1") + 18] = '7';
  const std::size_t seal = text.find(",\n  \"json_crc32\"");
  text = text.substr(0, seal) + ",\n  \"json_crc32\": \"" +
         crc32_text(crc32_of(text.substr(0, seal))) + "\"\n}\n";
  put_text(path, text);
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { load_latest(run.path(), nullptr); }),
                  "has checkpoint format 7, this Podium reads format 1");
}

TEST(Checkpoint, of_another_numerical_contract_is_not_gone_on_with) {
  const Precision fp32, bf16{Bf16Order::kHopper};
  Checkpoint checkpoint = sample(10);
  require_same_contract(checkpoint, fp32);
  for (const Precision& own : {fp32, bf16}) {
    checkpoint.metadata[kContractKey] = std::to_string(numerical_contract(own));
    for (const Precision& other : {fp32, bf16}) {
      if (own == other) {
        require_same_contract(checkpoint, other);
        continue;
      }
      const std::string text =
          user_error(ExitCode::kData, [&] { require_same_contract(checkpoint, other); });
      EXPECT_CONTAINS(text, cat("the checkpoint of step 10 was computed under numerical contract ",
                                numerical_contract(own)));
      EXPECT_CONTAINS(text, "--fresh");
    }
  }
}

TEST(Checkpoint, leftovers_of_killed_writers_are_removed) {
  const TestFolder run;
  fs::create_directories(run / "checkpoints/.writing-step-00000007");
  fs::create_directories(run / "checkpoints/.removing-step-00000003");
  put_text(run / "checkpoints/.writing-step-00000007/state.safetensors", "half");
  EXPECT_FALSE(load_latest(run.path(), nullptr).has_value());
  write_checkpoint(run.path(), sample(10), 3);
  EXPECT_EQ(names_in(run / "checkpoints"), (std::vector<std::string>{"step-00000010"}));
}

TEST(Checkpoint, a_record_whose_counts_are_none_is_an_error) {
  const auto record = [](const std::string& step, const std::string& bytes) {
    return cat(R"({"format": "podium-checkpoint", "format_version": 1, "step": )", step,
               R"(, "metadata": {"recipe": "x"}, "state": {"bytes": )", bytes,
               R"(, "crc32": "01234567"}})");
  };
  const CheckpointRecord sound = parse_checkpoint_record(record("7", "300"), "folder");
  EXPECT_EQ(sound.step, 7);
  EXPECT_EQ(sound.bytes, 300u);
  EXPECT_EQ(sound.metadata.at("recipe"), "x");
  EXPECT_EQ(sound.crc32, "01234567");
  for (const std::string wrong : {"-1", "1e300", "7.5", "18446744073709551615", "\"7\"", "null"}) {
    for (const std::string& text : {record(wrong, "300"), record("7", wrong)}) {
      const std::string told =
          user_error(ExitCode::kData, [&] { parse_checkpoint_record(text, "folder"); });
      EXPECT_CONTAINS(told, "folder: checkpoint.json");
    }
  }
}

TEST(Checkpoint, a_full_disk_is_an_error_and_leaves_the_previous_one) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 3);
  // A limit on the size of files fails the write midway, as a full disk does.
  const int code = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_checkpoint(run.path(), sample(20, 100000), 3);
    } catch (const UserError& error) {
      const std::string text = error.what();
      return error.code() == ExitCode::kData && text.find("free some space") != text.npos ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(names_in(run / "checkpoints"), (std::vector<std::string>{"step-00000010"}));
  EXPECT_TRUE(is_sample(load_latest(run.path(), nullptr).value()));
}

TEST(Checkpoint, an_unwritable_folder_is_an_error_and_leaves_the_previous_one) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(10), 3);
  const int code = in_child([&] {
    if (::geteuid() == 0 && (::chown((run / "checkpoints").c_str(), 1, 1) != 0 ||
                             ::chmod(run.path().c_str(), 0755) != 0 || ::setuid(65534) != 0))
      return 3;
    ::chmod((run / "checkpoints").c_str(), 0555);
    try {
      write_checkpoint(run.path(), sample(20), 3);
    } catch (const UserError& error) {
      const std::string text = error.what();
      return text.find("Permission denied; change its permissions") != text.npos ? 0 : 1;
    }
    return 2;
  });
  if (code == 3) GTEST_SKIP() << "cannot give up the right to write everywhere";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(load_latest(run.path(), nullptr)->step, 10);
}

TEST(Checkpoint, a_reader_beside_the_writer_always_finds_a_whole_one) {
  const TestFolder run;
  write_checkpoint(run.path(), sample(0), 1);
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::int64_t step = 1; !stop.stop_requested(); ++step)
      write_checkpoint(run.path(), sample(step), 1);
  });
  std::int64_t last = 0;
  Warnings warnings;
  for (int i = 0; i < 200 || last < 50; ++i) {
    const std::optional<Checkpoint> read = load_latest(run.path(), warnings.sink());
    ASSERT_TRUE(read.has_value() && is_sample(*read) && read->step >= last);
    last = read->step;
  }
  EXPECT_TRUE(warnings.texts.empty()) << warnings.texts[0];
}

TEST(Checkpoint, a_writer_killed_at_any_moment_loses_nothing_that_was_done) {
  const TestFolder run;
  std::mt19937 random(7);
  std::int64_t last = -1;
  int advanced = 0;
  for (int round = 0; round < 60 || advanced < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        for (std::int64_t step = last + 1;; ++step) write_checkpoint(run.path(), sample(step), 2);
      } catch (...) {
        ::_exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (20000 + 500 * round)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed";
    Warnings warnings;
    const std::optional<Checkpoint> read = load_latest(run.path(), warnings.sink());
    ASSERT_TRUE(warnings.texts.empty()) << warnings.texts[0];
    ASSERT_TRUE(read.has_value() || last < 0);
    if (!read) continue;
    ASSERT_TRUE(is_sample(*read));
    ASSERT_GE(read->step, last);
    advanced += read->step > last ? 1 : 0;
    last = read->step;
  }
  write_checkpoint(run.path(), sample(last + 1), 2);
  for (const std::string& name : names_in(run / "checkpoints"))
    EXPECT_TRUE(name.starts_with("step-")) << name;
}

}  // namespace
}  // namespace podium
