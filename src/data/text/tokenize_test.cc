#include "data/text/tokenize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/text/bpe_test_util.h"
#include "data/text/text.h"
#include "files/file_io.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

class Tokenize : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    put_text(path(name), text);
    return path(name);
  }
  Tokenized make(const std::vector<std::string>& files, TokenizeOptions options) const {
    if (options.tokenizer.empty()) options.tokenizer = "bytes";
    if (options.out.empty()) options.out = path("out");
    return tokenize(files, options, [](std::int64_t, std::int64_t) {});
  }
  std::string refusal(const std::vector<std::string>& files, const TokenizeOptions& options,
                      ExitCode code = ExitCode::kData) const {
    return user_error(code, [&] { make(files, options); });
  }
  // Of all shards of a kind, in order, as a text.
  std::string tokens(const std::string& kind, const std::string& out = "out") const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path(out)))
      if (entry.path().filename().string().starts_with(kind)) files.push_back(entry.path());
    std::ranges::sort(files);
    const auto all = open_shards(files, 1000);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(all->size()));
    all->copy(0, all->size(), ids.data());
    std::string text;
    for (const std::int32_t id : ids)
      text += id < 256 ? std::string(1, static_cast<char>(id)) : "|";
    return text;
  }
  // A tokenizer of bytes and <|endoftext|>, 256.
  std::string with_separator() const {
    fs::create_directory(path("tokenizer"));
    write("tokenizer/encoder.json", spelled_vocabulary("\"<|endoftext|>\": 256"));
    write("tokenizer/vocab.bpe", "#version: 0.2\n");
    return path("tokenizer");
  }
  TestFolder folder_;
};

TEST_F(Tokenize, the_shards_have_the_text_and_do_not_depend_on_threads_or_a_stop) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += cat("word", i % 7, i % 31 == 0 ? ".\n" : " ");
  const std::string file = write("a.txt", text);
  const TokenizeOptions options{.held_out = 0.1, .shard_bytes = 4096};
  const Tokenized made = make({file}, options);
  EXPECT_GT(made.shards, 5);
  EXPECT_EQ(made.kept, 0);
  EXPECT_EQ(made.tokens, std::ssize(text));
  const std::string train = tokens("train"), val = tokens("val");
  EXPECT_EQ(train + val, text);
  EXPECT_FALSE(val.empty());
  EXPECT_NEAR(static_cast<double>(val.size()), 0.1 * static_cast<double>(text.size()), 10);
  // What is missing is made again.
  write("out/.unfinished", "");
  EXPECT_NE(
      user_error(ExitCode::kData, [&] { open_text(path("out"), {.vocabulary = 256}, 0.1, ""); })
          .find("`podium data tokenize` was stopped"),
      std::string::npos);
  fs::remove(path("out/train_00001.npy"));
  EXPECT_EQ(make({file}, options).kept, made.shards - 1);
  EXPECT_EQ(tokens("train"), train);
  TokenizeOptions threads = options;
  threads.threads = 3;
  threads.out = path("other");
  make({file}, threads);
  EXPECT_EQ(tokens("train", "other"), train);
  EXPECT_EQ(tokens("val", "other"), val);
}

TEST_F(Tokenize, a_separator_ends_every_document) {
  fs::create_directory(path("texts"));
  write("texts/a.txt", "one");
  write("texts/b.txt", "two");
  write("texts/empty", "");
  const TokenizeOptions options{.tokenizer = with_separator(), .held_out = 0};
  make({path("texts")}, options);
  EXPECT_EQ(tokens("train"), "one|two|");
  TokenizeOptions lines = options;
  lines.out = path("lines");
  make({write("c.jsonl", "{\"text\": \"x\\ny\", \"id\": 1}\n\n{\"text\": \"z\"}\n")}, lines);
  EXPECT_EQ(tokens("train", "lines"), "x\ny|z|");
  TokenizeOptions marked = options;
  marked.out = path("marked");
  marked.separator = "<|endoftext|>";
  make({write("d.txt", "a story<|endoftext|>another")}, marked);
  EXPECT_EQ(tokens("train", "marked"), "a story|another|");
  // The shards bring their tokenizer.
  write("long.txt", std::string(1000, 'x'));
  TokenizeOptions trained = options;
  trained.out = path("trained");
  make({path("long.txt"), path("long.txt")}, trained);
  const Text text = open_text(path("trained"), {.context = 8}, 0.1, "");
  EXPECT_EQ(text.train->fields()[0].below, 257);
  EXPECT_EQ(text.tokenizer->separator(), 256);
}

TEST_F(Tokenize, what_does_not_fit_is_refused) {
  const std::string file = write("a.txt", "some text of words");
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(refusal({path("none")}, {}), "none was not found");
  expect(refusal({write("empty", "")}, {}), "there is no text in");
  expect(refusal({file}, {.tokenizer = "chars"}, ExitCode::kUsage),
         "a vocabulary that does not come from the text");
  expect(refusal({file}, {.held_out = 0, .separator = "|"}, ExitCode::kUsage),
         "the tokenizer has no token for it");
  expect(refusal({write("bad.jsonl", "{\"text\": \"a\"}\n{\"body\": 1}\n")},
                 {.tokenizer = with_separator(), .held_out = 0}),
         "bad.jsonl: byte 14: the line is no JSON object with a \"text\"");
  fs::remove_all(path("out"));
  make({file}, {.held_out = 0});
  expect(refusal({file}, {.held_out = 0.5}), "has shards of other texts or options");
  fs::create_directory(path("full"));
  write("full/x", "y");
  expect(refusal({file}, {.out = path("full"), .held_out = 0}), "is not empty");
}

}  // namespace
}  // namespace podium
