#include "data/pictures/formats/cifar.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "data/datasets/dataset_list.h"
#include "data/datasets/fetch.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

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

ImageSet parse(const Bytes& bytes, std::int64_t most = 300) {
  ImageSet set = cifar_set();
  append_cifar(*open_bytes(bytes, "x.bin", "mend it"), "x.bin", "mend it", most, set);
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
      "x.bin: at byte 921899: the file ends here, inside record 299; each record has 3073 bytes; "
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
  Bytes cut_gzip = gzip(records(2, 300));  // ends after records that were read
  cut_gzip.pop_back();
  for (const Bytes& file : {cut, cut_gzip, records(0, 301)}) {
    data_error([&] { append_cifar(*open_bytes(file, "y", ""), "y", "", 300, set); });
    EXPECT_EQ(set.pixels, before.pixels);
    EXPECT_EQ(set.labels, before.labels);
    EXPECT_EQ(set.count, before.count);
  }
}

// Zeros, which are good records, as many as are asked for.
class Endless : public ByteSource {
 public:
  std::size_t read(std::span<std::uint8_t> out) override {
    given += out.size();
    PODIUM_CHECK(given < (std::size_t{1} << 28));
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    return out.size();
  }
  std::uint64_t most_bytes() const override { return ~std::uint64_t{0}; }
  bool packed() const override { return true; }
  std::size_t given = 0;
};

TEST(Cifar, a_file_of_more_records_than_it_must_have_is_not_read_on) {
  EXPECT_EQ(parse(records(0, 300), 300).count, 300);
  EXPECT_EQ(data_error([] { parse(records(0, 300), 299); }),
            "x.bin: at byte 918827: data continues after the 299 images that the file must have; "
            "mend it");
  Endless endless;
  ImageSet set = cifar_set();
  const std::string text =
      data_error([&] { append_cifar(endless, "x.bin.gz", "mend it", 1000, set); });
  EXPECT_EQ(text,
            "x.bin.gz: at byte 3073000 (unpacked): data continues after the 1000 images that the "
            "file must have; mend it");
  EXPECT_LT(endless.given, std::size_t{1300} * kCifarRecord);
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
    info_.digests = {info_.digest(info_, Split::kTrain, paths, ""),
                     info_.digest(info_, Split::kTest, paths, "")};
  }
  void unpack(const std::string& folder) {
    for (std::size_t i = 0; i < files_.size(); ++i)
      write_file(folder_ / (folder + "/" + info_.files[i].name), files_[i]);
  }
  ImageSet load(Split split) { return info_.load(info_, split, options_); }
  // As a tar packed by gzip, of the six files with these bytes in place of data_batch_2.bin's.
  Bytes archive_with_second(const Bytes& second) const {
    std::vector<std::pair<std::string, Bytes>> members;
    for (std::size_t i = 0; i < files_.size(); ++i)
      members.push_back(
          {info_.archive->folder + "/" + info_.files[i].name, i == 1 ? second : files_[i]});
    return tar_gz(members);
  }
  bool intact() {
    for (const FileCheck& check : verify_dataset(info_, options_))
      if (!check.intact) return false;
    return true;
  }

  TempFolder folder_;
  ScopedEnvironment cache_{"XDG_CACHE_HOME", folder_ / "cache"};
  ScopedEnvironment data_{"PODIUM_DATA", ""};
  // Where nobody listens: what is not there already cannot be had.
  ScopedEnvironment base_{"PODIUM_DOWNLOAD_BASE", "http://127.0.0.1:1"};
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
                  "data_batch_3.bin: contains 19 images instead of 20");
  write_file(folder_ / "cifar10/data_batch_3.bin", records(0, 21));
  EXPECT_CONTAINS(data_error([&] { load(Split::kTrain); }),
                  "data_batch_3.bin: at byte 61460: data continues after the 20 images");
  EXPECT_FALSE(intact());
}

TEST_F(Cifar10, an_archive_without_one_of_the_files_is_refused) {
  write_file(folder_ / "cifar10/cifar-10-binary.tar.gz",
             tar_gz({{"cifar-10-batches-bin/data_batch_1.bin", files_[0]}}));
  const std::string text = data_error([&] { load(Split::kTest); });
  EXPECT_CONTAINS(text, "cifar-10-binary.tar.gz: does not contain test_batch.bin");
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

TEST_F(Cifar10, verify_tells_the_one_file_with_a_bad_label) {
  unpack("cifar10");
  Bytes wrong = files_[2];
  wrong[3 * kCifarRecord] = 10;
  write_file(folder_ / "cifar10/data_batch_3.bin", wrong);
  const std::vector<FileCheck> checks = verify_dataset(info_, options_);
  ASSERT_EQ(checks.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(checks[i].intact, i != 2) << checks[i].problem;
  EXPECT_CONTAINS(checks[2].problem, "data_batch_3.bin: at byte 9219: label 10 is out of range");
  EXPECT_TRUE(checks[2].damaged);
}

TEST_F(Cifar10, unpacked_files_of_which_some_are_missing_give_way_to_the_archive) {
  unpack("cifar10");
  std::filesystem::remove(folder_ / "cifar10/data_batch_4.bin");
  EXPECT_EQ(data_error([&] { load(Split::kTrain); }),
            folder_ /
                    "cifar10/data_batch_4.bin: missing, also as .gz, although "
                    "data_batch_1.bin is present; get an intact copy with `podium data fetch "
                    "cifar10 --data-dir " +
                folder_.path().string() + "`");
  const std::string archive = write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", packed_);
  EXPECT_EQ(load(Split::kTrain).source, archive);
  EXPECT_EQ(load(Split::kTrain).count, 100);
}

TEST_F(Cifar10, a_cut_archive_is_refused_with_its_remedy) {
  const std::string path = folder_ / "cifar10/cifar-10-binary.tar.gz";
  for (const std::size_t part : {2u, 20u}) {
    write_file(path, {packed_.begin(),
                      packed_.begin() + static_cast<std::ptrdiff_t>(packed_.size() / part)});
    const std::string text = data_error([&] { load(Split::kTrain); });
    EXPECT_EQ(text.find(path + ": "), 0u) << text;
    EXPECT_CONTAINS(text, "the archive cannot be read: ");
    EXPECT_CONTAINS(text, "podium data fetch cifar10 --data-dir " + folder_.path().string());
    EXPECT_FALSE(intact());
  }
}

TEST_F(Cifar10, a_bad_member_of_an_archive_is_named_with_its_byte) {
  const std::string path = folder_ / "cifar10/cifar-10-binary.tar.gz";
  const std::string member = path + ": in cifar-10-batches-bin/data_batch_2.bin: ";
  const auto error_of = [&](const Bytes& second) {
    write_file(path, archive_with_second(second));
    EXPECT_FALSE(intact());
    return data_error([&] { load(Split::kTrain); });
  };
  Bytes bytes = files_[1];
  bytes[kCifarRecord] = 10;
  EXPECT_CONTAINS(error_of(bytes), member + "at byte 3073: label 10 is out of range");
  bytes = files_[1];
  bytes.resize(5000);
  EXPECT_CONTAINS(error_of(bytes), member + "at byte 5000: the file ends here, inside record 1");
  bytes.resize(2 * kCifarRecord);
  EXPECT_CONTAINS(error_of(bytes), member + "contains 2 images instead of 20");
  bytes = files_[1];
  bytes.push_back(0);
  EXPECT_CONTAINS(error_of(bytes), member + "at byte 61460: data continues after the 20 images");
}

// Whatever is wrong with unpacked files, wherever they lie and however they are named to the
// program: what the error says to do mends it.
TEST_F(Cifar10, the_remedy_of_bad_unpacked_files_mends_them) {
  const std::string inner = info_.archive->folder;
  const std::vector<std::pair<std::string, std::string>> places = {
      // --data-dir, and the folder of the files
      {"", "cifar10/" + inner},
      {"", "cifar10"},
      {"", inner},
      {"", ""},
      {"cifar10", "cifar10/" + inner},
      {"cifar10", "cifar10"},
      {"cifar10/" + inner, "cifar10/" + inner},
      {inner, inner},
      {"cifar10", "cifar10/cifar10"}};
  Bytes mislabelled = files_[2], padded = files_[2];
  mislabelled[0] = 10;
  padded.resize(padded.size() + kCifarRecord);
  const Bytes cut(files_[2].begin(), files_[2].end() - kCifarRecord);
  const std::vector<Bytes> bad = {mislabelled, padded, cut, {}};
  int number = 0;
  for (const auto& [given, place] : places) {
    for (std::size_t kind = 0; kind <= bad.size(); ++kind) {
      const std::string root = "case-" + std::to_string(number++);
      const std::string in_place = root + "/" + (place.empty() ? "" : place + "/");
      unpack(root + "/" + place);
      const std::string third = folder_ / (in_place + "data_batch_3.bin");
      if (kind < bad.size()) {
        write_file(third, bad[kind]);
      } else {
        std::filesystem::remove(third);
      }
      options_.data_dir = folder_ / root + (given.empty() ? "" : "/" + given);
      const std::string text = data_error([&] { load(Split::kTrain); });
      const std::string before = "podium data fetch cifar10 --data-dir ";
      const std::size_t at = text.find(before);
      ASSERT_NE(at, std::string::npos) << text;
      const std::size_t start = at + before.size();
      const std::string to = text.substr(start, text.find('`', start) - start);
      // What would be downloaded.
      write_file(to + "/cifar10/cifar-10-binary.tar.gz", packed_);
      const std::vector<FetchedFile> fetched = fetch_dataset(info_, to, {});
      ASSERT_EQ(fetched.size(), 1u);
      ASSERT_EQ(load(Split::kTrain).count, 100) << text;
      EXPECT_EQ(load(Split::kTrain).labels[41], 1);
      EXPECT_EQ(load(Split::kTest).count, 20);
      EXPECT_TRUE(intact()) << text;
    }
  }
}

TEST_F(Cifar10, fetch_sets_damaged_files_aside_and_loses_none) {
  write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", packed_);
  const std::string third = folder_ / "cifar10/data_batch_3.bin";
  const std::vector<Bytes> bad = {{1}, {2}, {3}};
  for (const Bytes& bytes : bad) {
    unpack("cifar10");
    write_file(third, bytes);
    EXPECT_FALSE(fetch_dataset(info_, folder_.path().string(), {}).at(0).downloaded);
    EXPECT_FALSE(std::filesystem::exists(third));
    EXPECT_TRUE(intact());
  }
  EXPECT_EQ(read_file(third + ".damaged"), bad[0]);
  EXPECT_EQ(read_file(third + ".damaged-2"), bad[1]);
  EXPECT_EQ(read_file(third + ".damaged-3"), bad[2]);
  // The intact ones keep their names, and what was set aside uncovers what is packed.
  EXPECT_EQ(read_file(folder_ / "cifar10/data_batch_2.bin"), files_[1]);
  write_file(third, {4});
  write_file(third + ".gz", gzip({5}));
  fetch_dataset(info_, folder_.path().string(), {});
  EXPECT_TRUE(std::filesystem::exists(third + ".damaged-4"));
  EXPECT_TRUE(std::filesystem::exists(third + ".gz.damaged"));
  EXPECT_TRUE(intact());
  write_file(third, {6});
  write_file(third + ".gz", gzip(files_[2]));
  fetch_dataset(info_, folder_.path().string(), {});
  EXPECT_EQ(read_file(third + ".gz"), gzip(files_[2]));
  EXPECT_EQ(load(Split::kTrain).source, folder_ / "cifar10");
  EXPECT_TRUE(intact());
}

TEST_F(Cifar10, fetch_sets_other_examples_aside_with_their_split) {
  write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", packed_);
  unpack("cifar10/cifar-10-batches-bin");
  const std::string test = folder_ / "cifar10/cifar-10-batches-bin/test_batch.bin";
  write_file(test, records(7, 20));
  EXPECT_FALSE(intact());
  fetch_dataset(info_, folder_.path().string(), {});
  EXPECT_EQ(read_file(test + ".damaged"), records(7, 20));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cifar10/cifar-10-batches-bin/data_batch_1.bin"));
  EXPECT_TRUE(intact());
}

TEST_F(Cifar10, a_damaged_archive_keeps_its_name_until_another_is_at_hand) {
  const std::string path = write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", {1, 2, 3});
  EXPECT_CONTAINS(data_error([&] { fetch_dataset(info_, folder_.path().string(), {}); }),
                  "the download failed");
  EXPECT_EQ(read_file(path), (Bytes{1, 2, 3}));
}

TEST_F(Cifar10, what_may_not_be_read_or_renamed_is_not_taken_for_damaged) {
  const std::string path = write_file(folder_ / "cifar10/cifar-10-binary.tar.gz", packed_);
  const std::string third = folder_ / "cifar10/data_batch_3.bin";
  const auto fetch = [&] { fetch_dataset(info_, folder_.path().string(), {}); };
  ::chmod((folder_ / "cifar10").c_str(), 0777);
  for (const std::string& unreadable : {path, third}) {
    unpack("cifar10");
    ::chmod(unreadable.c_str(), 0);
    const auto text = data_error_as_nobody(folder_, fetch);
    if (!text) GTEST_SKIP() << "cannot give up the right to read everything";
    EXPECT_EQ(*text, unreadable +
                         ": cannot be opened: Permission denied; change its permissions, "
                         "or move it away and try again");
    EXPECT_TRUE(std::filesystem::exists(unreadable));
    ::chmod(unreadable.c_str(), 0644);
  }
  write_file(third, {1});
  ::chmod((folder_ / "cifar10").c_str(), 0555);
  const auto text = data_error_as_nobody(folder_, fetch);
  ::chmod((folder_ / "cifar10").c_str(), 0755);
  EXPECT_EQ(text, third + ": is damaged and cannot be renamed to " + third +
                      ".damaged: Permission denied; remove it or move it away yourself");
  EXPECT_TRUE(std::filesystem::exists(third));
}

}  // namespace
}  // namespace podium
