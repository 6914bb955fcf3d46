#include "data/text/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/source/loader.h"
#include "data/text/utf8.h"

namespace podium {
namespace {

// The rules of RFC 3629, by numbers.
std::string utf8_of(std::uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8, every_code_point_but_surrogates_is_a_character) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    const std::string text = utf8_of(c);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(utf8_length(text + "x"), surrogate ? 0 : text.size()) << std::hex << c;
  }
  EXPECT_EQ(utf8_length(utf8_of(0x110000)), 0u);
}

TEST(Utf8, what_is_longer_than_needed_or_cut_is_none) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xC3",
        "\xE2\x82", "\xF0\x9F\x98", "\xC3x", "\xFF", "\xF5\x80\x80\x80"})
    EXPECT_EQ(utf8_length(text), 0u) << text;
  EXPECT_EQ(utf8_length(""), 0u);
}

class TextFile : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::filesystem::path path = folder_ / "a.txt";
    put_text(path, text);
    return path.string();
  }
  Text open(const std::string& text, const TextOptions& options, double held_out = 0.25) {
    return open_text(file(text), options, held_out, "");
  }
  std::string refusal(const std::string& text, const TextOptions& options) {
    return user_error(ExitCode::kData, [&] { open(text, options); });
  }
  TestFolder folder_;
};

std::vector<std::int32_t> window(const Source& set, std::int64_t index, const ExampleKey* key,
                                 std::vector<std::int32_t>* next = nullptr) {
  const auto context = static_cast<std::size_t>(set.fields()[0].shape[0]);
  std::vector<std::int32_t> tokens(context), after(context);
  set.read(index, key, {tokens.data(), after.data()});
  if (next != nullptr) *next = after;
  return tokens;
}

TEST_F(TextFile, characters_are_numbered_by_their_code_points) {
  const Text text = open("ab\nbü€a😀ba\nab€\nabab", {.tokenizer = "chars", .context = 2});
  const std::vector<Field> fields = text.train->fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].words, (std::vector<std::string>{"\n", "a", "b", "ü", "€", "😀"}));
  EXPECT_EQ(fields[0].below, 6);
  EXPECT_EQ(fields[0].unit, "token");
  EXPECT_TRUE(fields[1].target);
  std::vector<std::int32_t> next;
  EXPECT_EQ(window(*text.train, 1, nullptr, &next), (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(next, (std::vector<std::int32_t>{2, 3}));
}

TEST_F(TextFile, bytes_are_their_values_and_need_no_encoding) {
  const Text text = open(std::string("\xFF\x00\x01\x80\x7F\x41\x42\x43", 8), {.context = 1});
  EXPECT_EQ(text.train->fields()[0].below, 256);
  EXPECT_EQ(window(*text.train, 0, nullptr), std::vector<std::int32_t>{255});
  EXPECT_EQ(window(*text.train, 3, nullptr), std::vector<std::int32_t>{128});
  EXPECT_EQ(window(*text.held_out, 0, nullptr), std::vector<std::int32_t>{'B'});
}

TEST_F(TextFile, words_are_numbered_by_how_often_they_occur) {
  const Text text =
      open("the cat\tthe  dog\nthe <unk> cat\n", {.tokenizer = "words", .context = 1});
  const std::vector<std::string> words = {"the", "<eos>", "cat", "<unk>", "dog"};
  EXPECT_EQ(text.train->fields()[0].words, words);
  const auto tokenizer = tokenizer_of_words("words", words);
  EXPECT_EQ(tokenizer->tokens_of("the bird\n", "prompt"), (std::vector<std::int32_t>{0, 3, 1}));
  EXPECT_EQ(tokenizer->text_of(0) + tokenizer->text_of(1), "the \n");
  EXPECT_CONTAINS(
      user_error(ExitCode::kData,
                 [] {
                   tokenizer_of_words("words", {"<eos>", "the"})->tokens_of("the\nbird", "p");
                 }),
      "p: line 2 (byte 4) has the word \"bird\", which the text of the training");
}

TEST_F(TextFile, the_end_is_held_out_in_windows_that_follow_each_other) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i);
  const Text parts = open(text, {.context = 8});
  EXPECT_EQ(parts.train->examples(), (75 - 8) / 8);
  EXPECT_EQ(parts.held_out->examples(), (25 - 1) / 8);
  std::vector<std::int32_t> next;
  EXPECT_EQ(window(*parts.held_out, 2, nullptr, &next).front(), 75 + 16);
  EXPECT_EQ(next.back(), 99);
}

TEST_F(TextFile, an_epoch_reads_windows_that_do_not_overlap_from_a_drawn_place) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  const Text parts = open(text, {.context = 8});
  std::set<std::int32_t> places;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const ExampleKey key{.seed = 3, .epoch = epoch};
    const std::int32_t first = window(*parts.train, 0, &key).front();
    EXPECT_GE(first, 0);
    EXPECT_LT(first, 8);
    places.insert(first);
    for (std::int64_t i = 0; i < parts.train->examples(); ++i) {
      std::vector<std::int32_t> next;
      const std::vector<std::int32_t> tokens = window(*parts.train, i, &key, &next);
      for (std::int32_t k = 0; k < 8; ++k) {
        EXPECT_EQ(tokens[static_cast<std::size_t>(k)], first + 8 * i + k);
        EXPECT_EQ(next[static_cast<std::size_t>(k)], first + 8 * i + k + 1);
      }
      EXPECT_LT(next.back(), 150);  // the rest is held out
    }
  }
  EXPECT_GT(places.size(), 5u);
}

TEST_F(TextFile, streams_go_on_from_step_to_step) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i);
  const Text parts = open(text, {.context = 4, .order = kStreamedWindows}, 0.1);
  EXPECT_EQ(parts.train->examples(), (90 - 1) / 4);  // from the first token on
  const Loader loader(parts.train, {.seed = 3, .batch = 4});
  ASSERT_EQ(loader.steps_per_epoch(), 22 / 4);
  std::vector<std::int32_t> tokens(16), next(16);
  for (std::int64_t step = 0; step < 10; ++step) {  // two epochs
    EXPECT_EQ(loader.begins(step), step % 5 == 0);
    loader.examples(step, 0, 4, {tokens.data(), next.data()});
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t k = 0; k < 4; ++k) {
        EXPECT_EQ(tokens[static_cast<std::size_t>(row * 4 + k)], row * 20 + step % 5 * 4 + k);
        EXPECT_EQ(next[static_cast<std::size_t>(row * 4 + k)], row * 20 + step % 5 * 4 + k + 1);
      }
  }
}

TEST_F(TextFile, another_text_is_held_out_in_the_tokens_of_the_first) {
  put_text(folder_ / "held.txt", "b a b a b");
  const auto open_both = [&](const std::string& tokenizer, const std::string& held_out) {
    return open("a a b a b b a\n",
                {.tokenizer = tokenizer, .context = 2, .held_out_path = held_out});
  };
  const Text parts = open_both("words", (folder_ / "held.txt").string());
  EXPECT_EQ(parts.train->examples(), (8 - 2) / 2);  // all of the text
  EXPECT_EQ(parts.held_out->examples(), (5 - 1) / 2);
  EXPECT_EQ(parts.held_out->origin(), (folder_ / "held.txt").string());
  EXPECT_EQ(window(*parts.held_out, 0, nullptr), (std::vector<std::int32_t>{1, 0}));
  put_text(folder_ / "held.txt", "b a c a b");
  EXPECT_CONTAINS(
      user_error(ExitCode::kData, [&] { open_both("words", (folder_ / "held.txt").string()); }),
      "held.txt: line 1 (byte 4) has the word \"c\", which the text of the training");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { open_both("bytes", "nowhere.txt"); }),
                  "the text nowhere.txt was not found");
}

TEST_F(TextFile, another_text_or_context_has_another_identity) {
  const std::string text = "the same words again, the same words";
  const auto identity = [&](const std::string& of, const TextOptions& options) {
    return open(of, options).train->identity({});
  };
  const std::string own = identity(text, {.context = 4});
  EXPECT_EQ(identity(text, {.context = 4}), own);
  EXPECT_NE(identity(text, {.context = 5}), own);
  EXPECT_NE(identity("T" + text.substr(1), {.context = 4}), own);
  // Equal numbers, other characters.
  EXPECT_NE(identity("abababababab", {.tokenizer = "chars", .context = 2}),
            identity("cdcdcdcdcdcd", {.tokenizer = "chars", .context = 2}));
}

TEST_F(TextFile, a_bad_file_is_named_with_its_place_and_a_remedy) {
  EXPECT_CONTAINS(refusal("", {}), "a.txt is empty; name a file that has text");
  EXPECT_CONTAINS(refusal("short", {.context = 64}),
                  "a.txt: the part to train on has 3 tokens, and needs at least 128 for "
                  "windows of data.context = 64; use a longer text or a shorter context");
  EXPECT_CONTAINS(refusal("0123456789", {.context = 3}),
                  "the part held out (data.held_out) has 3 tokens, and needs at least 4");
  EXPECT_CONTAINS(refusal("one\ntwo \xC3 three", {.tokenizer = "chars", .context = 2}),
                  "a.txt: line 2 (byte 8) is not UTF-8; save the file");
  EXPECT_THROW(open_text((folder_ / "none.txt").string(), {}, 0.1, ""), UserError);
  EXPECT_THROW(open_text(folder_.path().string(), {}, 0.1, ""), UserError);
}

TEST_F(TextFile, the_loader_reads_it_as_any_source) {
  const Text parts = open(std::string(200, 'a') + std::string(100, 'b'), {.context = 8});
  const Loader loader(parts.train, {.seed = 1, .batch = 4});
  std::vector<std::int32_t> tokens(4 * 8), next(4 * 8), others(2 * 8), other_next(2 * 8);
  loader.examples(5, 0, 4, {tokens.data(), next.data()});
  loader.examples(5, 2, 2, {others.data(), other_next.data()});
  EXPECT_TRUE(std::equal(others.begin(), others.end(), tokens.begin() + 16));
  EXPECT_TRUE(std::equal(other_next.begin(), other_next.end(), next.begin() + 16));
}

}  // namespace
}  // namespace podium
