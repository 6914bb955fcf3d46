#include "data/cifar.h"

#include "data/dataset_list.h"
#include "data/fetch.h"
#include "data/test_files.h"

namespace podium {
namespace {

using namespace podium::testing;

// `n` records; `first` decides labels and pixels.
Bytes records(int first, int n) {
  Bytes bytes;
  for (int i = first; i < first + n; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i % 10));
    for (int p = 1; p < kCifarRecord; ++p)
      bytes.push_back(static_cast<std::uint8_t>(31 * i + p * p));
  }
  return bytes;
}

ImageSet parse(const Bytes& bytes) {
  ImageSet set = cifar_set();
  append_cifar(*open_bytes(bytes, "x.bin", "mend it"), "x.bin", "mend it", set);
  return set;
}

TEST(Cifar, a_record_is_a_label_and_three_planes) {
  const Bytes bytes = records(3, 300);
  const ImageSet set = parse(bytes);
  ASSERT_EQ(set.count, 300);
  EXPECT_EQ(set.image_bytes(), 3 * 32 * 32);
  for (std::size_t i : {0u, 255u, 256u, 299u}) {
    EXPECT_EQ(set.labels[i], bytes[i * kCifarRecord]);
    EXPECT_TRUE(std::equal(set.pixels.begin() + static_cast<std::ptrdiff_t>(i * 3072),
                           set.pixels.begin() + static_cast<std::ptrdiff_t>((i + 1) * 3072),
                           bytes.begin() + static_cast<std::ptrdiff_t>(i * kCifarRecord + 1)));
  }
}

TEST(Cifar, an_empty_cut_or_mislabelled_file_is_refused_with_its_place) {
  EXPECT_EQ(data_error([] { parse({}); }), "x.bin: at byte 0: the file is empty; mend it");
  Bytes cut = records(0, 300);
  cut.pop_back();
  EXPECT_EQ(
      data_error([&] { parse(cut); }),
      "x.bin: at byte 921899: the file ends here, within record 299: records have 3073 bytes; "
      "mend it");
  Bytes wrong = records(0, 300);
  wrong[257 * kCifarRecord] = 10;
  EXPECT_EQ(data_error([&] { parse(wrong); }),
            "x.bin: at byte 789761: label 10 is out of range; labels are 0 to 9; mend it");
}

TEST(Cifar, a_refused_file_leaves_the_set_as_it_was) {
  ImageSet set = parse(records(0, 2));
  const ImageSet before = set;
  Bytes cut = records(2, 2);
  cut.pop_back();
  data_error([&] { append_cifar(*open_bytes(cut, "y", ""), "y", "", set); });
  EXPECT_EQ(set.pixels, before.pixels);
  EXPECT_EQ(set.labels, before.labels);
  EXPECT_EQ(set.count, before.count);
}

TEST(Cifar, the_digest_tells_other_examples_but_not_another_order) {
  const Bytes a = records(0, 1), b = records(1, 1), c = records(2, 1);
  const auto digest_of = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return cifar_digest(parse(all));
  };
  EXPECT_EQ(digest_of({a, b, c}), digest_of({c, a, b}));
  EXPECT_NE(digest_of({a, b, c}), digest_of({a, b, b}));
  Bytes relabelled = c;
  relabelled[0] = 3;
  EXPECT_NE(digest_of({a, b, c}), digest_of({a, b, relabelled}));
}

// The dataset with files of 20 images, as somebody has them: packed, or unpacked.
class Cifar10 : public ::testing::Test {
 protected:
  void SetUp() override {
    info_ = cifar10_dataset();
    std::vector<std::pair<std::string, Bytes>> members;
    for (std::size_t i = 0; i < info_.files.size(); ++i) {
      DatasetFile& file = info_.files[i];
      file.bytes = 20 * kCifarRecord;
      files_.push_back(records(static_cast<int>(20 * i), 20));
      // Not in the order in which they are wanted.
      members.insert(members.begin(), {info_.archive->folder + "/" + file.name, files_.back()});
    }
    members.push_back({info_.archive->folder + "/batches.meta.txt", {'a'}});
    packed_ = tar_gz(members);
    options_.data_dir = folder_.path().string();
    const std::string path = write_file(folder_ / "aside/cifar-10-binary.tar.gz", packed_);
    const std::vector<std::string> paths(info_.files.size(), path);
    info_.digests = {info_.digest(info_, Split::kTrain, paths),
                     info_.digest(info_, Split::kTest, paths)};
  }
  void unpack(const std::string& folder) {
    for (std::size_t i = 0; i < files_.size(); ++i)
      write_file(folder_ / (folder + "/" + info_.files[i].name), files_[i]);
  }
  ImageSet load(Split split) { return info_.load(info_, split, options_); }
  bool intact() {
    for (const FileCheck& check : verify_dataset(info_, options_))
      if (!check.intact) return false;
    return true;
  }

  TempFolder folder_;
  ScopedEnvironment cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  DatasetOptions options_;
  DatasetInfo info_;
  std::vector<Bytes> files_;
  Bytes packed_;
};

TEST_F(Cifar10, is_the_same_from_its_archive_and_from_its_files) {
  write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", packed_);
  const ImageSet train = load(Split::kTrain), test = load(Split::kTest);
  EXPECT_EQ(train.count, 100);
  EXPECT_EQ(test.count, 20);
  EXPECT_EQ(train.labels[41], 1);
  EXPECT_TRUE(intact());
  unpack("cifar10/cifar-10-batches-bin");  // taken first
  EXPECT_EQ(load(Split::kTrain).pixels, train.pixels);
  EXPECT_EQ(load(Split::kTest).pixels, test.pixels);
  EXPECT_CONTAINS(load(Split::kTest).source, "cifar-10-batches-bin");
  EXPECT_TRUE(intact());
}

TEST_F(Cifar10, files_may_lie_without_their_folder) {
  unpack("cifar10");
  EXPECT_EQ(load(Split::kTrain).count, 100);
}

TEST_F(Cifar10, a_file_cut_or_padded_by_whole_records_is_refused) {
  unpack("cifar10");
  write_file(folder_ / "cifar10/data_batch_3.bin", records(0, 19));
  EXPECT_CONTAINS(data_error([&] { load(Split::kTrain); }),
                  "data_batch_3.bin: holds 19 images, where it must have 20");
  write_file(folder_ / "cifar10/data_batch_3.bin", records(0, 21));
  EXPECT_CONTAINS(data_error([&] { load(Split::kTrain); }), "holds 21 images");
  EXPECT_FALSE(intact());
}

TEST_F(Cifar10, an_archive_without_one_of_the_files_is_refused) {
  write_file(folder_ / "cifar10/cifar-10-binary.tar.gz",
             tar_gz({{"cifar-10-batches-bin/data_batch_1.bin", files_[0]}}));
  const std::string text = data_error([&] { load(Split::kTest); });
  EXPECT_CONTAINS(text, "cifar-10-binary.tar.gz: holds no test_batch.bin");
  EXPECT_CONTAINS(text, "podium data fetch cifar10");
}

TEST_F(Cifar10, verify_tells_other_examples) {
  unpack("cifar10");
  write_file(folder_ / "cifar10/test_batch.bin", records(7, 20));
  const std::vector<FileCheck> checks = verify_dataset(info_, options_);
  ASSERT_EQ(checks.size(), 6u);
  EXPECT_TRUE(checks[0].intact) << checks[0].problem;
  EXPECT_FALSE(checks[5].intact);
  EXPECT_CONTAINS(checks[5].problem, "its test examples are not those of cifar10");
}

}  // namespace
}  // namespace podium
