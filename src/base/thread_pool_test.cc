#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace podium {
namespace {

class ThreadPoolOf : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, runs_every_part_once) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int parts : {0, 1, 2, 3, 7, 100}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(parts));
    pool.run(parts, [&](int part, int) { ++calls[static_cast<std::size_t>(part)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1) << parts << " parts";
  }
}

TEST_P(ThreadPoolOf, names_the_thread_by_a_number_below_their_count) {
  ThreadPool pool(GetParam());
  std::atomic<int> wrong{0};
  const auto caller = std::this_thread::get_id();
  pool.run(200, [&](int, int thread) {
    const bool is_caller = std::this_thread::get_id() == caller;
    if (thread < 0 || thread >= GetParam() || (thread == 0) != is_caller) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ThreadPoolOf, a_thread_number_is_never_used_by_two_parts_at_once) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam()));
  std::atomic<int> wrong{0};
  pool.run(300, [&](int, int thread) {
    std::atomic<int>& mine = inside[static_cast<std::size_t>(thread)];
    if (++mine != 1) ++wrong;
    std::this_thread::yield();
    --mine;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ThreadPoolOf, what_parts_wrote_is_seen_by_the_caller_job_after_job) {
  ThreadPool pool(GetParam());
  std::vector<int> values(16, 0);  // plain memory: run() alone orders it
  for (int job = 1; job <= 200; ++job) {
    pool.run(16, [&](int part, int) { values[static_cast<std::size_t>(part)] += part; });
    for (int part = 0; part < 16; ++part)
      ASSERT_EQ(values[static_cast<std::size_t>(part)], job * part) << "job " << job;
  }
}

TEST_P(ThreadPoolOf, rethrows_what_a_part_threw) {
  ThreadPool pool(GetParam());
  try {
    pool.run(10, [](int part, int) {
      if (part == 6) throw std::runtime_error("part 6");
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "part 6");
  }
}

TEST_P(ThreadPoolOf, throws_one_exception_where_many_parts_throw) {
  ThreadPool pool(GetParam());
  EXPECT_THROW(pool.run(50, [](int, int) { throw std::invalid_argument("each"); }),
               std::invalid_argument);
}

TEST_P(ThreadPoolOf, goes_on_after_an_exception) {
  ThreadPool pool(GetParam());
  EXPECT_THROW(pool.run(4, [](int, int) { throw 1; }), int);
  std::atomic<int> calls{0};
  pool.run(4, [&](int, int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST_P(ThreadPoolOf, ends_while_its_threads_sleep) {
  ThreadPool pool(GetParam());
  pool.run(4, [](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> calls{0};
  pool.run(4, [&](int, int) { ++calls; });  // wakes them
  EXPECT_EQ(calls, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST_P(ThreadPoolOf, run_on_each_calls_every_thread_once_by_its_number) {
  ThreadPool pool(GetParam());
  std::vector<int> calls(static_cast<std::size_t>(GetParam()));  // plain memory: run orders it
  std::vector<std::thread::id> ids(calls.size());
  for (int round = 1; round <= 100; ++round) {
    pool.run_on_each([&](int thread) {
      const auto t = static_cast<std::size_t>(thread);
      ++calls[t];
      if (round == 1) ids[t] = std::this_thread::get_id();
      if (ids[t] != std::this_thread::get_id()) calls[t] += 1000;
    });
    for (const int count : calls) ASSERT_EQ(count, round) << "always the same thread";
    if (round % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they sleep
  }
  EXPECT_EQ(ids[0], std::this_thread::get_id());
}

TEST_P(ThreadPoolOf, run_on_each_lets_all_go_and_rethrows_where_one_throws) {
  ThreadPool pool(GetParam());
  std::atomic<bool> given_up{false};
  std::atomic<int> let_go{0};
  EXPECT_THROW(pool.run_on_each(
                   [&](int thread) {
                     if (thread == GetParam() - 1) throw std::invalid_argument("the last");
                     while (!given_up) std::this_thread::yield();
                     ++let_go;
                   },
                   [&] { given_up = true; }),
               std::invalid_argument);
  EXPECT_EQ(let_go, GetParam() - 1);
  std::atomic<int> calls{0};
  pool.run_on_each([&](int) { ++calls; });
  pool.run(7, [&](int, int) { ++calls; });
  EXPECT_EQ(calls, GetParam() + 7) << "it goes on after an exception";
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Values(1, 2, 3, 5));

// One part of the first job lets the guest ask; each part of the second waits for the other, so
// neither thread can take both.
TEST_P(ThreadPoolOf, lets_a_guest_that_asked_take_part) {
  ThreadPool pool(GetParam());
  const int number_of_guest = GetParam();
  std::atomic<bool> asked{false}, over{false};
  std::thread guest([&] {
    EXPECT_FALSE(pool.help(0)) << "nothing runs yet";
    asked = true;
    while (!over) {
      if (!pool.help(0)) std::this_thread::yield();
    }
  });
  while (!asked) std::this_thread::yield();
  const int parts = GetParam() + 1;
  std::atomic<int> arrived{0}, by_guest{0};
  std::vector<int> values(static_cast<std::size_t>(parts), 0);  // plain memory
  pool.run(parts, [&](int part, int thread) {
    values[static_cast<std::size_t>(part)] = part + 1;
    if (thread == number_of_guest) ++by_guest;
    for (++arrived; arrived < parts;) std::this_thread::yield();
  });
  EXPECT_EQ(by_guest, 1);
  for (int part = 0; part < parts; ++part)
    EXPECT_EQ(values[static_cast<std::size_t>(part)], part + 1);
  over = true;
  guest.join();
}

TEST_P(ThreadPoolOf, runs_every_part_once_however_guests_come_and_go) {
  ThreadPool pool(GetParam());
  constexpr int kGuests = 2;
  std::atomic<bool> over{false};
  std::vector<std::thread> guests;
  for (int guest = 0; guest < kGuests; ++guest) {
    guests.emplace_back([&, guest] {
      for (int i = 0; !over; ++i) {
        if (!pool.help(guest) && i % 7 == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam() + kGuests));
  std::vector<int> values(32, 0);
  std::atomic<int> wrong{0};
  for (int job = 1; job <= 300; ++job) {
    const int parts = 1 + job % 32;
    pool.run(parts, [&](int part, int thread) {
      std::atomic<int>& mine = inside[static_cast<std::size_t>(thread)];
      if (++mine != 1) ++wrong;
      ++values[static_cast<std::size_t>(part)];
      --mine;
    });
    for (int part = 0; part < parts; ++part)
      ASSERT_EQ(std::exchange(values[static_cast<std::size_t>(part)], 0), 1) << "job " << job;
  }
  over = true;
  for (std::thread& guest : guests) guest.join();
  EXPECT_EQ(wrong, 0);
}

// The first part waits until the guest has asked; the others wait for each other, so neither thread
// can take both.
TEST(ThreadPool, lets_a_guest_into_what_is_left_of_a_job) {
  ThreadPool pool(1);
  std::atomic<bool> started{false}, asked{false}, over{false};
  std::thread guest([&] {
    while (!started) std::this_thread::yield();
    EXPECT_FALSE(pool.help(0)) << "a pool of one works alone until it is asked";
    asked = true;
    while (!over) {
      if (!pool.help(0)) std::this_thread::yield();
    }
  });
  std::atomic<int> arrived{0}, by_guest{0};
  std::vector<int> values(3, 0);
  pool.run(3, [&](int part, int thread) {
    ++values[static_cast<std::size_t>(part)];
    started = true;
    if (thread == 1) ++by_guest;
    if (part > 0) ++arrived;
    while (part > 0 ? arrived < 2 : !asked) std::this_thread::yield();
  });
  EXPECT_EQ(by_guest, 1);
  EXPECT_EQ(values, std::vector<int>(3, 1));
  over = true;
  guest.join();
}

TEST(ThreadPool, several_threads_do_take_part) {
  ThreadPool pool(2);
  // Each part waits for the other, so neither thread can take both.
  std::atomic<int> arrived{0};
  pool.run(2, [&](int, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

}  // namespace
}  // namespace podium
