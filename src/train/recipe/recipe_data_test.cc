// The [data] of recipes: what is in files.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "train/recipe/recipe_test_util.h"

namespace podium {
namespace {

TEST(Recipe, pictures_in_files_are_named_in_one_word_or_in_a_table) {
  const std::string rest = "model = \"resnet32\"\nbatch = 8\nepochs = 1\n";
  const Recipe word = parse_recipe("data = \"folder:/my/photos\"\n" + rest, "x.toml");
  EXPECT_EQ(word.data, "folder");
  EXPECT_EQ(word.pictures.path, "/my/photos");
  EXPECT_EQ(word.pictures.size, 224);
  const std::string table = rest + "[data]\nname = \"folder\"\n";
  EXPECT_EQ(to_toml(parse_recipe(table + "path = \"/my/photos\"\n", "x.toml")), to_toml(word));
  EXPECT_EQ(to_toml(parse_recipe(table, "x.toml", {"data.path=/my/photos"})), to_toml(word));
  EXPECT_EQ(
      to_toml(parse_recipe("data = \"mnist\"\n" + rest, "x.toml", {"data=folder:/my/photos"})),
      to_toml(word));
  // All of it is in the resolved recipe, which reads back as itself.
  EXPECT_NE(to_toml(word).find("[data]\nname = \"folder\"\npath = \"/my/photos\"\nsize = 224\n"),
            std::string::npos);
  EXPECT_EQ(to_toml(parse_recipe(to_toml(word), "again")), to_toml(word));
  // Of a dataset there is no table.
  const Recipe dataset =
      parse_recipe("data = \"folder:/my/photos\"\n" + rest, "x.toml", {"data=cifar10"});
  EXPECT_EQ(to_toml(dataset).find("[data]"), std::string::npos);
  EXPECT_EQ(
      refusal(table),
      "x.toml: `data.path` is missing: name the folder of the pictures, as in data=folder:PHOTOS");
  EXPECT_EQ(refusal("data = \"cifar10\"\n" + rest + "[augment]\ncrop = \"random-resized\"\n")
                .substr(0, 40),
            "x.toml:6: `augment.crop` = \"random-resiz");
  EXPECT_EQ(refusal(table + "path = \"p\"\nsize = 64\nresize = 60\n"),
            "x.toml:8: `data.resize` = 60 is below `data.size` = 64, which is cut from it");
}

TEST(Recipe, what_is_held_out_of_a_text_is_a_share_or_another_text) {
  const std::string text =
      "model = \"lstm\"\nbatch = 8\nepochs = 1\n[data]\nname = \"text\"\npath = \"a.txt\"\n"
      "held_out_path = \"b.txt\"\norder = \"streams\"\n";
  const std::string resolved = to_toml(parse_recipe(text, "x.toml"));
  EXPECT_EQ(resolved.find("held_out = "), std::string::npos);
  EXPECT_EQ(to_toml(parse_recipe(resolved, "again")), resolved);
  EXPECT_EQ(refusal(text + "held_out = 0.2\n"),
            "x.toml:9: `data.held_out` has no effect beside `data.held_out_path`; remove one of "
            "them");
  EXPECT_EQ(to_toml(parse_recipe(text, "x.toml", {"data.held_out_path="})).find("held_out_path"),
            std::string::npos);
  EXPECT_NE(refusal(text + "[network]\nheads = 2\n").find("`network.heads`"), std::string::npos);
}

TEST(Recipe, buckets_rise_and_lie_below_the_context) {
  const std::string pairs =
      "model = \"transformer\"\nbatch = 8\nepochs = 1\n[data]\nname = \"pairs\"\n"
      "path = \"a.tsv\"\ncontext = 40\n";
  const std::string resolved = to_toml(parse_recipe(pairs + "buckets = [16, 24]\n", "x.toml"));
  EXPECT_NE(resolved.find("buckets = [16, 24]\n"), std::string::npos);
  EXPECT_EQ(to_toml(parse_recipe(resolved, "again")), resolved);
  EXPECT_EQ(parse_recipe(pairs, "x.toml", {"data.buckets=[8]"}).pairs.buckets,
            std::vector<std::int64_t>{8});
  const std::string rule =
      "x.toml:8: `data.buckets` must be at most 64 lengths that rise and lie below "
      "`data.context` = 40, which is the last one itself";
  EXPECT_EQ(refusal(pairs + "buckets = [24, 16]\n"), rule);
  EXPECT_EQ(refusal(pairs + "buckets = [16, 16]\n"), rule);
  EXPECT_EQ(refusal(pairs + "buckets = [16, 40]\n"), rule);
  EXPECT_EQ(refusal(pairs + "buckets = [16, 24.5]\n"),
            "x.toml:8: `data.buckets` must be an array of integers; element 2 is the number 24.5");
  EXPECT_NE(refusal(pairs + "buckets = [1]\n").find("`data.buckets`"), std::string::npos);
}

}  // namespace
}  // namespace podium
