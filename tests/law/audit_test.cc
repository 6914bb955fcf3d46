// Audits: a device that computes wrongly is found while it trains, and one that does not never is.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/scratch_test_util.h"
#include "faulty_device.h"
#include "files/file_io.h"
#include "files/safetensors.h"
#include "law_util.h"
#include "ranks_test_util.h"

namespace podium {
namespace {

constexpr int kEvery = 3;

std::unique_ptr<Trainer> trainer_on(const Placement& placement, const Recipe& recipe) {
  const RunData& data = small_data();
  return std::make_unique<Trainer>(recipe, find_model(recipe.model).build, data.train,
                                   data.held_out, placement);
}

std::unique_ptr<Trainer> faulty_trainer(Placement placement, std::int64_t replicas = 4,
                                        const std::string& audit_backend = "none") {
  register_faulty_backend();
  Recipe recipe = small_recipe(32, replicas);
  recipe.audit_backend = audit_backend;
  placement.backend = "faulty";
  return trainer_on(placement, recipe);
}

// Steps with an audit of every third; from a step on, the device is wrong. How many audits it took
// to find that; 0: it was not found by the second.
int audits_until_found(Trainer& trainer, std::string* text = nullptr) {
  Flips& flips = Flips::of_test();
  const auto wrong_from = static_cast<int>(1 + flips.seed % 4);
  int audits = 0;
  for (int step = 1; step <= wrong_from + 2 * kEvery; ++step) {
    // Ranks together.
    if (step == wrong_from && trainer.placement().ranks != nullptr)
      trainer.placement().ranks->barrier();
    if (step >= wrong_from) flips.armed = true;
    if (flips.armed && flips.kind == Flip::kParameter)
      static_cast<FaultyDevice&>(trainer.device()).flip_parameter(trainer.layout().parameter_bytes);
    const bool audits_now = step % kEvery == 0;
    const StepResult result =
        trainer.step({.hash = true, .throw_on_divergence = false, .audit = audits_now});
    if (audits_now && flips.armed) ++audits;
    if (!result.disagreement) continue;
    EXPECT_TRUE(flips.armed) << result.disagreement->text;
    if (text != nullptr) *text = result.disagreement->text;
    return audits;
  }
  return 0;
}

// Saves every second step, and keeps all; audits every fifth.
Recipe audited_recipe(std::int64_t replicas) {
  Recipe recipe = small_recipe(32, replicas);
  recipe.checkpoint_every_steps = 2;
  recipe.checkpoints_kept = 100;
  recipe.audit_every_steps = 5;
  return recipe;
}

// The device of a run is wrong from step 8 on.
class ArmsAfterStep7 : public RunObserver {
  void stepped(const Trainer&, const StepResult& step) override {
    if (step.step == 7) Flips::of_test().armed = true;
  }
};

class AuditOf : public testing::TestWithParam<Flip> {};

TEST_P(AuditOf, a_device_that_flips_bits_finds_it) {
  for (const int workers : {1, 2, 3}) {
    if (GetParam() == Flip::kAlways && workers == 1) continue;  // there is no other core
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      Flips::of_test().reset(GetParam(), seed, law_backend());
      std::string text;
      const int audits = audits_until_found(*faulty_trainer({.workers = workers}), &text);
      EXPECT_TRUE(audits == 1 || audits == 2) << workers << " workers, seed " << seed;
      EXPECT_NE(text.find(GetParam() == Flip::kParameter ? "changed in memory" : "computed twice"),
                std::string::npos)
          << text;
    }
  }
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

std::string name_of_flip(const testing::TestParamInfo<Flip>& flip) {
  constexpr const char* kNames[] = {"none",     "a_kernel",    "one_core", "one_rank",
                                    "addition", "a_parameter", "a_message"};
  return kNames[static_cast<std::size_t>(flip.param)];
}

INSTANTIATE_TEST_SUITE_P(Audit, AuditOf,
                         testing::Values(Flip::kKernel, Flip::kAlways, Flip::kAddition,
                                         Flip::kParameter),
                         name_of_flip);

// Flips bits of what it receives.
class FaultyTransport : public LocalTransport {
 public:
  using LocalTransport::LocalTransport;
  void start(int channel, std::span<const Message> out, std::span<const Message> in) override {
    {
      const std::scoped_lock lock(mutex_);
      awaited_[channel].assign(in.begin(), in.end());
    }
    LocalTransport::start(channel, out, in);
  }
  Clock::time_point wait(int channel) override {
    const Clock::time_point when = LocalTransport::wait(channel);
    Flips& flips = Flips::of_test();
    // Control messages are short, and texts.
    if (channel == kControl || !flips.strikes(Flip::kMessage)) return when;
    const std::scoped_lock lock(mutex_);
    for (const Message& message : awaited_[channel]) {
      if (message.view.bytes < 1024 || device() == nullptr) continue;
      flip_bit(*device(), message.view, flips.word());
      break;
    }
    return when;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Message>> awaited_;
};

TEST(Audit, of_several_ranks_finds_what_one_does_wrong) {
  for (const Flip kind : {Flip::kKernel, Flip::kAddition, Flip::kMessage, Flip::kAlwaysOnRank}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Flips::of_test().reset(kind, seed, law_backend());
      Flips::of_test().rank = 1;
      std::vector<int> found(2);
      std::vector<std::string> texts(2);
      on_ranks_of(
          {2, 2}, {.bucket_bytes = 4096},
          [&](const Placement& placement) { return faulty_trainer(placement, 8); },
          [&](Trainer& trainer, int rank) {
            const auto own = static_cast<std::size_t>(rank);
            found[own] = audits_until_found(trainer, &texts[own]);
          },
          carried_by<FaultyTransport>);
      EXPECT_TRUE(found[0] == 1 || found[0] == 2)
          << "fault " << static_cast<int>(kind) << ", seed " << seed << " " << texts[0];
      EXPECT_EQ(found[0], found[1]);
      EXPECT_EQ(texts[0], texts[1]);
      if (kind != Flip::kAlwaysOnRank) continue;
      EXPECT_NE(texts[0].find("those of rank 1, worker "), std::string::npos) << texts[0];
      EXPECT_NE(texts[0].find("are not the reference interpreter's"), std::string::npos)
          << texts[0];
    }
  }
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

TEST(Audit, by_another_backend_finds_the_only_device_that_is_always_wrong) {
  for (const char* const backend : {"cpu", "reference"}) {
    Flips::of_test().reset(Flip::kAlwaysOnRank, 4, law_backend());
    Flips::of_test().rank = 0;
    std::string text;
    const int count = audits_until_found(*faulty_trainer({.workers = 2}, 4, backend), &text);
    EXPECT_TRUE(count == 1 || count == 2) << text;
    EXPECT_NE(text.find(std::string("than the backend ") + backend + " of that host computes"),
              std::string::npos)
        << text;
  }
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

// A backend that is opened only when the test lets it be.
std::atomic<bool> g_backend_may_open{false};
std::unique_ptr<Device> open_late(const DeviceOptions& options) {
  while (!g_backend_may_open) std::this_thread::yield();
  return make_device("cpu", options);
}

TEST(Audit, by_another_backend_goes_on_beside_the_steps) {
  register_backend("opened-late", open_late);
  const auto expected = step_hashes(*make_trainer(small_recipe(32, 4), 1), 4);
  Recipe recipe = small_recipe(32, 4);
  recipe.audit_backend = "opened-late";
  g_backend_may_open = false;
  const auto trainer = trainer_on({.workers = 2, .backend = law_backend()}, recipe);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const StepResult result = trainer->step({.hash = true, .audit = i == 0});
    EXPECT_EQ(result.hash, expected[i]);
    EXPECT_EQ(result.disagreement, nullptr);
  }
  g_backend_may_open = true;
  EXPECT_EQ(trainer->end_audit(), nullptr);
}

// By the next audit, or where there is none by the end of the run, before anything is saved there.
TEST(Audit, by_another_backend_speaks_against_what_came_after_the_audit_before) {
  register_faulty_backend();
  for (const std::int64_t last : {20, 12}) {
    Flips::of_test().reset(Flip::kGradients, 4, law_backend());
    Recipe recipe = audited_recipe(4);
    recipe.audit_backend = "cpu";
    const TestFolder folder;
    RunOptions options{
        .out = folder / "run", .data_dir = "", .placement = {.workers = 2, .backend = "faulty"}};
    options.stop_steps = last;
    ArmsAfterStep7 observer;
    try {
      run(recipe, find_model(recipe.model).build, options, observer);
      ADD_FAILURE() << "the fault was not found";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kFault);
      const std::string text = error.what();
      for (const char* part :
           {"step 10: a device computed wrongly", "than the backend cpu of that host computes",
            "audit-step-10.safetensors", "The checkpoints after step 5"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    Flips::of_test().reset(Flip::kNone, 1, law_backend());
    std::vector<std::int64_t> left;
    for (const CheckpointPlace& place : list_checkpoints(folder / "run"))
      left.push_back(place.step);
    EXPECT_EQ(left, (std::vector<std::int64_t>{2, 4}));
    // The batch, and what the replica was computed from.
    const SafetensorsFile kept = read_safetensors(folder / "run/audit-step-10.safetensors");
    EXPECT_NE(kept.find("inputs"), nullptr);
    EXPECT_NE(kept.find("labels"), nullptr);
  }
}

TEST(Audit, by_another_backend_needs_a_device_whose_bits_it_has) {
  register_detached_backend({.traits = {.exact_fp32 = false, .tolerance = 1e-5F}});
  Recipe recipe = small_recipe(32, 4);
  recipe.audit_backend = "cpu";
  try {
    make_trainer(recipe, 2, 1, "detached");
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("this device computes as detached fp32"),
              std::string::npos)
        << error.what();
  }
  register_detached_backend();
}

TEST(Audit, changes_no_result) {
  const auto expected = step_hashes(*make_trainer(small_recipe(32, 4), 1), 12);
  for (const int workers : {1, 2, 3}) {
    for (const int input_threads : {0, 2}) {
      Recipe recipe = small_recipe(32, 4);
      recipe.audit_backend = "cpu";
      const auto trainer = trainer_on(
          {.workers = workers, .input_threads = input_threads, .backend = law_backend()}, recipe);
      std::vector<std::uint64_t> hashes;
      for (int step = 1; step <= 12; ++step) {
        const StepResult result = trainer->step({.hash = true, .audit = step % 2 == 0});
        EXPECT_EQ(result.disagreement, nullptr)
            << (result.disagreement ? result.disagreement->text : "");
        hashes.push_back(result.hash);
      }
      EXPECT_EQ(trainer->end_audit(), nullptr);
      EXPECT_EQ(hashes, expected) << workers << " workers, " << input_threads << " input threads";
    }
  }
}

TEST(Audit, of_ranks_changes_no_result_and_raises_no_alarm) {
  const auto expected = step_hashes(*make_trainer(small_recipe(32, 8), 1), 40);
  on_ranks_of(
      {2, 1}, {.backend = law_backend(), .bucket_bytes = 4096},
      [&](const Placement& placement) { return trainer_on(placement, small_recipe(32, 8)); },
      [&](Trainer& trainer, int rank) {
        for (std::size_t step = 0; step < expected.size(); ++step) {
          const StepResult result = trainer.step({.hash = true, .audit = true});
          ASSERT_EQ(result.disagreement, nullptr) << result.disagreement->text;
          EXPECT_EQ(result.hash, expected[step]) << "rank " << rank << ", step " << step + 1;
        }
      });
}

TEST(Audit, ends_a_run_which_goes_on_from_what_is_proven) {
  register_faulty_backend();
  Flips::of_test().reset(Flip::kKernel, 7, law_backend());
  Recipe recipe = audited_recipe(4);
  const TestFolder folder;
  RunOptions options{
      .out = folder / "run", .data_dir = "", .placement = {.workers = 2, .backend = "faulty"}};
  options.stop_steps = 20;
  // Wrong from step 8 on: the checkpoints of 8 and what comes after 5 cannot be trusted.
  ArmsAfterStep7 observer;
  const Model& model = find_model(recipe.model).build;
  try {
    run(recipe, model, options, observer);
    FAIL() << "the fault was not found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kFault);
    const std::string text = error.what();
    for (const char* part : {"step 10: a device computed wrongly", "audit-step-10.safetensors",
                             "The checkpoints after step 5", "goes on from"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  Flips::of_test().armed = false;
  const SafetensorsFile kept = read_safetensors(folder / "run/audit-step-10.safetensors");
  // Under the names of an inspected step, with its batch.
  const auto sound = make_trainer(recipe, 1);
  step_hashes(*sound, 9);
  for (const NamedTensor& seen : sound->inspect_step(false).tensors) {
    const bool of_step = seen.name == "inputs" || seen.name == "labels";
    if (!of_step && !seen.name.starts_with("before/") && !seen.name.starts_with("after/") &&
        !seen.name.starts_with("state_"))
      continue;
    const Tensor* const own = kept.find(seen.name);
    ASSERT_NE(own, nullptr) << seen.name;
    const auto bytes = static_cast<std::size_t>(own->type().bytes());
    EXPECT_TRUE(!of_step || std::memcmp(own->data(), seen.tensor.data(), bytes) == 0) << seen.name;
  }
  std::vector<std::int64_t> left;
  for (const CheckpointPlace& place : list_checkpoints(folder / "run")) left.push_back(place.step);
  EXPECT_EQ(left, (std::vector<std::int64_t>{2, 4}));
  RunObserver quiet;
  EXPECT_EQ(run(recipe, model, options, quiet).steps, 20);
  options.out = folder / "sound";
  options.placement = {.workers = 1, .backend = law_backend()};
  run(recipe, model, options, quiet);
  EXPECT_EQ(read_text(folder / "run/hashes.jsonl"), read_text(folder / "sound/hashes.jsonl"));
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

// A fault that comes once, or each time.
TEST(Audit, lets_a_run_go_on_by_itself_where_the_recipe_says_so) {
  register_faulty_backend();
  Recipe recipe = audited_recipe(4);
  recipe.audit_then = "resume";
  class Once : public RunObserver {
   public:
    explicit Once(bool heals) : heals_(heals) {}
    int warnings = 0;
    void stepped(const Trainer&, const StepResult& step) override {
      if (step.step == 7 && warnings == 0) Flips::of_test().armed = true;
    }
    void warning(const std::string& text) override {
      // The next start also tells how the last one ended.
      if (!text.starts_with("step ")) return;
      ++warnings;
      if (heals_) Flips::of_test().armed = false;
    }

   private:
    const bool heals_;
  };
  const TestFolder folder;
  const Model& model = find_model(recipe.model).build;
  RunOptions options{.out = folder / "run",
                     .data_dir = "",
                     .placement = {.workers = 2, .backend = "faulty"},
                     .fresh = true};
  options.stop_steps = 20;
  Flips::of_test().reset(Flip::kKernel, 7, law_backend());
  Once once(true);
  EXPECT_EQ(run(recipe, model, options, once).steps, 20);
  EXPECT_GE(once.warnings, 1);
  options.out = folder / "sound";
  options.placement = {.workers = 1, .backend = law_backend()};
  RunObserver quiet;
  run(recipe, model, options, quiet);
  EXPECT_EQ(read_text(folder / "run/hashes.jsonl"), read_text(folder / "sound/hashes.jsonl"));

  Flips::of_test().reset(Flip::kKernel, 7, law_backend());
  options.out = folder / "broken";
  options.placement = {.workers = 2, .backend = "faulty"};
  Once always(false);
  try {
    run(recipe, model, options, always);
    ADD_FAILURE() << "it never ended";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kFault);
  }
  EXPECT_EQ(always.warnings, 3);
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

// A run of three ranks of which the device of one is wrong from step 8 on.
struct RanksOutcome {
  std::vector<RunResult> results = std::vector<RunResult>(3);
  std::vector<std::string> errors = std::vector<std::string>(3);
  std::string warning;
};
RanksOutcome run_with_wrong_rank(int wrong, const RunOptions& options, const Recipe& recipe) {
  class Leading : public RunObserver {
   public:
    std::string text;
    void stepped(const Trainer&, const StepResult& step) override {
      if (step.step == 7) Flips::of_test().armed = true;
    }
    void warning(const std::string& warning) override {
      if (warning.starts_with("step ")) text = warning;
    }
  } leading;
  Flips::of_test().reset(Flip::kAlwaysOnRank, 7, law_backend());
  Flips::of_test().rank = wrong;
  LocalRanks ranks(3);
  RanksOutcome outcome;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      LocalTransport transport(ranks, rank);
      RunOptions of_rank = options;
      of_rank.placement = {.workers = 1, .backend = "faulty"};
      of_rank.placement.ranks = &transport;
      RunObserver quiet;
      try {
        outcome.results[own] = run(recipe, find_model(recipe.model).build, of_rank,
                                   rank == 0 ? static_cast<RunObserver&>(leading) : quiet);
      } catch (const UserError& error) {
        outcome.errors[own] = error.what();
      }
      transport.leave();
    });
  for (std::thread& thread : threads) thread.join();
  outcome.warning = leading.text;
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
  return outcome;
}

TEST(Audit, lets_a_run_go_on_without_the_rank_whose_device_is_wrong) {
  register_faulty_backend();
  Recipe recipe = audited_recipe(8);
  recipe.audit_then = "leave-out";
  const TestFolder folder;
  RunOptions options{.out = folder / "run", .data_dir = "", .placement = {}, .fresh = true};
  options.stop_steps = 20;
  const RanksOutcome one = run_with_wrong_rank(1, options, recipe);
  EXPECT_EQ(one.errors, (std::vector<std::string>(3)));
  EXPECT_NE(one.warning.find("The run goes on without rank 1 on host"), std::string::npos)
      << one.warning;
  EXPECT_EQ(one.results[0].steps, 20);
  EXPECT_FALSE(one.results[1].prepared);
  EXPECT_FALSE(one.results[1].stopped);
  EXPECT_EQ(one.results[2].steps, 20);
  options.out = folder / "sound";
  options.placement = {.workers = 1, .backend = law_backend()};
  RunObserver quiet;
  run(recipe, find_model(recipe.model).build, options, quiet);
  EXPECT_EQ(read_text(folder / "run/hashes.jsonl"), read_text(folder / "sound/hashes.jsonl"));

  // Rank 0 has the folder: the run ends.
  options.out = folder / "leader";
  const RanksOutcome none = run_with_wrong_rank(0, options, recipe);
  for (const std::string& error : none.errors)
    EXPECT_NE(error.find("Start the same command again without that device"), std::string::npos)
        << error;
}

TEST(Audit, names_the_worker_whose_replicas_differ) {
  Flips::of_test().reset(Flip::kKernel, 5, law_backend());
  std::string text;
  EXPECT_NE(audits_until_found(*faulty_trainer({.workers = 2}), &text), 0);
  EXPECT_NE(text.find("computed again, replicas differ on worker 0, 1"), std::string::npos) << text;
  Flips::of_test().reset(Flip::kNone, 1, law_backend());
}

TEST(Audit, a_replica_has_its_hash_on_any_worker_and_rank) {
  const std::vector<std::int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto alone = make_trainer(small_recipe(32, 8), 1);
  static_cast<void>(step_hashes(*alone, 2));
  const std::vector<std::uint64_t> expected = alone->replica_hashes(all);
  EXPECT_EQ(alone->replica_hashes({5}), (std::vector<std::uint64_t>{expected[5]}));
  const auto after = step_hashes(*alone, 2);
  const auto three = make_trainer(small_recipe(32, 8), 3);
  static_cast<void>(step_hashes(*three, 2));
  EXPECT_EQ(three->replica_hashes(all), expected);
  EXPECT_EQ(step_hashes(*three, 2), after) << "the step itself was not made";
  on_ranks_of(
      {2, 1}, {.backend = law_backend()},
      [&](const Placement& placement) { return trainer_on(placement, small_recipe(32, 8)); },
      [&](Trainer& trainer, int rank) {
        static_cast<void>(step_hashes(trainer, 2));
        EXPECT_EQ(trainer.replica_hashes(all), expected) << rank;
      });
}

}  // namespace
}  // namespace podium
