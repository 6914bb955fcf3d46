// Pictures in files from the index to the prediction: a folder, tar shards.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/shard_test_util.h"
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

namespace fs = std::filesystem;

class OwnPictures : public CommandLine {
 protected:
  static std::string picture(int number) {
    return file_text(fs::path(PODIUM_SOURCE) / "src/data/corpus/picture" /
                     (number % 2 == 0 ? "colour-420.jpg" : "grey.jpg"));
  }
  void write_folder(int pictures) const {
    for (int i = 0; i < pictures; ++i)
      write(cat("photos/", i % 2 == 0 ? "кошки/" : "dogs/", i, ".jpg"), picture(i));
  }
  void write_shard(const std::string& name, int pictures) const {
    std::vector<testing::TarExample> examples;
    for (int i = 0; i < pictures; ++i) examples.push_back({cat("key", i), picture(i), cat(i % 2)});
    write(name, testing::tar_of(examples));
  }
  std::string done(const std::vector<std::string>& words) const {
    const Outcome outcome = podium(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  // Eight pictures of 16 pixels a step, three steps an epoch.
  static std::vector<std::string> train(const std::string& data, const std::string& out,
                                        const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",      data,       "data.size=16",           "batch=8",
                                      "replicas=2", "epochs=2", "run.hash_every_steps=1", "--out",
                                      out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(OwnPictures, of_a_folder_are_indexed_shown_trained_on_and_predicted) {
  write_folder(28);
  const std::string indexed = done({"data", "index", "folder:photos"});
  EXPECT_CONTAINS(indexed, "28 pictures of 2 classes");
  EXPECT_CONTAINS(done({"data", "index", "folder:photos", "--json"}), "\"from_cache\": true");
  EXPECT_CONTAINS(done({"data", "verify", "folder:photos"}), "28 of 28 pictures decode");
  EXPECT_CONTAINS(done({"data", "show", "folder:photos"}), "26 pictures to train");
  done(train("folder:photos", "run", {"--steps", "4"}));
  // The contents of a copy are the same.
  const auto contents = [&](const std::string& data) {
    return nlohmann::json::parse(done({"data", "verify", data, "--json"}))["contents"];
  };
  fs::copy(path("photos"), path("copy"), fs::copy_options::recursive);
  EXPECT_EQ(contents("folder:copy"), contents("folder:photos"));
  write("copy/dogs/1.jpg", picture(2));
  EXPECT_NE(contents("folder:copy"), contents("folder:photos"));
  EXPECT_CONTAINS(done({"predict", "run", "photos/dogs/1.jpg", "--top", "2"}), "кошки");
  write("photos/dogs/1.jpg", "no picture");
  const Outcome verified = podium({"data", "verify", "folder:photos"});
  EXPECT_EQ(verified.code, 3);
  EXPECT_CONTAINS(verified.out, "27 of 28 pictures decode");
  EXPECT_CONTAINS(verified.err, "photos/dogs/1.jpg: the file is neither JPEG nor PNG");
  EXPECT_CONTAINS(verified.err, "repair or remove the 1 picture");
  expect_refusal(podium(train("folder:photos", "run", {})), 3, {"other data", "--fresh"});
}

TEST_F(OwnPictures, of_tar_shards_give_one_result_wherever_a_run_is_stopped_and_who_reads_them) {
  write_shard("shards/train-0.tar", 14);
  write_shard("shards/train-1.tar", 12);
  write_shard("shards/val-0.tar", 6);
  const std::string data = "tar:shards/*-{0..1}.tar";
  expect_refusal(podium({"data", "index", "tar:shards/train-{0..2}.tar"}), 3,
                 {"shards/train-2.tar", "is missing"});
  EXPECT_CONTAINS(done({"data", "index", "tar:shards"}), "32 pictures of 2 classes");
  EXPECT_CONTAINS(done({"data", "verify", "tar:shards/*.tar"}), "32 of 32 pictures decode");
  EXPECT_CONTAINS(done({"data", "show", "tar:shards"}), "26 pictures to train");
  done(train("tar:shards", "whole", {"--workers", "2", "--input-threads", "2"}));
  done(train("tar:shards", "parts", {"--workers", "1", "--steps", "2"}));
  done(train("tar:shards", "parts", {"--workers", "2", "--input-threads", "1"}));
  EXPECT_EQ(read("parts/hashes.jsonl"), read("whole/hashes.jsonl"));
  EXPECT_CONTAINS(read("whole/recipe.toml"), "name = \"tar\"\npath = \"shards\"\n");
  // A run goes on with its shards alone.
  write_shard("shards/train-1.tar", 13);
  expect_refusal(podium(train("tar:shards", "parts", {"epochs=2"})), 2, {"train_examples"});
  fs::resize_file(path("shards/val-0.tar"), 3000);
  expect_refusal(podium(train("tar:shards", "new", {})), 3,
                 {"shards/val-0.tar: at byte ", "cut short", "leave it out"});
}

}  // namespace
}  // namespace podium::test
