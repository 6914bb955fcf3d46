// Pictures in files from the index to the prediction: a folder, tar shards.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/pictures/shards/example.pb.h"
#include "data/pictures/shards/shard_test_util.h"
#include "data/storage/record_file.h"
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
  void write_parts(const std::string& folder) const {
    for (int i = 0; i < 24; ++i)
      write(cat(folder, "/train/", i % 2 == 0 ? "cats/" : "dogs/", i, ".jpg"), picture(i));
    for (int i = 0; i < 4; ++i)
      write(cat(folder, "/val/", i % 2 == 0 ? "cats/" : "dogs/", i, ".jpg"), picture(i));
  }
  void write_shard(const std::string& name, int pictures) const {
    std::vector<test_files::TarExample> examples;
    for (int i = 0; i < pictures; ++i) examples.push_back({cat("key", i), picture(i), cat(i % 2)});
    write(name, test_files::tar_of(examples));
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
  EXPECT_EQ(indexed.find("other"), std::string::npos) << indexed;
  write("photos/notes.txt", "");
  EXPECT_CONTAINS(done({"data", "index", "folder:photos"}), "\n1 other file is ignored\n");
  write("photos/dogs/notes.txt", "");
  EXPECT_CONTAINS(done({"data", "index", "folder:photos"}), "\n2 other files are ignored\n");
  EXPECT_CONTAINS(done({"data", "index", "folder:photos", "--json"}), "\"from_cache\": true");
  EXPECT_CONTAINS(done({"data", "verify", "folder:photos"}), "28 of 28 pictures decode");
  EXPECT_CONTAINS(done({"data", "show", "folder:photos"}), "26 pictures to train");
  done(train("folder:photos", "run", {"--steps", "4"}));
  done(train("folder:photos", "kept", {"--steps", "4", "--keep-decoded", "1MiB"}));
  EXPECT_EQ(read("kept/hashes.jsonl"), read("run/hashes.jsonl"));
  expect_refusal(podium({"train", "mnist", "data=glyphs", "--keep-decoded", "1MiB"}), 2,
                 {"--keep-decoded"});
  expect_refusal(podium({"show", "folder:photos", "--keep-decoded", "much"}), 2, {"much"});
  // The contents of a copy are the same.
  const auto contents = [&](const std::string& data) {
    return nlohmann::json::parse(done({"data", "verify", data, "--json"}))["contents"];
  };
  fs::copy(path("photos"), path("copy"), fs::copy_options::recursive);
  EXPECT_EQ(contents("folder:copy"), contents("folder:photos"));
  write("copy/dogs/1.jpg", picture(2));
  EXPECT_NE(contents("folder:copy"), contents("folder:photos"));
  // What is refused leaves the run as it was.
  const std::string recipe = read("run/recipe.toml");
  expect_refusal(podium(train("folder:photos", "run", {"data.path=copy"})), 3, {"other data"});
  EXPECT_EQ(read("run/recipe.toml"), recipe);
  EXPECT_CONTAINS(done({"predict", "run", "photos/dogs/1.jpg", "--top", "2"}), "кошки");
  expect_refusal(podium({"predict", "run", "nowhere.jpg"}), 3,
                 {"nowhere.jpg: cannot be opened", "give a JPEG or PNG file"});
  // A size that the network does not take, and those that it takes.
  expect_refusal(podium({"show", "folder:photos", "model=resnet32", "data.size=90"}), 2,
                 {"`data.size` = 90 does not fit the network resnet32; 88 and 92 fit: "});
  write("photos/dogs/1.jpg", "no picture");
  const Outcome verified = podium({"data", "verify", "folder:photos"});
  EXPECT_EQ(verified.code, 3);
  EXPECT_CONTAINS(verified.out, "27 of 28 pictures decode");
  EXPECT_CONTAINS(verified.err, "photos/dogs/1.jpg: the file is neither JPEG nor PNG");
  EXPECT_CONTAINS(verified.err, "repair or remove the 1 picture");
  expect_refusal(podium(train("folder:photos", "run", {})), 3, {"other data", "--fresh"});
}

TEST_F(OwnPictures, that_were_copied_or_are_called_otherwise_are_the_same_data) {
  write_folder(28);
  const auto hashes = [&] { return file_text(path("run/hashes.jsonl")); };
  done(train("folder:photos", "whole", {}));
  done(train("folder:photos", "run", {"--steps", "2"}));
  // A slash, and an absolute path, then a copy in a folder that --data-dir names.
  done(train("folder:photos/", "run", {"--steps", "3"}));
  done(train("folder:" + path("photos").string(), "run", {"name=photos", "--steps", "4"}));
  fs::create_directories(path("store"));
  fs::copy(path("photos"), path("store/photos"), fs::copy_options::recursive);
  fs::remove_all(path("photos"));
  done(train("folder:photos", "run", {"--data-dir", "store"}));
  EXPECT_EQ(hashes(), file_text(path("whole/hashes.jsonl")));
  done({"eval", "run", "data.path=" + path("store/photos").string()});
  expect_refusal(podium({"eval", "run", "batch=4"}), 2, {"eval takes data.path=FOLDER alone"});
}

TEST_F(OwnPictures, that_evaluation_cannot_decode_are_named_before_step_1_and_mended_as_it_says) {
  write_folder(28);
  // One class's picture that is held out: found by damaging one after the other.
  std::string held_out;
  for (int i = 1; i < 28 && held_out.empty(); i += 2) {
    const std::string name = cat("photos/dogs/", i, ".jpg");
    write(name, "no picture");
    const Outcome outcome = podium(train("folder:photos", "run", {}));
    if (outcome.err.find("cannot be decoded, and evaluation skips none") != std::string::npos) {
      expect_refusal(outcome, 3, {name, "Repair or remove it and give the same command again"});
      held_out = name;
    }
    write(name, picture(i));
    fs::remove_all(path("run"));
  }
  ASSERT_FALSE(held_out.empty());
  // A run whose evaluation set is repaired goes on, and says so.
  done(train("folder:photos", "run", {"--steps", "2"}));
  write(held_out, picture(0));
  const Outcome outcome = podium(train("folder:photos", "run", {}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "the evaluation set is not as it was");
}

TEST_F(OwnPictures, in_folders_that_are_odd_are_spoken_of) {
  write_folder(28);
  fs::create_directories(path("photos/empty"));
  write("photos/birds/1.jpg", picture(1));
  const Outcome outcome = podium(train("folder:photos", "run", {"--steps", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "1 folder has no pictures and is no class: empty");
  EXPECT_CONTAINS(outcome.err, "1 class has one picture alone");
  EXPECT_CONTAINS(outcome.err, "birds");
  // A terminal would take this name for a colour.
  fs::create_directories(path("photos/\x1b[31mred"));
  for (const char* command : {"index", "show"}) {
    const std::string out = done({"data", command, "folder:photos"});
    EXPECT_CONTAINS(out, "?[31mred");
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  }
  expect_refusal(podium(train("folder:photos", "photos/run", {})), 2,
                 {"lies in the folder of the pictures"});
  EXPECT_FALSE(fs::exists(path("photos/run")));
}

TEST_F(OwnPictures, that_a_recipe_does_not_fit_are_refused_before_a_run_has_a_folder) {
  write_folder(28);
  const auto refused = [&](const std::string& data, const std::vector<std::string>& more, int code,
                           const std::vector<std::string>& parts) {
    expect_refusal(podium(train(data, "run", more)), code, parts);
    EXPECT_FALSE(fs::exists(path("run"))) << parts[0];
  };
  const std::string source = "recipe photos, with 26 examples to train on: ";
  for (const std::string command : {"train", "show"}) {
    std::vector<std::string> words = {command, "folder:photos", "batch=8", "epochs=2",
                                      "schedule.warmup=10000"};
    if (command == "train") words.insert(words.end(), {"--out", "run"});
    expect_refusal(podium(words), 2,
                   {source + "`schedule.warmup` = 10000 epochs is longer than the run of 6 "
                             "steps; set a shorter one, or 0 for none"});
  }
  refused("folder:photos", {"batch=64"}, 2,
          {source + "`batch` = 64 is larger than the training set of 26 examples"});
  refused("folder:photos", {"train_examples=20"}, 3, {"26 to train on (`train_examples` = 20)"});
  // Folders that nobody can train on.
  fs::create_directories(path("none"));
  refused("folder:none", {}, 3, {"none: has no folders, and each class must be a folder"});
  write("one/cats/1.jpg", picture(1));
  refused("folder:one", {}, 3, {"one: has 1 picture, and no class has two", "add pictures"});
  write("one/cats/2.jpg", picture(2));
  refused("folder:one", {}, 3, {"has 1 class; a classifier needs at least two"});
}

TEST_F(OwnPictures, a_damaged_picture_to_evaluate_is_named_before_step_1_and_its_repair_is_enough) {
  write_parts("photos");
  const std::string good = read("photos/val/dogs/1.jpg");
  write("photos/val/dogs/1.jpg", good.substr(0, good.size() / 2));
  const std::vector<std::string> command = train("folder:photos", "run", {"--steps", "2"});
  for (int i = 0; i < 2; ++i) {
    expect_refusal(podium(command), 3,
                   {"photos/val/dogs/1.jpg: the JPEG picture is damaged", "evaluation skips none",
                    "Repair or remove it and give the same command again"});
    EXPECT_FALSE(fs::exists(path("run")));
  }
  write("photos/val/dogs/1.jpg", good);  // in its place
  done(command);
  // Removing is as good for a run that has not begun.
  write("photos/val/dogs/1.jpg", good.substr(0, good.size() / 2));
  const std::vector<std::string> other = train("folder:photos", "other", {"--steps", "2"});
  done({"data", "index", "folder:photos"});
  EXPECT_EQ(podium(other).code, 3);
  fs::remove(path("photos/val/dogs/1.jpg"));
  done(other);
}

TEST_F(OwnPictures, a_run_that_a_damaged_picture_stopped_goes_on_if_told_to_skip_it) {
  write_parts("photos");
  write("photos/train/dogs/5.jpg", "no picture");
  const std::vector<std::string> skipping = {"data.on_error=skip"};
  done(train("folder:photos", "whole", skipping));
  expect_refusal(podium(train("folder:photos", "run", {})), 3,
                 {"photos/train/dogs/5.jpg", "train with data.on_error=skip"});
  done(train("folder:photos", "run", skipping));
  EXPECT_EQ(read("run/hashes.jsonl"), read("whole/hashes.jsonl"));
  EXPECT_CONTAINS(read("run/recipe.toml"), "on_error = \"skip\"");
  done({"eval", "run"});
  // One that has skipped would not have come here by stopping.
  expect_refusal(podium(train("folder:photos", "run", {"epochs=2"})), 2, {"+ on_error = \"stop\""});
}

TEST_F(OwnPictures, a_run_goes_on_after_a_picture_to_evaluate_was_repaired_and_says_so) {
  write_parts("photos");
  const std::vector<std::string> command = train("folder:photos", "run", {});
  std::vector<std::string> first = command;
  first.insert(first.end(), {"--steps", "3"});
  done(first);
  const std::string good = read("photos/val/dogs/1.jpg");
  write("photos/val/dogs/1.jpg", good.substr(0, good.size() / 2));
  done({"data", "index", "folder:photos"});
  expect_refusal(podium(command), 3, {"photos/val/dogs/1.jpg", "Repair it, or put another"});
  write("photos/val/dogs/1.jpg", picture(2));
  const Outcome outcome = podium(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "the evaluation set is not as it was: up to step 3");
  EXPECT_CONTAINS(read("run/resolved.txt"), "is not as it was");
  EXPECT_CONTAINS(read("run/environment.json"), "is not as it was");
  done({"eval", "run"});
  write("photos/val/dogs/1.jpg", good);
  done({"data", "index", "folder:photos"});
  EXPECT_CONTAINS(podium({"eval", "run"}).err, "is not as it was");
}

TEST_F(OwnPictures, are_one_run_however_their_place_is_written_and_wherever_they_move) {
  write_parts("photos");
  done(train("folder:photos", "run", {"--steps", "1"}));
  done(train("folder:photos/", "run", {"--steps", "2"}));
  done(train("folder:" + path("photos").string(), "run", {"--steps", "3"}));
  fs::create_directory(path("moved"));
  fs::copy(path("photos"), path("moved/photos"), fs::copy_options::recursive);
  fs::remove_all(path("photos"));
  expect_refusal(podium({"eval", "run"}), 3, {"data.path="});
  done({"eval", "run", "data.path=moved/photos"});
  expect_refusal(podium({"eval", "run", "seed=1"}), 2, {"data.path=FOLDER alone"});
  done(train("folder:photos", "run", {"--data-dir", "moved", "--steps", "4"}));
  done(train("folder:photos", "run", {"data.path=moved/photos"}));
  done(train("folder:moved/photos", "whole", {"name=photos"}));
  EXPECT_EQ(read("run/hashes.jsonl"), read("whole/hashes.jsonl"));
  EXPECT_CONTAINS(done({"bench", "data", "folder:photos", "--data-dir", "moved"}), "pictures of");
}

TEST_F(OwnPictures, of_tfrecord_shards_are_trained_on_evaluated_and_predicted) {
  // Labels count from 1, as those of ImageNet do; record by record, as TensorFlow writes them.
  const auto shard = [&](const std::string& name, int pictures) {
    std::string bytes;
    for (int i = 0; i < pictures; ++i) {
      examples::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["image/encoded"].mutable_bytes_list()->add_value(picture(i));
      features["image/class/label"].mutable_int64_list()->add_value(1 + i % 2);
      features["image/class/text"].mutable_bytes_list()->add_value(i % 2 == 0 ? "кошки" : "dogs");
      append_record(bytes, example.SerializeAsString());
    }
    write(name, bytes);
  };
  shard("shards/train-00000-of-00002", 14);
  shard("shards/train-00001-of-00002", 12);
  shard("shards/validation-00000-of-00001", 6);
  write("dog.jpg", picture(1));
  const std::string data = "tfrecord:shards";
  EXPECT_CONTAINS(done({"data", "index", data}), "32 pictures of");
  EXPECT_CONTAINS(done({"data", "verify", data}), "32 of 32 pictures decode");
  EXPECT_CONTAINS(done({"data", "show", data}), "26 pictures to train");
  done(train(data, "run", {"data.label_base=1", "--workers", "2"}));
  const auto evaluated = nlohmann::json::parse(done({"eval", "run", "--json", "--workers", "1"}));
  EXPECT_EQ(evaluated["examples"], 6);
  EXPECT_EQ(evaluated["classes"].size(), 2U);
  EXPECT_EQ(evaluated["classes"][0]["name"], "кошки");
  const auto predicted =
      nlohmann::json::parse(done({"predict", "run", "dog.jpg", "--top", "2", "--json"}));
  EXPECT_CONTAINS(predicted.dump(), "кошки");
  // A record that is damaged is found by its checksum, and a shard that is cut short by its size.
  std::string bytes = read("shards/train-00001-of-00002");
  char& middle = bytes[bytes.size() - picture(11).size() / 2];  // of the last picture
  middle = static_cast<char>(middle ^ 1);
  write("shards/train-00001-of-00002", bytes);
  const Outcome verified = podium({"data", "verify", data});
  EXPECT_EQ(verified.code, 3);
  EXPECT_CONTAINS(verified.out, "31 of 32 pictures decode");
  EXPECT_CONTAINS(verified.err, "record 11 at byte ");
  EXPECT_CONTAINS(verified.err, "the checksum of its data is wrong");
  fs::resize_file(path("shards/train-00001-of-00002"), 3000);
  expect_refusal(podium(train(data, "new", {})), 3,
                 {"shards/train-00001-of-00002: at byte ", "cut short"});
  EXPECT_FALSE(fs::exists(path("new")));
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
