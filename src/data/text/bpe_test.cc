#include "data/text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/text/bpe_test_util.h"
#include "data/text/scored_pieces.h"
#include "files/file_io.h"

namespace podium {
namespace {

using Ids = std::vector<std::int32_t>;

// Bytes are the tokens 0 to 255, and five more are made of them.
BpeModel small_model() {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
  const auto merge = [&](std::int32_t left, std::int32_t right) {
    const auto id = static_cast<std::int32_t>(model.tokens.size());
    model.tokens.push_back(model.tokens[static_cast<std::size_t>(left)] +
                           model.tokens[static_cast<std::size_t>(right)]);
    model.merges.push_back({left, right, id});
    return id;
  };
  const std::int32_t he = merge('h', 'e');     // 256
  const std::int32_t ll = merge('l', 'l');     // 257
  merge(he, ll);                               // 258 "hell"
  const std::int32_t aa = merge('a', 'a');     // 259
  merge(aa, aa);                               // 260 "aaaa"
  model.tokens.emplace_back("<|endoftext|>");  // 261
  model.special.assign(model.tokens.size(), false);
  model.special.back() = true;
  return model;
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.tokens_of(text, "text");
}
std::string decoded(const Tokenizer& tokenizer, const Ids& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += tokenizer.text_of(token);
  return text;
}

TEST(Bpe, merges_the_pair_that_was_merged_first_the_leftmost_first) {
  const auto tokenizer = bpe_tokenizer(small_model(), "small");
  EXPECT_EQ(encoded(*tokenizer, "hello"), (Ids{258, 'o'}));
  EXPECT_EQ(encoded(*tokenizer, "aaaaa"), (Ids{260, 'a'}));
  EXPECT_EQ(encoded(*tokenizer, "aaa"), (Ids{259, 'a'}));
  EXPECT_EQ(encoded(*tokenizer, "ell"), (Ids{'e', 257}));
  EXPECT_EQ(encoded(*tokenizer, ""), Ids());
  // A blank begins another piece, so that nothing is merged over it.
  EXPECT_EQ(encoded(*tokenizer, "a a"), (Ids{'a', ' ', 'a'}));
  // Of any length, in reasonable time.
  const std::string long_piece(100'001, 'a');
  const Ids tokens = encoded(*tokenizer, long_piece);
  EXPECT_EQ(tokens.size(), 25'001u);
  EXPECT_EQ(decoded(*tokenizer, tokens), long_piece);
}

TEST(Bpe, a_text_never_has_a_special_token_and_every_text_has_tokens) {
  const auto tokenizer = bpe_tokenizer(small_model(), "small");
  EXPECT_EQ(tokenizer->vocabulary(), 262);
  EXPECT_EQ(tokenizer->separator(), 261);
  for (const std::string& text :
       {std::string("<|endoftext|>"), std::string("\xff\xfe hello \xc3"), std::string("a\0b", 3),
        std::string("\xf0\x9f\x98\x80 \xe2\x80\x8d"), std::string(70, '\n'),
        std::string("\r\n\x1c")}) {
    const Ids tokens = encoded(*tokenizer, text);
    EXPECT_EQ(decoded(*tokenizer, tokens), text);
    EXPECT_EQ(std::ranges::count(tokens, 261), 0);
  }
}

TEST(Bpe, a_text_may_be_cut_at_a_blank_between_letters) {
  const auto tokenizer = bpe_tokenizer(small_model(), "small");
  const std::string text = "hello hell 12 \n\n aaaa";
  EXPECT_EQ(tokenizer->cut(text, 9), 5u);
  EXPECT_EQ(tokenizer->cut(text, 19), 5u);
  EXPECT_EQ(tokenizer->cut(text, 4), 0u);
  EXPECT_EQ(tokenizer->cut(text, 100), text.size());
  Ids parts = encoded(*tokenizer, text.substr(0, 5));
  const Ids rest = encoded(*tokenizer, text.substr(5));
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, encoded(*tokenizer, text));
  BpeModel other = small_model();
  other.patterns = {".+"};
  EXPECT_EQ(bpe_tokenizer(other, "other")->cut(text, 9), 0u);
}

TEST(Bpe, a_vocabulary_without_a_byte_or_with_a_damaged_pattern_is_refused) {
  BpeModel model = small_model();
  model.tokens[7] = "seven";
  EXPECT_NE(user_error(ExitCode::kData, [&] { bpe_tokenizer(model, "v.json"); })
                .find("v.json: no token is the byte 7"),
            std::string::npos);
  model = small_model();
  model.patterns = {"(a"};
  EXPECT_NE(user_error(ExitCode::kData, [&] { bpe_tokenizer(model, "v.json"); })
                .find("v.json: the pattern \"(a\" is no regular expression of PCRE2: "),
            std::string::npos);
}

TEST(BpeFiles, of_gpt2_are_read_and_what_does_not_fit_is_named) {
  // U+0120 is the blank.
  const std::string vocabulary =
      spelled_vocabulary("\"he\": 256, \"\u0120he\": 257, \"<|endoftext|>\": 258");
  const auto parse = [&](const std::string& encoder, const std::string& merges) {
    return parse_bpe(encoder, merges, "encoder.json", "vocab.bpe");
  };
  const auto tokenizer =
      bpe_tokenizer(parse(vocabulary, "#version: 0.2\nh e\n\u0120 he\n"), "encoder.json");
  EXPECT_EQ(encoded(*tokenizer, "he he"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer->text_of(257), " he");
  EXPECT_EQ(tokenizer->separator(), 258);
  const auto error = [&](const std::string& encoder, const std::string& merges) {
    return user_error(ExitCode::kData, [&] { parse(encoder, merges); });
  };
  EXPECT_NE(error("{\"a\": 1", "").find("encoder.json: is no JSON object"), std::string::npos);
  EXPECT_NE(error("{\"a\": -1}", "").find("the token \"a\" has no number from 0"),
            std::string::npos);
  EXPECT_NE(error(vocabulary, "h e\nhe\n").find("vocab.bpe: line 2: \"he\" is not two tokens"),
            std::string::npos);
  EXPECT_NE(error(vocabulary, "x e\n").find("vocab.bpe: line 1: merges \"x\" and \"e\", but they"),
            std::string::npos);
}

std::string tokenizer_json(const std::string& cutter, const std::string& model = "",
                           const std::string& normalizer = "null") {
  return cat("{\"normalizer\": ", normalizer, ", \"pre_tokenizer\": ", cutter,
             ", \"added_tokens\": [{\"id\": 258, \"content\": \"</s>\"}], \"model\": {", model,
             "\"type\": \"BPE\", \"vocab\": ", spelled_vocabulary("\"he\": 256, \"hel\": 257"),
             ", \"merges\": [\"h e\", [\"he\", \"l\"]]}}");
}

constexpr const char* kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false})";

TEST(BpeFiles, a_tokenizer_json_is_read) {
  const auto tokenizer = bpe_tokenizer(parse_bpe_json(tokenizer_json(kByteLevel), "t.json"), "t");
  EXPECT_EQ(encoded(*tokenizer, "help he"), (Ids{257, 'p', ' ', 256}));
  EXPECT_EQ(tokenizer->separator(), 258);
  // Digits by three, as Llama 3 cuts them.
  const BpeModel split = parse_bpe_json(tokenizer_json(
                                            R"({"type": "Sequence", "pretokenizers": [
              {"type": "Split", "pattern": {"Regex": "\\d{1,3}"},
              "behavior": "Isolated", "invert": false}, {"type": "ByteLevel",
              "add_prefix_space": false, "use_regex": false}]})"),
                                        "t.json");
  EXPECT_EQ(split.patterns, std::vector<std::string>{"\\d{1,3}"});
}

TEST(BpeFiles, a_tokenizer_json_of_another_kind_is_refused_by_its_kind) {
  const auto error = [](const std::string& text) {
    return user_error(ExitCode::kData, [&] { parse_bpe_json(text, "t.json"); });
  };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(error(text).find(part), std::string::npos) << error(text);
  };
  expect("{}", "t.json: it has no model");
  expect(R"({"model": {"type": "Unigram"}})", "its model is \"Unigram\"");
  expect(R"({"model": {"type": "WordPiece"}})", "its model is \"WordPiece\"");
  expect(tokenizer_json(kByteLevel, R"("byte_fallback": true, )"), "(byte_fallback)");
  expect(tokenizer_json(kByteLevel, "", R"({"type": "NFC"})"), "its normalizer is \"NFC\"");
  expect(tokenizer_json(R"({"type": "Whitespace"})"), "its pre-tokenizer is \"Whitespace\"");
  expect(tokenizer_json(R"({"type": "ByteLevel"})"), "add_prefix_space");
  expect(tokenizer_json(R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated"})"),
         "something else than a Regex");
  expect(tokenizer_json("null"), "it has no pre-tokenizer");
}

// The files of `name` in PODIUM_DATA; empty: they are not there.
std::string data_folder(const char* name) {
  const char* const data = std::getenv("PODIUM_DATA");
  const std::filesystem::path folder = std::filesystem::path(data != nullptr ? data : "") / name;
  return data != nullptr && std::filesystem::exists(folder) ? folder.string() : "";
}

TEST(Gpt2Tokenizer, gives_the_tokens_that_tiktoken_gives) {
  const std::string folder = data_folder("gpt2-bpe");
  if (folder.empty()) GTEST_SKIP() << "no gpt2-bpe in PODIUM_DATA";
  const auto tokenizer = open_tokenizer(folder, "");
  EXPECT_EQ(tokenizer->vocabulary(), 50257);
  EXPECT_EQ(tokenizer->separator(), 50256);
  // By tiktoken 0.14.0, encode_ordinary().
  EXPECT_EQ(encoded(*tokenizer, "Hello, world!"), (Ids{15496, 11, 995, 0}));
  EXPECT_EQ(encoded(*tokenizer, "  two  blanks\n\n\nlines"),
            (Ids{220, 734, 220, 698, 2283, 628, 198, 6615}));
  EXPECT_EQ(
      encoded(*tokenizer, "We'll've 12345 \u00e4\u00df\u4f60 \U0001F600\u200d"),
      (Ids{1135, 1183, 1053, 17031, 2231, 6184, 97, 39683, 19526, 254, 30325, 222, 447, 235}));
  const std::string shakespeare = data_folder("tinyshakespeare");
  if (shakespeare.empty()) return;
  const std::string text = read_text(std::filesystem::path(shakespeare) / "input.txt").value_or("");
  // nanoGPT's split.
  const std::size_t kept = text.size() * 9 / 10;
  EXPECT_EQ(encoded(*tokenizer, text.substr(0, kept)).size(), 301'966u);
  EXPECT_EQ(encoded(*tokenizer, text.substr(kept)).size(), 36'059u);
}

// Pieces 0 to 258 as llama2.c has them, and some words.
std::string pieces_file(const std::vector<std::pair<std::string, float>>& pieces) {
  std::string bytes;
  const auto put = [&bytes](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(std::int32_t{8});
  const auto add = [&](const std::string& text, float score) {
    put(score);
    put(static_cast<std::int32_t>(text.size()));
    bytes += text;
  };
  for (int i = 0; i < 259; ++i) add(i < 3 ? "" : cat("<", i - 3, ">"), 0);
  for (const auto& [text, score] : pieces) add(text, score);
  return bytes;
}

TEST(ScoredPieces, joins_the_neighbours_of_the_highest_score) {
  const std::string bytes =
      pieces_file({{"a", -5}, {"b", -6}, {"c", -7}, {"ab", -2}, {"bc", -1}, {"abc", -3}});
  const auto tokenizer = parse_scored_pieces(bytes, "t.bin");
  EXPECT_EQ(tokenizer->vocabulary(), 265);
  EXPECT_EQ(encoded(*tokenizer, "abc"), (Ids{264}));
  EXPECT_EQ(encoded(*tokenizer, "abab"), (Ids{262, 262}));
  // A character without a piece is its bytes.
  EXPECT_EQ(encoded(*tokenizer, "a\u00e4"), (Ids{259, 3 + 0xC3, 3 + 0xA4}));
  EXPECT_EQ(decoded(*tokenizer, encoded(*tokenizer, "abc\xff\u00e4")), "abc\xff\u00e4");
  for (const std::size_t cut : {std::size_t{2}, std::size_t{9}, bytes.size() - 1})
    EXPECT_NE(
        user_error(ExitCode::kData, [&] { parse_scored_pieces(bytes.substr(0, cut), "t.bin"); })
            .find("t.bin: "),
        std::string::npos);
}

TEST(ScoredPieces, give_the_tokens_that_llama2c_gives) {
  const std::string folder = data_folder("stories260k");
  if (folder.empty()) GTEST_SKIP() << "no stories260k in PODIUM_DATA";
  const auto tokenizer = open_tokenizer(folder + "/tok512.bin", "");
  EXPECT_EQ(tokenizer->vocabulary(), 512);
  const std::string text = " Once upon a time, there was a little girl.";
  EXPECT_EQ(decoded(*tokenizer, encoded(*tokenizer, text)), text);
  EXPECT_EQ(encoded(*tokenizer, " Once upon a time"), (Ids{403, 407, 261, 378}));
}

}  // namespace
}  // namespace podium
