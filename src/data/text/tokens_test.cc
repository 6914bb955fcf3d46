#include "data/text/tokens.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/scratch_test_util.h"
#include "data/source/loader.h"
#include "data/text/text.h"
#include "files/file_io.h"

namespace podium {
namespace {

using Ids = std::vector<std::int32_t>;

Ids all_of(const Tokens& tokens) {
  Ids ids(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, tokens.size(), ids.data());
  return ids;
}

class TokenShards : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write(const std::string& name, const Ids& ids, std::int64_t vocabulary = 300) const {
    write_shard(path(name), ids, vocabulary);
    return path(name);
  }
  // As llm.c writes it, or, with the magic 0, without a header.
  std::string write_bin(const std::string& name, std::int32_t magic, const Ids& ids) const {
    std::string bytes;
    if (magic != 0) {
      std::array<std::int32_t, 256> header{magic, 1, static_cast<std::int32_t>(ids.size())};
      bytes.assign(reinterpret_cast<const char*>(header.data()), sizeof(header));
    }
    for (const std::int32_t id : ids)
      bytes.append(reinterpret_cast<const char*>(&id), magic == 20240801 ? 4 : 2);
    put_text(path(name), bytes);
    return path(name);
  }
  std::string refusal(const std::vector<std::string>& files, std::int64_t vocabulary = 300) const {
    return user_error(ExitCode::kData, [&] { all_of(*open_shards(files, vocabulary)); });
  }
  static Ids counting(std::int32_t from, std::int32_t count) {
    Ids ids;
    for (std::int32_t i = 0; i < count; ++i) ids.push_back((from + i) % 256);
    return ids;
  }
  TestFolder folder_;
};

TEST_F(TokenShards, of_every_kind_give_their_tokens) {
  const Ids ids = {0, 7, 299, 12};
  EXPECT_EQ(all_of(*open_shards({write("a.npy", ids)}, 300)), ids);
  EXPECT_EQ(all_of(*open_shards({write_bin("a.bin", 0, ids)}, 300)), ids);
  EXPECT_EQ(all_of(*open_shards({write_bin("b.bin", 20240520, ids)}, 300)), ids);
  EXPECT_EQ(all_of(*open_shards({write_bin("c.bin", 20240801, ids)}, 300)), ids);
  const Ids wide = {70000, 1, 99999};
  EXPECT_EQ(all_of(*open_shards({write("wide.npy", wide, 100000)}, 100000)), wide);
}

TEST_F(TokenShards, follow_each_other_and_are_read_over_their_borders) {
  const auto tokens =
      open_shards({write("0.npy", {1, 2, 3}), write("1.npy", {}), write("2.npy", {4, 5})}, 300);
  EXPECT_EQ(tokens->size(), 5);
  EXPECT_EQ(all_of(*tokens), (Ids{1, 2, 3, 4, 5}));
  Ids part(2);
  tokens->copy(2, 2, part.data());
  EXPECT_EQ(part, (Ids{3, 4}));
  EXPECT_EQ(tokens->memory_bytes(5), 0);
  EXPECT_NE(tokens->hash(0, 4, {}), tokens->hash(1, 4, {}));
}

TEST_F(TokenShards, that_are_damaged_or_do_not_fit_are_named) {
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  const std::string good = write("a.npy", {1, 2, 299});
  expect(refusal({good}, 299), "a.npy: position 2: the token 299 is not in the vocabulary of 299");
  std::string bytes = read_text(good).value();
  bytes.pop_back();
  put_text(path("cut.npy"), bytes);
  expect(refusal({path("cut.npy")}), "cut.npy: has 2 tokens, and its header says 3");
  const std::string bin = write_bin("b.bin", 20240520, {1, 2, 3});
  bytes = read_text(bin).value();
  put_text(path("cut.bin"), bytes.substr(0, 1028));
  expect(refusal({path("cut.bin")}), "cut.bin: has 2 tokens, and its header says 3");
  put_text(path("head.bin"), bytes.substr(0, 100));
  expect(refusal({path("head.bin")}), "head.bin: the file ends within its header");
  put_text(path("odd.bin"), "abc");
  expect(refusal({path("odd.bin")}), "odd.bin: byte 2: the file ends within a token");
  expect(refusal({good, bin}), "b.bin is a .bin of llm.c, 20240520, and ");
  put_text(path("none.npy"), "nothing");
  expect(refusal({path("none.npy")}), "none.npy: does not begin as an .npy");
}

TEST_F(TokenShards, that_change_during_a_run_end_it_with_words) {
  const std::string file = write("a.npy", {1, 2, 3});
  const auto tokens = open_shards({file}, 300);
  write("a.npy", {1, 2, 3, 4});
  EXPECT_NE(user_error(ExitCode::kData, [&] { all_of(*tokens); }).find("put it back as it was"),
            std::string::npos);
}

TEST_F(TokenShards, are_trained_on_as_the_text_that_they_were_made_of) {
  const Ids ids = counting(0, 1000);
  std::string text;
  for (const std::int32_t id : ids) text += static_cast<char>(id);
  put_text(path("a.txt"), text);
  std::filesystem::create_directory(path("shards"));
  write("shards/0.npy", Ids(ids.begin(), ids.begin() + 321));
  write("shards/1.npy", Ids(ids.begin() + 321, ids.end()));
  const Text plain = open_text(path("a.txt"), {.context = 16}, 0.25, ""),
             shards = open_text(path("shards"), {.context = 16, .vocabulary = 256}, 0.25, "");
  ASSERT_EQ(plain.train->examples(), shards.train->examples());
  EXPECT_EQ(plain.train->fields(), shards.train->fields());
  for (const bool held_out : {false, true}) {
    const TextSource& a = held_out ? *plain.held_out : *plain.train;
    const TextSource& b = held_out ? *shards.held_out : *shards.train;
    for (std::int64_t i = 0; i < a.examples(); ++i) {
      const ExampleKey key{3, 1, i};
      Ids x(16), next_x(16), y(16), next_y(16);
      a.read(i, &key, {x.data(), next_x.data()});
      b.read(i, &key, {y.data(), next_y.data()});
      ASSERT_EQ(x, y);
      ASSERT_EQ(next_x, next_y);
    }
  }
}

TEST_F(TokenShards, with_val_in_their_name_are_held_out) {
  std::filesystem::create_directory(path("shards"));
  write("shards/corpus_train_0.npy", counting(0, 200));
  write("shards/corpus_val_0.npy", counting(7, 50));
  const Text text = open_text(path("shards"), {.context = 8, .vocabulary = 256}, 0.5, "");
  EXPECT_EQ(text.train->examples(), (200 - 8) / 8);
  EXPECT_EQ(text.held_out->examples(), (50 - 1) / 8);
  EXPECT_EQ(text.train->order(), VisitOrder::kPermuted);
  Ids tokens(8), next(8);
  text.held_out->read(0, nullptr, {tokens.data(), next.data()});
  EXPECT_EQ(tokens, counting(7, 8));
  EXPECT_EQ(next, counting(8, 8));
}

TEST_F(TokenShards, without_a_known_vocabulary_or_beside_texts_are_refused) {
  std::filesystem::create_directory(path("shards"));
  write("shards/0.npy", counting(0, 200));
  const auto error = [&](const TextOptions& options) {
    return user_error(ExitCode::kData, [&] { open_text(path("shards"), options, 0.5, ""); });
  };
  EXPECT_NE(error({.context = 8}).find("data.vocabulary=N"), std::string::npos);
  put_text(path("shards/read.me"), "text");
  EXPECT_NE(error({.context = 8}).find("has both shards of tokens"), std::string::npos);
}

TEST_F(TokenShards, of_a_folder_of_texts_are_its_documents) {
  std::filesystem::create_directory(path("texts"));
  put_text(path("texts/b"), "second\n");
  put_text(path("texts/a"), "first");
  put_text(path("texts/c"), "");
  put_text(path("texts/.hidden"), "never");
  const Text text = open_text(path("texts"), {.context = 2}, 0.3, "");
  Ids tokens(2), next(2);
  text.train->read(2, nullptr, {tokens.data(), next.data()});
  EXPECT_EQ(tokens, (Ids{'t', '\n'}));  // between documents
  EXPECT_EQ(next, (Ids{'\n', 's'}));
}

}  // namespace
}  // namespace podium
