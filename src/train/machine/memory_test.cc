#include "train/machine/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "nn/models.h"
#include "parallel/local_transport.h"
#include "train/run/run.h"

namespace podium {
namespace {

Recipe small_recipe(const std::string& more = "", std::int64_t batch = 256,
                    std::int64_t replicas = 2) {
  return parse_recipe(
      cat("model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 512\ntest_examples = 300\n"
          "batch = ",
          batch, "\nreplicas = ", replicas, "\nepochs = 1\n", more),
      "small");
}

// What check_memory() says; empty: nothing.
std::string refusal(const Recipe& recipe, const Placement& placement, std::int64_t limit,
                    std::int64_t usable = 1) {
  try {
    check_memory(recipe, find_model("mnist").build, stated_shape(recipe), placement, limit, usable);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kMemory);
    return error.what();
  }
  return "";
}

// Of each rank.
std::vector<std::string> refusals(const Recipe& recipe, int count, std::int64_t workers,
                                  std::int64_t limit, std::int64_t usable,
                                  const std::vector<std::string>& hosts = {}) {
  LocalRanks ranks(count, 60, hosts);
  std::vector<std::string> texts(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      LocalTransport transport(ranks, rank);
      texts[static_cast<std::size_t>(rank)] =
          refusal(recipe, {.workers = workers, .ranks = &transport}, limit, usable);
      if (!transport.has_left()) transport.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

// The tests of a limit state what the program holds, since that of a test comes and goes.
class StatedMemory {
 public:
  StatedMemory() { state_resident_memory(32 << 20); }
  ~StatedMemory() { state_resident_memory(0); }
};
constexpr std::int64_t kSlack = 1 << 20;

std::int64_t needed(const Recipe& recipe, const std::vector<int>& workers, int rank = 0) {
  return plan_rank(recipe, find_model("mnist").build, stated_shape(recipe), {}, workers, rank)
      .memory()
      .total();
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Memory, too_little_of_the_machine_or_of_a_limit_is_refused_with_a_setting_that_fits) {
  const StatedMemory stated;
  const Recipe recipe = small_recipe();
  const std::int64_t needs = needed(recipe, {2});
  const Placement placement{.workers = 2};
  EXPECT_GT(usable_memory_bytes(), 0);
  EXPECT_EQ(refusal(recipe, placement, 0, needs), "");
  const std::int64_t program = resident_memory_bytes(), limit = needs + program + kSlack;
  EXPECT_EQ(refusal(recipe, placement, limit), "") << "the limit counts, not the machine";
  expect_parts(refusal(recipe, placement, 0, needs - 1),
               {"this process may take", "--workers 1 fits (the same result)"});
  ASSERT_LT(needed(recipe, {1}) + 4 * kSlack, needs);
  expect_parts(refusal(recipe, placement, limit - 2 * kSlack),
               {"the limit is", "--workers 1 fits (the same result)"});
  EXPECT_EQ(refusal(recipe, {.workers = 1}, limit - 2 * kSlack), "") << "so it fits";
}

TEST(Memory, a_limit_counts_the_program_itself_but_no_data_twice) {
  const StatedMemory stated;
  const Recipe recipe = small_recipe();
  const std::int64_t needs = needed(recipe, {2}), program = resident_memory_bytes();
  ASSERT_GT(program, 8 << 20);
  expect_parts(refusal(recipe, {.workers = 2}, needs + program / 2),
               {"of it the program itself", "the limit is"});
  const DataShape data = stated_shape(recipe);
  ASSERT_LT(data.bytes(), program);
  EXPECT_NO_THROW(check_memory(recipe, find_model("mnist").build, data, {.workers = 2},
                               needs + program + kSlack - data.bytes(), 1, {}, data.bytes()));
}

TEST(Memory, a_loaded_run_needs_what_was_asked_before_loading) {
  for (const std::int64_t validation : {0, 100}) {
    Recipe recipe = small_recipe("", 32);
    recipe.validation = validation;
    const RunData data = load_data(recipe, "");
    EXPECT_EQ(stated_shape(recipe), shape_of(*data.train, *data.held_out));
    EXPECT_EQ(needed(recipe, {2}),
              Trainer(recipe, find_model("mnist").build, data.train, data.held_out, {.workers = 2})
                  .memory_use()
                  .total());
  }
}

TEST(Memory, data_that_do_not_fit_are_refused_before_they_are_loaded) {
  const Recipe recipe = parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 10000000\n"
      "batch = 32\nepochs = 1\n",
      "large");
  const std::int64_t limit = std::int64_t{1} << 30;
  for (const bool of_machine : {false, true})
    expect_parts(refusal(recipe, {}, of_machine ? 0 : limit, limit),
                 {"7.35 GiB of it for its data alone", "1.00 GiB", "fewer examples"});
}

TEST(Memory, an_evaluation_batch_that_is_too_large_is_the_first_thing_to_change) {
  const Recipe recipe = small_recipe("[evaluation]\nbatch = 300\n", 16);
  expect_parts(refusal(recipe, {.workers = 1}, 0, needed(recipe, {1}) - 1),
               {"evaluation.batch=0 fits (the same result)"});
}

TEST(Memory, a_rank_that_needs_more_than_its_limit_is_refused_with_fewer_workers) {
  const StatedMemory stated;
  const Recipe recipe = small_recipe("", 256, 4);
  const std::int64_t needs = needed(recipe, {2, 2});
  const std::int64_t program = resident_memory_bytes();
  for (const std::string& text : refusals(recipe, 2, 2, needs + program + kSlack, 1))
    EXPECT_EQ(text, "");
  const std::int64_t limit = needed(recipe, {1, 1}) + program + kSlack;
  ASSERT_LT(limit + kSlack, needs + program);
  const std::vector<std::string> texts = refusals(recipe, 2, 2, limit, 1, {"a", "b"});
  for (const std::string& text : texts) {
    EXPECT_EQ(text, texts[0]) << "all ranks say the same";
    expect_parts(text, {"rank 0 on host a needs", "; the limit is ", "--workers 1 fits"});
  }
  for (const std::string& text : refusals(recipe, 2, 1, limit, 1))
    EXPECT_EQ(text, "") << "so it fits";
}

TEST(Memory, more_ranks_are_what_fits_where_a_rank_has_one_worker_already) {
  const StatedMemory stated;
  const Recipe recipe = small_recipe("", 64, 16);
  const auto most = [&](int ranks) {
    std::int64_t bytes = 0;
    const std::vector<int> workers(static_cast<std::size_t>(ranks), 1);
    for (int rank = 0; rank < ranks; ++rank) bytes = std::max(bytes, needed(recipe, workers, rank));
    return bytes;
  };
  const std::int64_t program = resident_memory_bytes(), limit = most(8) + program;
  ASSERT_LT(limit, most(2) + program);
  for (const std::string& text : refusals(recipe, 2, 1, limit, 1))
    expect_parts(text, {"--workers 1 on 8 ranks fits (the same result)"});
  for (const std::string& text : refusals(recipe, 8, 1, limit, 1)) EXPECT_EQ(text, "");
}

TEST(Memory, ranks_of_one_host_share_what_it_has) {
  const Recipe recipe = small_recipe("", 256, 4);
  const std::int64_t one = needed(recipe, {1, 1, 1}, 1);
  const std::int64_t usable = one * 3 / 2;
  for (const std::string& text : refusals(recipe, 3, 1, 0, usable, {"a", "b", "c"}))
    EXPECT_EQ(text, "");
  for (const std::string& text : refusals(recipe, 3, 1, 0, usable, {"a", "b", "b"}))
    expect_parts(text, {"rank 1 on host b needs", "all ranks on its host", "they may take",
                        " with --workers 1 fits (another recipe"});
}

}  // namespace
}  // namespace podium
