#include "backend/cpu/jobs.h"

#include <gtest/gtest.h>

namespace podium::cpu {
namespace {

// A program of steps that do nothing, over so many slots of the arena.
Program program_of(int slots, std::vector<Step> steps) {
  Program program;
  program.slots.assign(static_cast<std::size_t>(slots), SlotInfo{.bytes = 64});
  program.steps = std::move(steps);
  return program;
}

std::vector<std::size_t> ends(const std::vector<Job>& jobs) {
  std::vector<std::size_t> ends;
  for (const Job& job : jobs) ends.push_back(job.end);
  return ends;
}

// 0 -> both gradients of a convolution -> the next operation.
Program gradients() {
  return program_of(5, {{.name = "before", .parts = 2, .reads = {}, .writes = {0}},
                        {.name = "to the input", .parts = 8, .reads = {0, 1}, .writes = {2}},
                        {.name = "to the weights", .parts = 1, .reads = {0, 1}, .writes = {3}},
                        {.name = "after", .parts = 3, .reads = {2}, .writes = {4}}});
}

TEST(Jobs, steps_that_need_nothing_of_each_other_are_one) {
  const std::vector<Job> jobs = jobs_of(gradients(), 2);
  EXPECT_EQ(ends(jobs), (std::vector<std::size_t>{1, 3, 4}));
  EXPECT_EQ(jobs[1].parts, 9);
}

TEST(Jobs, one_thread_does_one_step_after_the_other) {
  EXPECT_EQ(ends(jobs_of(gradients(), 1)), (std::vector<std::size_t>{1, 2, 3, 4}));
}

TEST(Jobs, a_step_waits_for_whoever_writes_what_it_reads) {
  EXPECT_EQ(jobs_of(program_of(2, {{.reads = {}, .writes = {0}}, {.reads = {0}, .writes = {1}}}), 2)
                .size(),
            2u);
}

TEST(Jobs, a_step_waits_for_whoever_reads_what_it_writes) {
  EXPECT_EQ(jobs_of(program_of(2, {{.reads = {0}, .writes = {1}}, {.reads = {}, .writes = {0}}}), 2)
                .size(),
            2u);
}

TEST(Jobs, a_step_waits_for_whoever_writes_what_it_writes) {
  EXPECT_EQ(jobs_of(program_of(1, {{.reads = {}, .writes = {0}}, {.reads = {}, .writes = {0}}}), 2)
                .size(),
            2u);
}

TEST(Jobs, a_step_waits_for_every_step_of_the_job) {
  const Program program = program_of(
      4,
      {{.reads = {}, .writes = {0}}, {.reads = {}, .writes = {1}}, {.reads = {0}, .writes = {2}}});
  EXPECT_EQ(ends(jobs_of(program, 2)), (std::vector<std::size_t>{2, 3}));
}

// Its outputs may be the memory of inputs that others read under another slot.
TEST(Jobs, an_update_stands_beside_updates_alone) {
  const Step reader{.reads = {0}, .writes = {1}};
  const Step update{.reads = {0}, .writes = {2}, .updates = true};
  const Step other{.reads = {3}, .writes = {4}, .updates = true};
  EXPECT_EQ(jobs_of(program_of(5, {reader, update}), 2).size(), 2u);
  EXPECT_EQ(jobs_of(program_of(5, {update, reader}), 2).size(), 2u);
  EXPECT_EQ(jobs_of(program_of(5, {update, other}), 2).size(), 1u);
}

TEST(Jobs, what_a_job_uses_lives_through_all_of_it) {
  const Program program = gradients();
  const std::vector<Lifetime> lives = lifetimes_of(program, jobs_of(program, 2), {0, 1, 2, 3, 4});
  const auto life = [&](std::size_t slot) {
    return std::pair{lives[slot].first, lives[slot].last};
  };
  EXPECT_EQ(life(0), (std::pair<std::int64_t, std::int64_t>{0, 1}));
  EXPECT_EQ(life(1), (std::pair<std::int64_t, std::int64_t>{1, 1}));
  EXPECT_EQ(life(2), (std::pair<std::int64_t, std::int64_t>{1, 2}));
  EXPECT_EQ(life(3), (std::pair<std::int64_t, std::int64_t>{1, 1}));
}

// The memory of an operand that another step of the job still reads is not given away.
TEST(Jobs, an_operand_gives_up_its_memory_only_to_a_step_that_alone_uses_it) {
  const Step before{.reads = {}, .writes = {0}};
  const Step in_place{.reads = {0}, .writes = {1}, .in_place = {0}};
  const Step reader{.reads = {0}, .writes = {2}};
  const auto takes = [](const Program& program, int threads) {
    return !lifetimes_of(program, jobs_of(program, threads), {0, 1, 2})[1].may_take.empty();
  };
  EXPECT_TRUE(takes(program_of(3, {before, in_place}), 2));
  EXPECT_FALSE(takes(program_of(3, {before, in_place, reader}), 2));
  EXPECT_FALSE(takes(program_of(3, {before, reader, in_place}), 2));
  EXPECT_TRUE(takes(program_of(3, {before, reader, in_place}), 1));
}

}  // namespace
}  // namespace podium::cpu
