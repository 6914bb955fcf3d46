#include "data/sentences/sentences.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/table/columns.h"

namespace podium {
namespace {

struct Sentence {
  std::vector<std::int32_t> tokens;
  std::int32_t label = -1;
};

Sentence sentence_of(const Source& set, std::int64_t index) {
  Sentence row;
  row.tokens.resize(static_cast<std::size_t>(set.fields()[0].shape[0]));
  set.read(index, nullptr, {row.tokens.data(), &row.label});
  return row;
}

// The row's tokens as text, up to what fills it.
std::string text_of(const Sentences& of, const Sentence& row) {
  std::string text;
  for (const std::int32_t token : row.tokens) text += of.tokenizer->text_of(token);
  return text.substr(0, text.find('\n'));
}

class SentenceFile : public testing::Test {
 protected:
  SentenceFile() {
    options_.tokenizer = kWordTokens;
    options_.context = 6;
  }
  std::string file(const std::string& name, const std::string& text) {
    put_text(folder_ / name, text);
    return (folder_ / name).string();
  }
  Sentences open(const std::string& name, const std::string& text) {
    return open_sentences(file(name, text), options_, table_, 0.25, "");
  }
  std::string refusal(const std::string& name, const std::string& text) {
    return user_error(ExitCode::kData, [&] { open(name, text); });
  }
  TestFolder folder_;
  TextOptions options_;
  TableOptions table_;
};

TEST_F(SentenceFile, lines_tables_and_json_say_the_same) {
  options_.held_out_path = file("other.txt", "no what now\nyes so it is\n");
  const std::string lines = "no so dull a film\r\nyes  a fine one \n\nno dull\n";
  const std::string csv = "label,text\nno,so dull a film\nyes,\"a fine one\"\nno,dull\n";
  const std::string json =
      "{\"text\": \"so dull a film\", \"label\": \"no\"}\n{\"text\": \"a fine one\", \"label\": "
      "\"yes\"}\n{\"label\": \"no\", \"text\": \"dull\"}\n";
  const Sentences of_lines = open("a.txt", lines), of_csv = open("a.csv", csv),
                  of_json = open("a.jsonl", json);
  EXPECT_EQ(of_lines.train->identity({}), of_csv.train->identity({}));
  EXPECT_EQ(of_lines.train->identity({}), of_json.train->identity({}));
  ASSERT_EQ(of_lines.train->examples(), 3);
  const std::vector<Field> fields = of_lines.train->fields();
  EXPECT_EQ(to_text(fields), "\"tokens\" i32[6] below 8, \"label\" i32[] below 2");
  EXPECT_EQ(unit_of(fields), "sentence");
  EXPECT_EQ(fields[1].words, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(text_of(of_lines, sentence_of(*of_lines.train, 1)), "a fine one ");
  EXPECT_EQ(sentence_of(*of_lines.train, 1).label, 1);
  EXPECT_EQ(sentence_of(*of_lines.train, 2).label, 0);
  // Words of another text that this one has not are one token.
  EXPECT_EQ(text_of(of_lines, sentence_of(*of_lines.held_out, 0)), "<unk> <unk> ");
  EXPECT_EQ(text_of(of_lines, sentence_of(*of_lines.held_out, 1)), "so <unk> <unk> ");
  EXPECT_EQ(sentence_of(*of_lines.held_out, 1).label, 1);
}

TEST_F(SentenceFile, a_share_is_held_out_and_its_words_are_not_learned) {
  std::string csv = "label,text\n";
  for (int i = 0; i < 40; ++i) csv += cat(i % 2 == 0 ? "even" : "odd", ",word", i, " common\n");
  const Sentences of = open("a.csv", csv);
  EXPECT_EQ(of.train->examples(), 30);
  ASSERT_EQ(of.held_out->examples(), 10);
  // 30 words of their own, "common", <unk>, and the end of a line.
  EXPECT_EQ(of.tokenizer->vocabulary(), 33);
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(text_of(of, sentence_of(*of.held_out, i)), "<unk> common ");
}

TEST_F(SentenceFile, bytes_that_are_no_utf8_are_latin_1) {
  options_.held_out_path = file("other.txt", "a caf\xC3\xA9\n");
  const Sentences of = open("a.txt", "a caf\xE9 bar\nb bar\n");
  EXPECT_EQ(text_of(of, sentence_of(*of.train, 0)), "caf\xC3\xA9 bar ");
  EXPECT_EQ(sentence_of(*of.held_out, 0).tokens[0], sentence_of(*of.train, 0).tokens[0]);
}

TEST_F(SentenceFile, other_columns_are_named) {
  options_.text_column = "review";
  table_.target = "stars";
  std::string csv = "id,stars,review,city\n";
  for (int i = 0; i < 12; ++i) csv += cat(i, ",", i % 3 + 9, ",fine film,x\n");
  const Sentences of = open("a.csv", csv);
  const Field label = *target_of(of.train->fields());
  EXPECT_EQ(label.name, "stars");
  EXPECT_EQ(label.words, (std::vector<std::string>{"9", "10", "11"}));
}

TEST_F(SentenceFile, what_is_wrong_is_named_with_its_place) {
  const std::string good = "a b c\nd e f\n";
  EXPECT_CONTAINS(refusal("a.txt", "a b c\n\nlonely\n"),
                  "a.txt: line 3 (\"lonely\") has a label and no text");
  EXPECT_CONTAINS(refusal("a.txt", "a b c\na e f\n"), "the \"label\" of every sentence is \"a\"");
  EXPECT_CONTAINS(
      refusal("a.txt", "a b c d e f g h\nb c\na x\nb x\na y\nb y\na z\n"),
      "1 sentence of 7 longer than data.context = 6; the longest, in line 1, has 7 "
      "tokens. Cut them at their ends, data.too_long=cut, or train with data.context=7");
  EXPECT_CONTAINS(refusal("a.txt", " \n"), "a.txt has no sentences");
  EXPECT_CONTAINS(refusal("a.csv", "text,label\nx,a\n,b\ny,b\nz,a\n"),
                  "a.csv: line 3, column \"text\": the text is empty");
  EXPECT_CONTAINS(refusal("a.csv", "text,label\nx,a\ny,\n"),
                  "a.csv: line 3, column \"label\": the value is missing");
  EXPECT_CONTAINS(refusal("a.csv", "words,label\nx,a\n"),
                  "a.csv has no column \"text\" with the sentences; name the one that has them, "
                  "data.text_column=COLUMN, of words, label");
  EXPECT_CONTAINS(refusal("a.csv", "text\nx\n"), "has no column beside that of the texts");
  EXPECT_CONTAINS(refusal("a.jsonl", "{\"text\": \"x\", \"label\": 1}\n{\"text\": \"y\"}\n"),
                  "a.jsonl: line 2 has no \"label\", which the first line has");
  EXPECT_CONTAINS(refusal("a.jsonl", "[1]\n"), "a.jsonl: line 1 is no JSON object");
  options_.held_out_path = file("other.txt", "z b c\n");
  EXPECT_CONTAINS(refusal("a.txt", good),
                  "other.txt: line 1, column \"label\": no sentence to train on has the class "
                  "\"z\"; it has a, d");
  options_.tokenizer = kCharTokens;
  options_.held_out_path = file("other.txt", "a b x\n");
  EXPECT_CONTAINS(refusal("a.txt", good), "has the character \"x\"");
}

TEST_F(SentenceFile, long_ones_are_cut_where_the_recipe_says_so) {
  options_.too_long = kCutIfTooLong;
  options_.held_out_path = file("other.txt", "yes a b c d e f g h\n");
  const Sentences of = open("a.txt", "yes a b c d e f g h\nno a\n");
  EXPECT_EQ(text_of(of, sentence_of(*of.train, 0)), "a b c d e f ");
  EXPECT_EQ(text_of(of, sentence_of(*of.held_out, 0)), "a b c d e f ");
  ASSERT_EQ(of.notes.size(), 2U);
  EXPECT_CONTAINS(of.notes[0], "a.txt: 1 sentence of 2 longer than data.context = 6, cut");
}

TEST_F(SentenceFile, texts_to_predict_need_no_labels) {
  options_.held_out_path = file("other.txt", "yes fine\n");
  const Sentences of = open("a.txt", "yes a fine film\nno dull\n");
  const Cells cells = read_sentences(file("new.txt", "fine film\nso dull\n"), false);
  const RowSource rows = sentences_to_predict(cells, options_, of.train->fields(), *of.tokenizer);
  ASSERT_EQ(rows.examples(), 2);
  EXPECT_EQ(text_of(of, sentence_of(rows, 0)), "fine film ");
  EXPECT_EQ(text_of(of, sentence_of(rows, 1)), "<unk> dull ");
}

}  // namespace
}  // namespace podium
