#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "data/datasets/dataset_registry.h"
#include "data/datasets/fetch.h"
#include "files/checksum.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;
namespace fs = std::filesystem;

// No folder but those that a test names: the current one has no ../shared, the cache is empty.
class DatasetFolders : public ::testing::Test {
 protected:
  DatasetFolders() : old_current_(fs::current_path()) {
    fs::create_directories(folder_ / "work/here");
    fs::current_path(folder_ / "work/here");
  }
  ~DatasetFolders() override { fs::current_path(old_current_); }

  // Three tiny training digits; `labels` as given.
  static void write_mnist(const std::string& folder, bool packed = false,
                          const Bytes& labels = {7, 0, 9}) {
    const Bytes images = idx({3, 28, 28}, Bytes(std::size_t{3} * 784, 200));
    const Bytes tags = idx({static_cast<std::uint32_t>(labels.size())}, labels);
    const std::string suffix = packed ? ".gz" : "";
    write_file(folder + "/train-images-idx3-ubyte" + suffix, packed ? gzip(images) : images);
    write_file(folder + "/train-labels-idx1-ubyte" + suffix, packed ? gzip(tags) : tags);
  }
  ImageSet load(const std::string& data_dir = "") const {
    DatasetOptions options;
    options.data_dir = data_dir;
    return load_dataset("mnist", Split::kTrain, options);
  }

  TempFolder folder_;
  fs::path old_current_;
  ScopedEnvironment cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  ScopedEnvironment data_{"PODIUM_DATA", ""};
};

TEST_F(DatasetFolders, are_searched_in_their_order) {
  const ScopedEnvironment data("PODIUM_DATA", folder_ / "environment");
  const std::vector<std::string> folders = {folder_ / "cache/podium", folder_ / "work/shared/data",
                                            folder_ / "environment", folder_ / "given"};
  for (const std::string& folder : folders) {
    write_mnist(folder);
    EXPECT_EQ(fs::weakly_canonical(load(folder_ / "given" == folder ? folder : "").source),
              fs::weakly_canonical(folder));
    write_mnist(folder + "/mnist");
    EXPECT_EQ(fs::weakly_canonical(load(folder_ / "given" == folder ? folder : "").source),
              fs::weakly_canonical(folder + "/mnist"));
  }
}

TEST_F(DatasetFolders, hold_files_packed_or_not) {
  write_mnist(folder_ / "a", false);
  write_mnist(folder_ / "b", true);
  const ImageSet plain = load(folder_ / "a");
  const ImageSet packed = load(folder_ / "b");
  EXPECT_EQ(plain.count, 3);
  EXPECT_EQ(plain.pixels, packed.pixels);
  EXPECT_EQ(plain.labels, (Labels{7, 0, 9}));
  EXPECT_EQ(packed.labels, plain.labels);
  EXPECT_EQ(plain.classes, 10);
}

TEST_F(DatasetFolders, without_the_files_are_all_listed) {
  const ScopedEnvironment data("PODIUM_DATA", folder_ / "environment");
  fs::create_directories(folder_ / "given");
  const std::string text = data_error([&] { load(folder_ / "given"); });
  for (const std::string& part :
       {folder_ / "given/mnist", folder_ / "given", folder_ / "environment/mnist",
        std::string("../shared/data/mnist"), folder_ / "cache/podium/mnist",
        std::string("podium data fetch mnist"), std::string("--data-dir")}) {
    EXPECT_CONTAINS(text, part);
  }
}

TEST_F(DatasetFolders, that_are_given_but_do_not_exist_are_an_error) {
  write_mnist(folder_ / "cache/podium");
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "nowhere"); }), "nowhere: no such folder");
}

TEST_F(DatasetFolders, are_never_mixed) {
  write_mnist(folder_ / "cache/podium/mnist");
  write_mnist(folder_ / "given");
  fs::remove(folder_ / "given/train-labels-idx1-ubyte");
  const std::string text = data_error([&] { load(folder_ / "given"); });
  EXPECT_CONTAINS(text, folder_ / "given/train-labels-idx1-ubyte");
  EXPECT_CONTAINS(text, "missing");
  EXPECT_CONTAINS(text, "train-images-idx3-ubyte is present");
}

TEST_F(DatasetFolders, mnist_labels_out_of_range_are_named_with_their_byte) {
  write_mnist(folder_ / "given", false, {1, 10, 2});
  EXPECT_CONTAINS(
      data_error([&] { load(folder_ / "given"); }),
      "train-labels-idx1-ubyte: at byte 9: label 10 is out of range; labels are 0 to 9");
}

TEST_F(DatasetFolders, mnist_counts_that_differ_are_an_error) {
  write_mnist(folder_ / "given", true, {1, 2});
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "given"); }), "contains 2 labels, but ");
}

TEST_F(DatasetFolders, mnist_files_of_more_examples_than_there_are_are_refused_unread) {
  write_mnist(folder_ / "given", true, Bytes(60001));
  EXPECT_CONTAINS(
      data_error([&] { load(folder_ / "given"); }),
      "at byte 4 (unpacked): the header states 60001 elements; at most 60000 are allowed");
  write_mnist(folder_ / "given");
  write_file(folder_ / "given/train-images-idx3-ubyte", idx({1, 29, 28}, Bytes(29 * 28)));
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "given"); }),
                  "at byte 8: the header states 1 x 29 x 28 elements; at most 60000 x 28 x 28");
}

TEST_F(DatasetFolders, mnist_images_of_another_size_are_an_error) {
  write_mnist(folder_ / "given");
  write_file(folder_ / "given/train-images-idx3-ubyte", idx({3, 2, 2}, Bytes(12)));
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "given"); }),
                  "at byte 8: the images are 2 x 2 pixels; MNIST's are 28 x 28");
}

TEST_F(DatasetFolders, mnist_without_images_is_an_error) {
  write_mnist(folder_ / "given", false, {});
  write_file(folder_ / "given/train-images-idx3-ubyte", idx({0, 28, 28}, {}));
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "given"); }), "the file contains no images");
}

TEST_F(DatasetFolders, mnist_labels_in_place_of_images_are_an_error) {
  write_mnist(folder_ / "given");
  write_file(folder_ / "given/train-images-idx3-ubyte", idx({3}, {1, 2, 3}));
  EXPECT_CONTAINS(data_error([&] { load(folder_ / "given"); }), "labels?");
}

TEST_F(DatasetFolders, verify_tells_damaged_missing_and_intact_files_apart) {
  const Bytes good = {1, 2, 3};
  DatasetInfo info;
  info.name = "tiny";
  for (const char* name : {"good", "packed", "long", "short", "other", "absent"}) {
    info.files.push_back({name, 3, sha256(good), Split::kTrain});
  }
  write_file(folder_ / "given/tiny/good", good);
  write_file(folder_ / "given/tiny/packed.gz", gzip(good));
  write_file(folder_ / "given/tiny/long", {1, 2, 3, 4});
  write_file(folder_ / "given/tiny/short", {1, 2});
  write_file(folder_ / "given/tiny/other", {1, 2, 4});
  DatasetOptions options;
  options.data_dir = folder_ / "given";
  const std::vector<FileCheck> checks = verify_dataset(info, options);
  ASSERT_EQ(checks.size(), 6u);
  EXPECT_TRUE(checks[0].intact);
  EXPECT_TRUE(checks[1].intact);
  EXPECT_CONTAINS(checks[2].problem, "more than the 3 bytes");
  EXPECT_CONTAINS(checks[3].problem, "2 bytes instead of 3");
  EXPECT_CONTAINS(checks[4].problem, "SHA-256 is " + sha256(Bytes{1, 2, 4}));
  EXPECT_CONTAINS(checks[4].problem, "podium data fetch tiny --data-dir " + folder_ / "given");
  EXPECT_EQ(checks[5].problem, folder_ /
                                       "given/tiny/absent: missing, also as .gz, although "
                                       "good is present; get an intact copy with `podium data "
                                       "fetch tiny --data-dir " +
                                   folder_ / "given" + "`");
  EXPECT_TRUE(checks[4].damaged);
  EXPECT_FALSE(checks[5].damaged);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_FALSE(checks[i].intact);
}

TEST(Dataset, unknown_names_meet_the_nearest_known_one) {
  const std::string text =
      user_error(ExitCode::kUsage, [] { load_dataset("mnits", Split::kTrain); });
  EXPECT_CONTAINS(text, "unknown dataset \"mnits\"; did you mean \"mnist\"?");
  EXPECT_CONTAINS(text, "glyphs");
}

TEST(Dataset, list_has_distinct_names_and_sound_entries) {
  std::set<std::string> names;
  for (const DatasetInfo& info : dataset_list()) {
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_FALSE(info.description.empty());
    EXPECT_GT(info.channels * info.height * info.width * info.classes, 0);
    EXPECT_EQ(info.files.empty(), info.addresses.empty());
    for (const DatasetFile& file : info.files)
      EXPECT_EQ(file.sha256.size(), info.digest == nullptr ? 64u : 0u);
    EXPECT_EQ(info.digest == nullptr, info.digests[0] == 0 && info.digests[1] == 0);
    EXPECT_EQ(info.digest == nullptr, info.check_file == nullptr);
  }
  EXPECT_TRUE(names.contains("mnist"));
  EXPECT_TRUE(names.contains("glyphs"));
}

TEST(Dataset, drawn_ones_have_nothing_to_verify) { EXPECT_TRUE(verify_dataset("glyphs").empty()); }

TEST(Dataset, part_of_holds_examples_out) {
  const ImageSet set({3, 1, 1, 2, 10, "here"}, {1, 2, 3, 4, 5, 6}, {7, 8, 9});
  const ImageSet part = part_of(set, 1, 2);
  EXPECT_EQ(part.count, 2);
  EXPECT_EQ(part.pixels, (Bytes{3, 4, 5, 6}));
  EXPECT_EQ(part.labels, (Labels{8, 9}));
  EXPECT_EQ(part.classes, 10);
  EXPECT_EQ(part.source, "here");
}

TEST(Dataset, sample_of_spreads_over_a_sorted_set) {
  const ImageSet set({6, 1, 1, 1, 10, "here"}, {1, 2, 3, 4, 5, 6}, {0, 0, 0, 1, 1, 2});
  EXPECT_EQ(sample_of(set, 3).pixels, (Bytes{1, 3, 5}));
  EXPECT_EQ(sample_of(set, 3).labels, (Labels{0, 0, 1}));
  EXPECT_EQ(sample_of(set, 6).pixels, set.pixels);
}

TEST(Checksum, is_sha256) {
  const std::string abc = "abc";
  EXPECT_EQ(sha256({reinterpret_cast<const std::uint8_t*>(abc.data()), abc.size()}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Checksum, is_md5_where_that_is_asked_for) {
  const std::string abc = "abc";
  Checksum sum(ChecksumKind::kMd5);
  sum.update({reinterpret_cast<const std::uint8_t*>(abc.data()), abc.size()});
  EXPECT_EQ(sum.finish(), "900150983cd24fb0d6963f7d28e17f72");
}

// Real data: where the search finds it.
TEST(RealCifar10, is_the_published_one) {
  if (!locate_files(find_dataset("cifar10"), "")) GTEST_SKIP() << "CIFAR-10 is not on this machine";
  for (const FileCheck& check : verify_dataset("cifar10"))
    EXPECT_TRUE(check.intact) << check.problem;
  const ImageSet train = load_dataset("cifar10", Split::kTrain);
  EXPECT_EQ(train.count, 50000);
  std::vector<std::int64_t> classes(10);
  for (const std::int32_t label : train.labels) ++classes[static_cast<std::size_t>(label)];
  EXPECT_EQ(classes, std::vector<std::int64_t>(10, 5000));
  // The means of the channels as published, pixels over 255.
  const double means[] = {0.49140, 0.48216, 0.44653};
  for (std::int64_t c = 0; c < 3; ++c) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < train.count; ++i) {
      const std::uint8_t* plane = train.pixels.data() + i * train.image_bytes() + c * 1024;
      sum = std::accumulate(plane, plane + 1024, sum);
    }
    EXPECT_NEAR(static_cast<double>(sum) / (50000.0 * 1024 * 255), means[c], 1e-5);
  }
}

TEST(RealMnist, is_the_published_one) {
  if (!locate_files(find_dataset("mnist"), "")) GTEST_SKIP() << "MNIST is not on this machine";
  for (const FileCheck& check : verify_dataset("mnist")) EXPECT_TRUE(check.intact) << check.problem;
  const ImageSet train = load_dataset("mnist", Split::kTrain);
  const ImageSet test = load_dataset("mnist", Split::kTest);
  EXPECT_EQ(train.count, 60000);
  EXPECT_EQ(test.count, 10000);
  EXPECT_EQ((Labels{train.labels.begin(), train.labels.begin() + 8}),
            (Labels{5, 0, 4, 1, 9, 2, 1, 3}));
  EXPECT_EQ((Labels{test.labels.begin(), test.labels.begin() + 8}),
            (Labels{7, 2, 1, 0, 4, 1, 4, 9}));
}

TEST(Dataset, classes_are_called_by_their_names_or_numbers) {
  EXPECT_EQ(find_dataset("mnist").class_name(7), "7");
  EXPECT_EQ(find_dataset("cifar10").class_name(0), "airplane");
  EXPECT_EQ(find_dataset("cifar10").class_name(9), "truck");
  for (const DatasetInfo& info : dataset_list()) {
    const auto names = static_cast<std::int64_t>(info.class_names.size());
    EXPECT_TRUE(names == 0 || names == info.classes) << info.name;
  }
}

DatasetInfo dots() {
  return {.name = "dots",
          .description = "of this test",
          .channels = 1,
          .height = 2,
          .width = 3,
          .classes = 2,
          .train_examples = 4,
          .test_examples = 2,
          .load = [](const DatasetInfo& info, Split split, const DatasetOptions&) {
            ImageSet set({.count = split == Split::kTrain ? 4 : 2,
                          .channels = 1,
                          .height = 2,
                          .width = 3,
                          .classes = info.classes,
                          .source = "drawn"});
            for (std::int64_t i = 0; i < set.count; ++i) {
              set.pixels.insert(set.pixels.end(), 6, static_cast<std::uint8_t>(100 * (i % 2)));
              set.labels.push_back(static_cast<std::uint8_t>(i % 2));
            }
            return set;
          }};
}

TEST(OwnDataset, is_found_and_loaded_once_it_is_registered) {
  const DatasetInfo& first = dataset_list().front();
  const std::size_t count = dataset_list().size();
  register_dataset(dots());
  EXPECT_EQ(dataset_list().size(), count + 1);
  EXPECT_EQ(&dataset_list().front(), &first);
  EXPECT_EQ(find_dataset("dots").description, "of this test");
  const ImageSet set = load_dataset("dots", Split::kTest);
  EXPECT_EQ(set.count, 2);
  EXPECT_EQ(set.labels, (Labels{0, 1}));
}

TEST(OwnDataset, a_description_that_is_not_whole_or_a_name_that_is_taken_is_refused) {
  const auto error = [](const std::function<void(DatasetInfo&)>& change) {
    DatasetInfo info = dots();
    info.name = "other";
    change(info);
    return user_error(ExitCode::kUsage, [&] { register_dataset(info); });
  };
  EXPECT_EQ(error([](DatasetInfo& d) { d.name = "mnist"; }),
            "dataset \"mnist\" is registered already; give it another name");
  EXPECT_EQ(error([](DatasetInfo& d) { d.name = "own"; }),
            "dataset \"own\": this name is reserved for examples in memory; choose another");
  EXPECT_EQ(error([](DatasetInfo& d) { d.name = "a/b"; }),
            "dataset \"a/b\": a name has letters, digits, '-', '_' and '.', and begins with one of "
            "the first two");
  EXPECT_EQ(error([](DatasetInfo& d) { d.load = nullptr; }),
            "dataset \"other\" has no function that loads it");
  EXPECT_EQ(error([](DatasetInfo& d) { d.width = 0; }),
            "dataset \"other\": channels, height and width must be at least 1");
  EXPECT_EQ(error([](DatasetInfo& d) { d.classes = 1048577; }),
            "dataset \"other\": classes must be from 1 to 1048576");
  EXPECT_EQ(error([](DatasetInfo& d) { d.test_examples = 0; }),
            "dataset \"other\": train_examples and test_examples must be at least 1");
  EXPECT_EQ(error([](DatasetInfo& d) { d.class_names = {"one"}; }),
            "dataset \"other\" names 1 of its 2 classes");
}

TEST(OwnDataset, a_set_that_is_not_as_described_is_an_error_that_says_where) {
  int number = 0;
  static std::function<void(ImageSet&)> changes;
  const auto error = [&](const std::function<void(ImageSet&)>& change) {
    changes = change;
    DatasetInfo info = dots();
    info.name = cat("broken", ++number);
    info.load = [](const DatasetInfo& described, Split split, const DatasetOptions& options) {
      ImageSet set = dots().load(described, split, options);
      changes(set);
      return set;
    };
    register_dataset(info);
    return user_error(ExitCode::kData, [&] { load_dataset(info.name, Split::kTrain); });
  };
  EXPECT_EQ(error([](ImageSet& set) { set.height = 3; }),
            "dataset \"broken1\": its train split has images of 1 x 3 x 3 in 2 classes; its "
            "description says 1 x 2 x 3 in 2 classes");
  EXPECT_EQ(error([](ImageSet& set) { set.pixels.pop_back(); }),
            "dataset \"broken2\", train split (drawn): 4 images of 1 x 2 x 3 need 24 bytes, and "
            "there are 23: example 3 (counted from 0) is the first incomplete one");
  EXPECT_EQ(error([](ImageSet& set) { set.labels[2] = 2; }),
            "dataset \"broken3\", train split (drawn): example 2 (counted from 0) has the label 2; "
            "labels are 0 to 1, since there are 2 classes");
}

}  // namespace
}  // namespace podium
