#include "base/numerics/hash.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/numerics/philox.h"

namespace podium {
namespace {

std::vector<float> some_values(std::size_t count) {
  const PhiloxStream stream(3, RandomPurpose::kInitialise);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = uniform01(stream.word(static_cast<std::uint32_t>(i))) - 0.5f;
  return values;
}

// 0xE220A8397B1DCDAF is the first output of SplitMix64 with seed 0.
TEST(Hash, mix_is_the_finaliser_of_splitmix64) {
  EXPECT_EQ(hash_mix(0x9E3779B97F4A7C15ull), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(hash_mix(0), 0U);
}

// The words are 3f800000, c0200000, 0 and the padding 0; the numbers were worked out from the
// definition in hash.h by another program.
TEST(Hash, agrees_with_a_computation_from_its_definition) {
  const std::vector<float> first = {1.0f, -2.5f, 0.0f}, second = {0.5f};
  EXPECT_EQ(hash_sum(first), 0x41f7f43fc3bf2d4eull);
  EXPECT_EQ(hash_tensor(hash_sum(first), 3), 0x4100693de4a55a54ull);
  EXPECT_EQ(hash_sum(second), 0x3438e0ac1dcd98c2ull);
  EXPECT_EQ(hash_tensor(hash_sum(second), 1), 0x2230fdf4ead7ea4cull);
  const std::uint64_t all =
      hash_append(hash_append(0, 0x4100693de4a55a54ull), 0x2230fdf4ead7ea4cull);
  EXPECT_EQ(all, 0x45193d59fd4ceb92ull);
}

TEST(Hash, shares_add_up_to_the_whole) {
  const std::vector<float> values = some_values(101);
  const std::span<const float> all(values);
  for (const std::size_t cut :
       {std::size_t{0}, std::size_t{2}, std::size_t{50}, std::size_t{100}}) {
    EXPECT_EQ(hash_sum(all.first(cut)) + hash_sum(all.subspan(cut), cut), hash_sum(all)) << cut;
  }
}

TEST(Hash, a_share_that_begins_at_an_odd_word_is_refused) {
  EXPECT_THROW(hash_sum(some_values(3), 1), InternalError);
}

TEST(Hash, one_changed_bit_changes_it) {
  std::vector<float> values = some_values(8);
  const std::uint64_t before = hash_sum(values);
  for (float& value : values) {
    const float old = value;
    value = std::nextafter(value, 1.0f);
    EXPECT_NE(hash_sum(values), before);
    value = old;
  }
  EXPECT_EQ(hash_sum(values), before);
}

TEST(Hash, order_sign_of_zero_and_length_change_it) {
  EXPECT_NE(hash_sum(std::vector<float>{1, 2}), hash_sum(std::vector<float>{2, 1}));
  EXPECT_NE(hash_sum(std::vector<float>{1, 2, 3, 4}), hash_sum(std::vector<float>{3, 4, 1, 2}));
  EXPECT_NE(hash_sum(std::vector<float>{0.0f}), hash_sum(std::vector<float>{-0.0f}));
  const std::vector<float> one = {7}, padded = {7, 0};
  EXPECT_EQ(hash_sum(one), hash_sum(padded));
  EXPECT_NE(hash_tensor(hash_sum(one), 1), hash_tensor(hash_sum(padded), 2));
}

TEST(Hash, the_order_of_tensors_changes_the_hash_of_all) {
  EXPECT_NE(hash_append(hash_append(0, 1), 2), hash_append(hash_append(0, 2), 1));
}

TEST(Hash, takes_what_is_not_a_number) {
  const std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(), INFINITY};
  EXPECT_EQ(hash_sum(values), hash_sum(values));
}

TEST(Hash, text_has_sixteen_digits) {
  EXPECT_EQ(hash_text(0), "0000000000000000");
  EXPECT_EQ(hash_text(0xABCDEFull), "0000000000abcdef");
  EXPECT_EQ(hash_text(0x45193d59fd4ceb92ull), "45193d59fd4ceb92");
}

TEST(Hash, of_bytes_is_that_of_their_words) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{4096},
                                  std::size_t{4097}, std::size_t{20001}}) {
    const std::vector<float> values = some_values(count);
    std::vector<std::uint8_t> bytes(4 * count);
    if (count != 0) std::memcpy(bytes.data(), values.data(), bytes.size());
    EXPECT_EQ(hash_bytes(bytes), hash_tensor(hash_sum(values), bytes.size())) << count;
    if (count == 0) continue;
    const std::uint64_t before = hash_bytes(bytes);
    bytes.push_back(0);
    EXPECT_NE(hash_bytes(bytes), before) << "a zero more";
    bytes.pop_back();
    std::swap(bytes.front(), bytes.back());
    if (bytes.front() != bytes.back()) {
      EXPECT_NE(hash_bytes(bytes), before) << "another order";
    }
  }
}

TEST(Hash, of_bytes_is_given_up_on_request) {
  const std::vector<std::uint8_t> bytes(100);
  std::atomic<int> request{0};
  EXPECT_NO_THROW(hash_bytes(bytes, StopToken(&request)));
  request = 15;
  EXPECT_THROW(hash_bytes(bytes, StopToken(&request)), Stopped);
}

}  // namespace
}  // namespace podium
