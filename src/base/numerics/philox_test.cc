#include "base/numerics/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace podium {
namespace {

// The known answers of philox4x32-10 in Random123's kat_vectors (D. E. Shaw Research).
TEST(Philox, gives_the_known_answers_of_random123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(
      philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, is_known_at_compile_time) {
  static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5u);
  static_assert(PhiloxStream(3, RandomPurpose::kShuffle).word(5) ==
                PhiloxStream(3, RandomPurpose::kShuffle).block(1)[1]);
}

TEST(Philox, a_stream_is_the_cipher_keyed_by_the_seed_and_counted_by_its_tag) {
  const PhiloxStream stream(0x0123456789abcdefull, RandomPurpose::kDropout, 5);
  EXPECT_EQ(stream.key(), (std::array<std::uint32_t, 2>{0x89abcdefu, 0x01234567u}));
  EXPECT_EQ(stream.tag(), 0x03000005u);
  EXPECT_EQ(stream.block(7, 8, 9), philox({7, 8, 9, 0x03000005u}, {0x89abcdefu, 0x01234567u}));
}

TEST(Philox, purposes_keep_their_numbers) {
  EXPECT_EQ(static_cast<int>(RandomPurpose::kInitialise), 1);
  EXPECT_EQ(static_cast<int>(RandomPurpose::kShuffle), 2);
  EXPECT_EQ(static_cast<int>(RandomPurpose::kDropout), 3);
  EXPECT_EQ(static_cast<int>(RandomPurpose::kAugment), 4);
  EXPECT_EQ(static_cast<int>(RandomPurpose::kGlyphs), 5);
}

TEST(Philox, words_are_the_blocks_one_after_the_other) {
  const PhiloxStream stream(42, RandomPurpose::kInitialise);
  for (std::uint32_t i = 0; i < 23; ++i) {
    EXPECT_EQ(stream.word(i, 6, 7), stream.block(i / 4, 6, 7)[i % 4]) << i;
  }
}

TEST(Philox, seed_purpose_index_and_each_counter_change_the_numbers) {
  std::set<std::uint32_t> first_words;
  const auto note = [&](const PhiloxStream& stream, std::uint32_t a, std::uint32_t b,
                        std::uint32_t c) { first_words.insert(stream.block(a, b, c)[0]); };
  const PhiloxStream stream(1, RandomPurpose::kDropout);
  note(stream, 0, 0, 0);
  note(stream, 1, 0, 0);
  note(stream, 0, 1, 0);
  note(stream, 0, 0, 1);
  note(PhiloxStream(2, RandomPurpose::kDropout), 0, 0, 0);
  note(PhiloxStream(1 + (1ull << 32), RandomPurpose::kDropout), 0, 0, 0);
  note(PhiloxStream(1, RandomPurpose::kShuffle), 0, 0, 0);
  note(PhiloxStream(1, RandomPurpose::kDropout, 1), 0, 0, 0);
  EXPECT_EQ(first_words.size(), 8U);
}

TEST(Philox, uniform01_takes_the_upper_24_bits_and_stays_below_1) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_EQ(uniform01(0xff), 0.0f);
  EXPECT_EQ(uniform01(0x100), 0x1p-24f);
  EXPECT_EQ(uniform01(0x80000000u), 0.5f);
  EXPECT_EQ(uniform01(0xffffffffu), 1 - 0x1p-24f);
}

TEST(Philox, uniform_below_reaches_both_ends_and_no_further) {
  EXPECT_EQ(uniform_below(0, 10), 0U);
  EXPECT_EQ(uniform_below(0xffffffffu, 10), 9U);
  EXPECT_EQ(uniform_below(0xffffffffu, 1), 0U);
  EXPECT_EQ(uniform_below(0xffffffffu, 0xffffffffu), 0xfffffffeu);
  EXPECT_EQ(uniform_below(0x80000000u, 10), 5U);
}

TEST(Philox, uniform_below_is_even_over_its_values) {
  const PhiloxStream stream(9, RandomPurpose::kShuffle);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70000;
  for (std::uint32_t i = 0; i < kDraws; ++i) ++counts[uniform_below(stream.word(i), 7)];
  // Five deviations of a count: sqrt(70000 * 1/7 * 6/7) = 93.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 465);
}

}  // namespace
}  // namespace podium
