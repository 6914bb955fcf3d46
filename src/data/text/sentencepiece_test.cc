#include "data/text/sentencepiece.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

// Trained by spm_train on pages of docs/: 420 pieces.
std::string model_file() { return PODIUM_DATA_CORPUS "/sentencepiece/own.model"; }

TEST(SentencePiece, tokens_are_those_of_its_own_program) {
  const auto tokenizer = open_tokenizer(model_file(), "");
  EXPECT_EQ(tokenizer->vocabulary(), 420);
  EXPECT_EQ(end_token(*tokenizer), 2);
  // As `spm_encode --model=own.model --output_format=id` printed them.
  const std::vector<std::int32_t> two = {333, 383, 354, 337, 292, 337, 355, 338, 315, 321, 356},
                                  ein = {333, 390, 279, 333, 408, 198, 191, 271, 349,
                                         263, 342, 265, 322, 344, 269, 270, 329, 338},
                                  euro = {333, 229, 133, 175};
  EXPECT_EQ(tokenizer->tokens_of("Two  dogs run. ", ""), two);
  EXPECT_EQ(tokenizer->tokens_of("Ein H\xC3\xBCndchen the order of sums", ""), ein);
  EXPECT_EQ(tokenizer->tokens_of("  \xE2\x82\xAC", ""), euro);
  std::string text;
  for (const std::int32_t token : ein) text += tokenizer->text_of(token);
  EXPECT_EQ(text, " Ein H\xC3\xBCndchen the order of sums");
  EXPECT_EQ(tokenizer->text_of(2), "");
}

TEST(SentencePiece, what_is_not_read_is_refused_with_the_command_that_trains_it) {
  const std::string good = file_text(model_file());
  const auto refused = [](const std::string& bytes) {
    return user_error(ExitCode::kData, [&] { parse_sentencepiece(bytes, "a.model"); });
  };
  const auto with = [&](const std::vector<char>& more) {
    std::string bytes = good;
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
  };
  EXPECT_CONTAINS(refused("hello"), "a.model: is no model of SentencePiece, or damaged");
  EXPECT_CONTAINS(refused(""), "spm_train --model_type=bpe --byte_fallback=true");
  EXPECT_CONTAINS(refused(good.substr(0, good.size() / 2)), "a.model: ");
  // Fields that come later count: a trainer of unigrams, and a map of characters.
  EXPECT_CONTAINS(refused(with({0x12, 2, 0x18, 1})), "is not byte-pair encoding");
  EXPECT_CONTAINS(refused(with({0x1A, 3, 0x12, 1, 'x'})), "changes characters");
  EXPECT_CONTAINS(refused(with({0x0A, 5, 0x0A, 1, 'y', 0x18, 4})), "piece 420, \"y\"");
}

}  // namespace
}  // namespace podium
