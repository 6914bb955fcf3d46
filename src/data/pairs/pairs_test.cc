#include "data/pairs/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/scratch_test_util.h"
#include "data/source/loader.h"

namespace podium {
namespace {

struct PairRow {
  std::vector<std::int32_t> source, tokens, weights, next;
  std::int32_t length = -1;
};

PairRow pair_of(const Source& set, std::int64_t index) {
  const auto context = static_cast<std::size_t>(set.fields()[0].shape[0]);
  PairRow row;
  for (std::vector<std::int32_t>* field : {&row.source, &row.tokens, &row.weights, &row.next})
    field->resize(context);
  set.read(
      index, nullptr,
      {row.source.data(), &row.length, row.tokens.data(), row.weights.data(), row.next.data()});
  return row;
}

class PairFile : public testing::Test {
 protected:
  PairFile() {
    text_.tokenizer = kWordTokens;
    text_.context = 5;
  }
  std::string file(const std::string& name, const std::string& text) {
    put_text(folder_ / name, text);
    return (folder_ / name).string();
  }
  Pairs open(const std::string& path) { return open_pairs(path, pairs_, text_, table_, 0.25, ""); }
  std::string refusal(const std::string& path) {
    return user_error(ExitCode::kData, [&] { open(path); });
  }
  TestFolder folder_;
  PairOptions pairs_;
  TextOptions text_;
  TableOptions table_;
};

std::string words_of(const Pairs& of, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens)
    text += of.tokenizer->text_of(token) == "\n" ? "| " : of.tokenizer->text_of(token);
  return text;
}

TEST_F(PairFile, two_files_and_a_table_say_the_same) {
  text_.held_out_path = file("other.en", "a dog\n");
  pairs_.held_out_target_path = file("other.de", "ein neuer hund\n");
  pairs_.target_path = file("a.de", "ein hund\r\nzwei hunde laufen\nhund\n");
  const Pairs of = open(file("a.en", "a dog\ntwo dogs run\ndog\n"));
  ASSERT_EQ(of.train->examples(), 3);
  EXPECT_EQ(to_text(of.train->fields()).find("\"source\" i32[5] below "), 0U);
  EXPECT_EQ(unit_of(of.train->fields()), "token");
  const PairRow row = pair_of(*of.train, 1);
  EXPECT_EQ(words_of(of, row.source), "two dogs run | | ");
  EXPECT_EQ(row.length, 4);
  EXPECT_EQ(words_of(of, row.tokens), "| zwei hunde laufen | ");
  EXPECT_EQ(words_of(of, row.next), "zwei hunde laufen | | ");
  EXPECT_EQ(row.weights, (std::vector<std::int32_t>{1, 1, 1, 1, 0}));
  EXPECT_EQ(words_of(of, pair_of(*of.held_out, 0).next), "ein <unk> hund | | ");
  EXPECT_EQ(pair_of(*of.held_out, 0).length, 3);

  pairs_ = {};
  text_.held_out_path = file("other.tsv", "text\tde\na dog\tein neuer hund\n");
  const Pairs table = open(
      file("a.tsv", "text\tde\na dog\tein hund\ntwo dogs run\tzwei hunde laufen\ndog\thund\n"));
  EXPECT_EQ(table.train->identity({}), of.train->identity({}));
  EXPECT_EQ(table.held_out->identity({}), of.held_out->identity({}));
}

TEST_F(PairFile, a_share_is_held_out_and_long_sentences_are_cut_where_the_recipe_says_so) {
  std::string english, german;
  for (int i = 0; i < 40; ++i) english += cat("w", i, " a b c d e\n"), german += cat("v", i, "\n");
  pairs_.target_path = file("a.de", german);
  const std::string path = file("a.en", english);
  EXPECT_CONTAINS(refusal(path), "a.en: 30 sentences of 40 longer than data.context = 5");
  EXPECT_CONTAINS(refusal(path), "has 7 tokens with its end. Cut them at");
  text_.too_long = kCutIfTooLong;
  const Pairs of = open(path);
  EXPECT_EQ(of.train->examples(), 30);
  EXPECT_EQ(of.held_out->examples(), 10);
  EXPECT_EQ(pair_of(*of.train, 0).length, 5);
  ASSERT_EQ(of.notes.size(), 2U);
  EXPECT_CONTAINS(of.notes[0], "cut at the end");
  EXPECT_CONTAINS(words_of(of, pair_of(*of.held_out, 0).next), "<unk> | | | | ");
}

// A sentence for each number: that many words, and as many in the other language.
TEST_F(PairFile, a_batch_has_pairs_of_one_bucket_and_is_as_long_as_that) {
  std::string english, german;
  for (int i = 0; i < 60; ++i) {
    for (int word = 0; word <= i % 7; ++word) english += "a ";
    english += "\n", german += i % 20 == 0 ? "x x x x x\n" : "x\n";
  }
  text_.context = 8;
  pairs_.buckets = {3, 6};
  pairs_.target_path = file("a.de", german);
  const Pairs of = open(file("a.en", english));
  const Loader loader(of.train, {.seed = 4, .batch = 4});
  ASSERT_EQ(loader.buckets(), 3U);
  const std::int64_t lengths[] = {3, 6, 8};
  std::vector<std::int64_t> examples(3), steps(3);
  for (std::int64_t i = 0; i < of.train->examples(); ++i) ++examples[of.train->bucket_of(i)];
  EXPECT_EQ(loader.steps_per_epoch(), examples[0] / 4 + examples[1] / 4 + examples[2] / 4);
  EXPECT_LT(loader.steps_per_epoch(), 45 / 4 + 1);
  for (std::int64_t step = 0; step < 3 * loader.steps_per_epoch(); ++step) {
    const std::size_t bucket = loader.bucket_of(step);
    ++steps[bucket];
    const std::int64_t length = lengths[bucket];
    const auto& fields = loader.fields(bucket);
    EXPECT_EQ(fields[0].shape, Shape{length});
    EXPECT_EQ(fields[1].shape, Shape{});
    const auto places = static_cast<std::size_t>(4 * length);
    std::vector<std::int32_t> source(places), source_length(4), tokens(places), weights(places),
        next(places);
    loader.examples(
        step, 0, 4,
        {source.data(), source_length.data(), tokens.data(), weights.data(), next.data()});
    for (std::size_t row = 0; row < 4; ++row) {
      const auto at = row * static_cast<std::size_t>(length);
      std::int64_t longest = source_length[row];
      longest = std::max<std::int64_t>(
          longest, std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(at),
                                   weights.begin() + static_cast<std::ptrdiff_t>(at) + length, 0));
      EXPECT_LE(longest, length);
      EXPECT_GT(longest, bucket == 0 ? 0 : lengths[bucket - 1]);
      EXPECT_EQ(tokens[at], next[at + static_cast<std::size_t>(length) - 1]);  // the end token
    }
  }
  EXPECT_EQ(steps[0], 3 * (examples[0] / 4));
  EXPECT_EQ(steps[2], 3 * (examples[2] / 4));
  // Another part of a batch is another part of the same examples.
  std::vector<std::int32_t> all(32), part(32), rest(5 * 32);
  loader.examples(0, 0, 4, {all.data(), &rest[0], &rest[32], &rest[64], &rest[96]});
  loader.examples(0, 3, 1, {part.data(), &rest[0], &rest[32], &rest[64], &rest[96]});
  const auto length = static_cast<std::ptrdiff_t>(lengths[loader.bucket_of(0)]);
  EXPECT_TRUE(std::equal(part.begin(), part.begin() + length, all.begin() + 3 * length));
  EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { Loader(of.train, {.batch = 44}); }),
                  "the most examples of one length are");
}

TEST_F(PairFile, what_is_wrong_is_named_with_its_place) {
  EXPECT_CONTAINS(refusal((folder_ / "nowhere.tsv").string()), "was not found");
  EXPECT_CONTAINS(refusal(file("a.en", "a\nb\n")), "name it: data.target_path=FILE");
  pairs_.target_path = file("a.de", "x\ny\nz\n");
  EXPECT_CONTAINS(refusal(file("a.en", "a\nb\n")), "a.en has 2 lines, and ");
  EXPECT_CONTAINS(refusal(file("a.en", "a\nb\n")), "a.de has 3; the sentences of a pair stand");
  EXPECT_CONTAINS(refusal(file("a.en", "a\n\nb\n")), "a.en: line 2, column \"text\": the text is");
  pairs_.target_path = file("a.de", "x\n \nz\n");
  EXPECT_CONTAINS(refusal(file("a.en", "a\nb\nc\n")),
                  "a.de: line 2, column \"target\": the text is");
  EXPECT_CONTAINS(refusal(file("a.en", "")), "a.en has no sentences");
  text_.context = 1;
  EXPECT_CONTAINS(refusal(file("a.en", "a\n")), "use at least 2");
}

}  // namespace
}  // namespace podium
