#include "data/pictures/shards/tar_shard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/pictures/shards/shard_test_util.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

struct FoundInTar {
  std::string name, picture;
  std::int64_t label = 0;
  bool operator==(const FoundInTar&) const = default;
};

std::vector<FoundInTar> examples_of_tar(const std::string& tar, std::int64_t* others = nullptr) {
  ShardFile file({reinterpret_cast<const std::uint8_t*>(tar.data()), tar.size()}, "x.tar");
  std::vector<FoundInTar> found;
  const std::int64_t rest = scan_tar(file, [&](const ShardExample& example) {
    found.push_back({std::string(example.name),
                     tar.substr(static_cast<std::size_t>(example.offset),
                                static_cast<std::size_t>(example.size)),
                     example.label});
  });
  if (others != nullptr) *others = rest;
  return found;
}

std::string tar_error(const std::string& tar) {
  return data_error([&] { examples_of_tar(tar); });
}

TEST(TarShard, has_a_picture_and_a_label_for_each_key) {
  std::int64_t others = 0;
  const std::string tar = tar_member("cats/", "", '5') + tar_member("./cats/1.cls", " 7\n") +
                          tar_member("./cats/1.seg.png", "mask") +
                          tar_member("./cats/1.JPG", "first") + tar_member("cats/1.json", "{}") +
                          tar_member("cats/.hidden.jpg", "no") + tar_member("README", "read me") +
                          tar_member("cats/2.x.jpg", "no") + tar_member("cats/2.png", "second") +
                          tar_member("cats/2.cls", "1048575") + tar_member("dog.jpeg", "") +
                          tar_member("dog.cls", "0") + tar_member("link.jpg", "", '2') + tar_end();
  EXPECT_EQ(
      examples_of_tar(tar, &others),
      (std::vector<FoundInTar>{
          {"cats/1.JPG", "first", 7}, {"cats/2.png", "second", 1048575}, {"dog.jpeg", "", 0}}));
  EXPECT_EQ(others, 6);
}

TEST(TarShard, has_labels_in_json_where_there_is_no_cls) {
  std::int64_t others = 0;
  const auto json = [](const std::string& key, const std::string& text) {
    return tar_member(key + ".json", text);
  };
  const std::string tar = json("0", "[]") + json("a", R"({"caption": "x", "label": 7})") +
                          tar_member("a.png", "first") + tar_member("b.jpg", "second") +
                          json("c", R"({"label": 9})") + json("b", R"({"label": 1048575})") +
                          tar_member("c.jpg", "third") + tar_member("c.cls", "2") +
                          tar_member("d.jpg", "fourth") + tar_member("d.cls", "3") +
                          json("d", "no JSON") + json("e", "{}") + tar_end();
  EXPECT_EQ(examples_of_tar(tar, &others), (std::vector<FoundInTar>{{"a.png", "first", 7},
                                                                    {"b.jpg", "second", 1048575},
                                                                    {"c.jpg", "third", 2},
                                                                    {"d.jpg", "fourth", 3}}));
  EXPECT_EQ(others, 4);
  const std::string picture = tar_member("a.jpg", "p");
  struct Case {
    std::string text, error;
  };
  for (const Case& bad : std::vector<Case>{
           {"{", "the label a.json is no JSON object; it needs a field \"label\" with the number"},
           {"7", "is no JSON object"},
           {std::string(100'000, '['), "is no JSON object"},
           {R"({"Label": 1})", "has no field \"label\""},
           {R"({"label": "1"})", "has the field \"label\" = \"1\"; it needs"},
           {R"({"label": 1.5})", "\"label\" = 1.5"},
           {R"({"label": -1})", "\"label\" = -1"},
           {R"({"label": true})", "\"label\" = true"},
           {R"({"label": 1048576})", "from 0 to 1048575"},
           {R"({"label": 18446744073709551615})", "\"label\" = 18446744073709551615"},
           {std::string(2'000'000, ' '), "has 2000000 bytes, more than 1048576"}})
    EXPECT_CONTAINS(tar_error(picture + json("a", bad.text) + tar_end()), bad.error);
  EXPECT_CONTAINS(tar_error(picture + json("a", "{}") + json("a", "{}") + tar_end()),
                  "at byte 2048: the key a has two labels, at byte 1024 and here (a.json)");
}

TEST(TarShard, has_the_names_and_sizes_of_every_dialect) {
  const std::string longest = std::string(130, 'n') + "/" + std::string(120, 'k');
  const std::string picture(512, 'p');
  const auto pax = [](const std::string& key, const std::string& value) {
    std::string record = " " + key + "=" + value + "\n";
    std::size_t size = record.size() + 1;
    while (std::to_string(size).size() + record.size() != size) ++size;
    return std::to_string(size) + record;
  };
  const std::vector<FoundInTar> expected = {{longest + ".jpg", picture, 3}};
  const std::string label = tar_member("k.cls", "3").substr(512);
  // GNU: a member with the name before the member.
  EXPECT_EQ(
      examples_of_tar(tar_member("././@LongLink", longest + ".jpg" + std::string(1, '\0'), 'L') +
                      tar_header("short", octal(512), '0', "", true) + picture +
                      tar_member("././@LongLink", longest + ".cls", 'L') +
                      tar_header("short", octal(1), '0', "", true) + label + tar_end()),
      expected);
  // pax: records before the member, of which the size is that of the member.
  EXPECT_EQ(
      examples_of_tar(
          tar_member("x", pax("mtime", "1.5") + pax("path", longest + ".jpg") + pax("size", "512"),
                     'x') +
          tar_header("short", octal(0)) + picture +
          tar_member("x", pax("path", longest + ".cls"), 'x') + tar_header("short", octal(1)) +
          label + tar_end()),
      expected);
  // ustar: a prefix.
  const std::string folder = longest.substr(0, 130), key = longest.substr(131, 90);
  EXPECT_EQ(examples_of_tar(tar_header(key + ".jpg", octal(512), '0', folder) + picture +
                            tar_header(key + ".cls", octal(1), '0', folder) + label + tar_end()),
            (std::vector<FoundInTar>{{folder + "/" + key + ".jpg", picture, 3}}));
  // GNU's binary sizes.
  std::string binary(12, '\0');
  binary[0] = static_cast<char>(0x80), binary[10] = 2;
  EXPECT_EQ(
      examples_of_tar(tar_header("a.jpg", binary) + picture + tar_member("a.cls", "3") + tar_end()),
      (std::vector<FoundInTar>{{"a.jpg", picture, 3}}));
}

TEST(TarShard, has_names_in_every_alphabet) {
  std::vector<TarExample> examples;
  std::vector<FoundInTar> expected;
  for (const char* name : {"Äpfel/ein Bild", "кошки/1", "猫", "100%", "a\nb"}) {
    examples.push_back({name, "bytes", "1"});
    expected.push_back({std::string(name) + ".jpg", "bytes", 1});
  }
  EXPECT_EQ(examples_of_tar(tar_of(examples)), expected);
}

TEST(TarShard, a_tar_that_is_cut_short_is_refused_wherever_it_was_cut) {
  const std::string tar = tar_of({{"a", std::string(700, 'p'), "1"}, {"b", "picture", "2"}});
  EXPECT_EQ(examples_of_tar(tar).size(), 2U);
  for (std::size_t size = 0; size < tar.size() - 512; size += 64) {
    const std::string error = tar_error(tar.substr(0, size));
    EXPECT_CONTAINS(error, "x.tar: at byte ");
    EXPECT_CONTAINS(error, "cut short; write the shard again");
  }
  // One block of zeros is an end; two are usual.
  EXPECT_EQ(examples_of_tar(tar.substr(0, tar.size() - 512)).size(), 2U);
}

TEST(TarShard, examples_that_are_not_whole_are_refused_with_place_key_and_remedy) {
  const std::string a = tar_member("a.jpg", "p") + tar_member("a.cls", "1");  // 2048 bytes
  const std::string picture = tar_member("b.jpg", "p"), label = tar_member("b.cls", "1");
  struct Case {
    std::string members, error;
  };
  for (const Case& bad : std::vector<Case>{
           {picture, "at byte 2048: the picture b.jpg has no label: the file b.cls"},
           {label, "at byte 2048: the label b.cls has no picture: the file b.jpg"},
           {picture + tar_member("b.png", "p") + label,
            "at byte 3072: the key b has two pictures, b.jpg at byte 2048 and b.png"},
           {picture + label + label, "at byte 4096: the key b has two labels"},
           {picture + label + tar_member("a.jpg", "p"),
            "at byte 4096: the key a was there before (a.jpg)"},
           {picture + tar_member("b.cls", "cat"),
            "at byte 3584: the label b.cls holds \"cat\"; it needs the number of a class, from 0"},
           {picture + tar_member("b.cls", "1 2"), "holds \"1 2\""},
           {picture + tar_member("b.cls", ""), "holds \"\""},
           {picture + tar_member("b.cls", "-1"), "holds \"-1\""},
           {picture + tar_member("b.cls", "1048576"), "holds \"1048576\""},
           {picture + tar_member("b.cls", "99999999999999999999"), "from 0 to 1048575"},
           {picture + tar_member("b.cls", std::string(100, ' ') + "1"), "holds \"   "},
           {picture + tar_member("b.cls", "\x1b[2J"), "holds \"?[2J\""}}) {
    const std::string error = tar_error(a + bad.members + tar_end());
    EXPECT_CONTAINS(error, bad.error);
    EXPECT_TRUE(error.starts_with("x.tar: at byte ")) << error;
  }
}

TEST(TarShard, what_is_no_sound_tar_is_refused) {
  const std::string a = tar_of({{"a", "p", "1"}});
  EXPECT_CONTAINS(tar_error("\x1f\x8b" + a), "at byte 0: it is packed by gzip");
  EXPECT_CONTAINS(tar_error(std::string(2000, 'x')), "this is no tar, or it is damaged");
  std::string damaged = a;
  damaged[1024 + 3] ^= 1;
  EXPECT_CONTAINS(tar_error(damaged),
                  "at byte 1024: the checksum of a header is wrong: the tar is");
  EXPECT_CONTAINS(tar_error(a + a),
                  "at byte 3072: there is more after the end of the tar, at byte 2048");
  EXPECT_CONTAINS(tar_error(tar_header("a.jpg", "x12") + tar_end()),
                  "size of a member is no number");
  EXPECT_CONTAINS(tar_error(tar_header("a.jpg", std::string(12, '\xff')) + tar_end()),
                  "size of a member is no number");
  EXPECT_CONTAINS(tar_error(tar_member("x", "99 path=a\n", 'x') + a),
                  "the pax records of a member");
  EXPECT_CONTAINS(tar_error(tar_member("x", "22 GNU.sparse.major=1\n", 'x') + a),
                  "a file with holes");
  EXPECT_CONTAINS(tar_error(tar_member("a.jpg", "p", 'S') + tar_end()), "a file with holes");
}

}  // namespace
}  // namespace podium
