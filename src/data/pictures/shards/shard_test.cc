// Shards as a source: their pattern, index, parts, identity and reading.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "data/pictures/picture_loader_test_util.h"
#include "data/pictures/pictures.h"
#include "data/pictures/shards/example.pb.h"
#include "data/pictures/shards/shard_pattern.h"
#include "data/pictures/shards/shard_test_util.h"
#include "data/source/prefetch.h"
#include "data/storage/record_file.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

namespace fs = std::filesystem;

std::string sample(const std::string& name) {
  const Bytes bytes = read_file(std::string(PODIUM_DATA_CORPUS "/picture/") + name);
  return {bytes.begin(), bytes.end()};
}

class Shards : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_CACHE_HOME", (cache_ / "").c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  std::string put(const std::string& name, const std::string& text) {
    return write_file(folder_ / name, Bytes(text.begin(), text.end()));
  }
  // Examples `first` to `first + count`: keys are numbers, and so are labels, modulo 3.
  std::string put_tar(const std::string& name, int count, int first = 0,
                      const std::string& picture = "colour-420.jpg") {
    std::vector<TarExample> examples;
    for (int i = first; i < first + count; ++i)
      examples.push_back({cat("photos/", i), sample(picture), cat(i % 3)});
    return put(name, tar_of(examples));
  }
  std::string put_tfrecord(const std::string& name, int count, std::int64_t base = 0,
                           const std::string& picture = "colour-420.jpg") {
    std::string shard;
    for (int i = 0; i < count; ++i) {
      examples::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["image/encoded"].mutable_bytes_list()->add_value(sample(picture));
      features["image/class/label"].mutable_int64_list()->add_value(base + i % 3);
      features["image/class/text"].mutable_bytes_list()->add_value(cat("class ", 'a' + i % 3));
      append_record(shard, example.SerializeAsString());
    }
    return put(name, shard);
  }
  PictureIndex index(const std::string& pattern = "", bool* from_cache = nullptr,
                     PictureFormat format = PictureFormat::kTar) {
    return index_of(format, folder_ / pattern, {}, from_cache);
  }
  std::string index_error(const std::string& pattern = "",
                          PictureFormat format = PictureFormat::kTar) {
    return data_error([&] { index(pattern, nullptr, format); });
  }
  PictureOptions options() {
    PictureOptions options;
    options.path = folder_ / "";
    options.size = 16;
    return options;
  }
  Pictures open(const std::string& data = "tar") { return open(data, options()); }
  static Pictures open(const std::string& data, const PictureOptions& options) {
    return open_pictures(data, options, {}, "");
  }
  std::vector<std::string> found(const std::string& pattern,
                                 PictureFormat format = PictureFormat::kTar) {
    std::vector<std::string> names;
    for (const std::string& path : find_shards(format, folder_ / pattern))
      names.push_back(fs::path(path).lexically_relative(folder_.path()).string());
    return names;
  }

  TempFolder folder_, cache_;
};

using Names = std::vector<std::string>;

TEST_F(Shards, are_named_by_a_folder_or_by_a_pattern) {
  for (const char* name :
       {"a-0.tar", "a-1.tar", "b-10.tar", "x.tfrecord", "y.tfrecords", "z-00001-of-00002",
        "z-00000-of-00002", ".a.tar", "notes.txt", "sub/a-2.tar", "a{x}.tar", "of-01", "z-x-of-2"})
    put(name, "");
  EXPECT_EQ(found(""), (Names{"a-0.tar", "a-1.tar", "a{x}.tar", "b-10.tar"}));
  EXPECT_EQ(found("", PictureFormat::kTfrecord),
            (Names{"x.tfrecord", "y.tfrecords", "z-00000-of-00002", "z-00001-of-00002"}));
  EXPECT_EQ(found("a-?.tar"), (Names{"a-0.tar", "a-1.tar"}));
  EXPECT_EQ(found("*/a-*.tar"), (Names{"sub/a-2.tar"}));
  EXPECT_EQ(found("{b-10,a-{0..1},a-*}.tar"), (Names{"a-0.tar", "a-1.tar", "b-10.tar"}));
  EXPECT_EQ(found("a{x}.tar"), (Names{"a{x}.tar"}));
  EXPECT_EQ(found("z-{00000..00001}-of-00002", PictureFormat::kTfrecord).size(), 2U);
  EXPECT_CONTAINS(data_error([&] { found("a-{0..2}.tar"); }),
                  "a-2.tar: this shard of " + (folder_ / "a-{0..2}.tar") + " is missing");
  EXPECT_CONTAINS(data_error([&] { found("c-*.tar"); }), "c-*.tar: no file has such a name");
  EXPECT_CONTAINS(data_error([&] { found("none.tar"); }), "none.tar: no file has such a name");
  EXPECT_CONTAINS(data_error([&] { found("{0..999}{0..999}"); }), "mean more than 131072 files");
  fs::create_directory(folder_ / "empty");
  EXPECT_CONTAINS(data_error([&] { found("empty"); }), "has no shards; these are files whose");
  EXPECT_CONTAINS(data_error([&] { find_pictures(folder_ / "c-*.tar", ""); }), "not found");
}

TEST_F(Shards, give_their_pictures_byte_by_byte) {
  put("a.tar", tar_of({{"1", "first", "2"}, {"x/2", "second, longer", "0"}}));
  put("b.tar", tar_of({{"1", "third", "1"}}));
  const auto check = [&](const PictureIndex& index, const Names& names, const Labels& labels,
                         const Names& bytes) {
    const auto records = RecordIndex(index).all({});
    ASSERT_EQ(records->count(), std::ssize(names));
    EXPECT_EQ(records->classes(), *std::ranges::max_element(labels) + 1);
    for (std::int64_t i = records->count() - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      Bytes read;
      records->read(i, read);
      EXPECT_EQ(std::string(read.begin(), read.end()), bytes[at]);
      EXPECT_EQ(records->label(i), labels[at]);
      EXPECT_EQ(records->name(i), folder_ / names[at]);
      EXPECT_EQ(records->problem(i), "");
    }
  };
  check(index(), {"a.tar: 1.jpg", "a.tar: x/2.jpg", "b.tar: 1.jpg"}, {2, 0, 1},
        {"first", "second, longer", "third"});
  put_tfrecord("a.tfrecord", 2);
  put_tfrecord("b.tfrecord", 1);
  const PictureIndex records = index("", nullptr, PictureFormat::kTfrecord);
  check(records, {"a.tfrecord: record 0", "a.tfrecord: record 1", "b.tfrecord: record 0"},
        {0, 1, 0}, Names(3, sample("colour-420.jpg")));
  EXPECT_EQ(RecordIndex(records).all({})->class_names(), (Names{"class 97", "class 98"}));
}

TEST_F(Shards, are_divided_by_their_names_or_by_a_share_of_each_class) {
  EXPECT_EQ(part_in_name("/val/imagenet-train-0001.tar"), "train");
  EXPECT_EQ(part_in_name("/my/train/0001.tar"), "train");
  EXPECT_EQ(part_in_name("/validation-00001-of-00002"), "validation");
  EXPECT_EQ(part_in_name("/a/trainer/valet.tar"), "");
  put_tar("train-0.tar", 30);
  put_tar("train-1.tar", 30);
  const Pictures held_out = open();
  EXPECT_EQ(held_out.train->count, 54);
  EXPECT_EQ(held_out.test->count, 6);
  EXPECT_EQ(held_out.train->classes, 3);
  put_tar("val-0.tar", 12);
  put_tar("test-0.tar", 9);
  const Pictures divided = open();
  EXPECT_EQ(divided.train->count, 60);
  EXPECT_EQ(divided.test->count, 12);
  EXPECT_CONTAINS(divided.test->source, ", val");
  const RecordIndex all(index());
  EXPECT_EQ(all.counts()[1].count, 1);  // what is for testing is left out
  put_tar("more.tar", 3);
  EXPECT_CONTAINS(data_error([&] { open(); }), "more.tar: the names of other shards say");
}

TEST_F(Shards, have_labels_that_fit_what_the_recipe_says_of_them) {
  put_tfrecord("a.tfrecord", 9, 1);
  PictureOptions some = options();
  EXPECT_EQ(open("tfrecord", some).train->classes, 4);
  some.label_base = 1;
  const Pictures pictures = open("tfrecord", some);
  EXPECT_EQ(pictures.train->classes, 3);
  EXPECT_EQ(pictures.train->class_names, (Names{"class 97", "class 98", "class 99"}));
  std::set<std::int32_t> labels;
  for (std::int64_t i = 0; i < pictures.train->count; ++i) labels.insert(pictures.train->label(i));
  EXPECT_EQ(labels, (std::set<std::int32_t>{0, 1, 2}));
  some.classes = 1000;
  EXPECT_EQ(open("tfrecord", some).train->classes, 1000);
  EXPECT_EQ(open("tfrecord", some).train->class_name(999), "999");
  some.classes = 2;
  const std::string beyond = data_error([&] { open("tfrecord", some); });
  EXPECT_CONTAINS(beyond, "a.tfrecord: at byte ");
  EXPECT_CONTAINS(beyond, ": record 2 has the label 3, and the recipe says that labels are from 1");
  some.label_base = 2, some.classes = 0;
  EXPECT_CONTAINS(data_error([&] { open("tfrecord", some); }), "record 0 has the label 1");
}

TEST_F(Shards, of_one_class_with_two_names_are_refused) {
  put_tfrecord("a.tfrecord", 3);
  put_tfrecord("b.tfrecord", 3, 1);
  EXPECT_CONTAINS(index_error("", PictureFormat::kTfrecord),
                  "the class 1 is called \"class 97\" here (image/class/text) and \"class 98\"");
}

TEST_F(Shards, are_indexed_again_once_they_have_changed) {
  put_tar("a.tar", 3);
  bool from_cache = true;
  const auto count = [&] { return index("", &from_cache).count(); };
  EXPECT_EQ(count(), 3);
  EXPECT_FALSE(from_cache);
  EXPECT_EQ(count(), 3);
  EXPECT_TRUE(from_cache);
  put_tar("a.tar", 4);
  EXPECT_EQ(count(), 4);
  EXPECT_FALSE(from_cache);
  put_tar("b.tar", 1);
  EXPECT_EQ(count(), 5);
  EXPECT_FALSE(from_cache);
  fs::remove(folder_ / "a.tar");
  EXPECT_EQ(count(), 1);
  EXPECT_FALSE(from_cache);
  // A damaged index is made again.
  const std::string file = index_file_of(PictureFormat::kTar, folder_ / "");
  Bytes bytes = read_file(file);
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(count(), 1);
  EXPECT_FALSE(from_cache);
}

TEST_F(Shards, have_an_index_that_reads_back_as_it_was_and_any_other_text_is_refused) {
  put("a.tar", tar_of({{"кошки/100%", "p", "1"}, {"a\nb", "q", "0"}}));
  put_tfrecord("a.tfrecord", 2);
  for (const PictureFormat format : {PictureFormat::kTar, PictureFormat::kTfrecord}) {
    const std::string text = index_text(index("", nullptr, format));
    EXPECT_EQ(index_text(parse_index(text, "index")), text);
    for (std::size_t size = 0; size < text.size(); ++size)
      EXPECT_CONTAINS(data_error([&] { parse_index(text.substr(0, size), "index"); }),
                      "this is not a complete index");
  }
}

TEST_F(Shards, copies_are_the_same_data_whatever_their_times_and_places) {
  put_tar("a.tar", 6);
  const std::string before = open().train->identity({});
  struct timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder_ / "a.tar").c_str(), times, 0), 0);
  EXPECT_EQ(open().train->identity({}), before);
  TempFolder elsewhere;
  fs::copy(folder_ / "a.tar", elsewhere / "a.tar");
  PictureOptions moved = options();
  moved.path = elsewhere / "*.tar";
  EXPECT_EQ(open("tar", moved).train->identity({}), before);
  put_tar("a.tar", 6, 0, "colour-444.jpg");
  EXPECT_NE(open().train->identity({}), before);
}

TEST_F(Shards, that_cannot_be_read_are_refused) {
  put("a.tar", tar_end());
  EXPECT_CONTAINS(index_error(), "its 1 shard has no pictures");
  put("a.tar", "");
  EXPECT_CONTAINS(index_error(), "a.tar: at byte 0: the tar has no block of zeros at its end");
  fs::remove(folder_ / "a.tar");
  fs::create_directory(folder_ / "a.tar");
  EXPECT_CONTAINS(index_error(), "a.tar: is a folder, pipe or device");
  fs::remove(folder_ / "a.tar");
  ASSERT_EQ(::mkfifo((folder_ / "a.tar").c_str(), 0644), 0);
  EXPECT_CONTAINS(index_error(), "a.tar: is a folder, pipe or device");
  fs::remove(folder_ / "a.tar");
  fs::create_symlink("a.tar", folder_ / "a.tar");  // a link in a circle
  EXPECT_CONTAINS(index_error(), "a.tar: Too many levels of symbolic links");
  fs::remove(folder_ / "a.tar");
  const std::string path = put_tar("a.tar", 2);
  fs::permissions(path, fs::perms::none);
  const auto text = data_error_as_nobody(folder_, [&] { index(); });
  if (!text) GTEST_SKIP() << "this user cannot become nobody";
  EXPECT_CONTAINS(*text, "a.tar: Permission denied; make it readable, or leave it out");
}

TEST_F(Shards, that_change_or_vanish_are_an_error_that_names_them) {
  for (const std::string data : {"tar", "tfrecord"}) {
    const bool is_tar = data == "tar";
    const auto write = [&](int count) {
      return is_tar ? put_tar("a.tar", count) : put_tfrecord("a.tfrecord", count);
    };
    const std::string path = write(6);
    const Pictures pictures = open(data);
    Bytes out(3 * 16 * 16);
    EXPECT_NO_THROW(pictures.train->read_image(0, nullptr, out.data()));
    write(7);
    const auto error = [&] {
      return data_error([&] { pictures.train->read_image(0, nullptr, out.data()); });
    };
    EXPECT_CONTAINS(error(), path + ": it has changed since it was indexed");
    EXPECT_CONTAINS(error(), "`podium data index`");
    fs::remove(path);
    EXPECT_CONTAINS(error(), path + ": No such file or directory");
  }
}

TEST_F(Shards, a_corrupt_record_ends_training_or_the_next_takes_its_place) {
  const std::string path = put_tfrecord("a.tfrecord", 12);
  const auto time = fs::last_write_time(path);
  const PictureIndex before = index("", nullptr, PictureFormat::kTfrecord);
  PictureOptions some = options();
  // The first record of those to train on. An unread byte of it changes, and no time does.
  const std::string name = open("tfrecord", some).train->records().name(0);
  const std::int64_t record = std::stoll(name.substr(name.rfind(' ')));
  Bytes bytes = read_file(path);
  bytes[static_cast<std::size_t>(before.at(record).offset + 100)] ^= 1;
  write_file(path, bytes);
  fs::last_write_time(path, time);
  const ExampleKey key{0, 0, 0};
  Bytes out(3 * 16 * 16), next(3 * 16 * 16);
  const std::string error =
      data_error([&] { open("tfrecord", some).train->read_image(0, &key, out.data()); });
  EXPECT_CONTAINS(error, name + " at byte ");
  EXPECT_CONTAINS(error, "the checksum of its data is wrong");
  EXPECT_CONTAINS(error, "data.on_error=skip");
  some.on_error = "skip";
  const Pictures pictures = open("tfrecord", some);
  set_log_sink([](LogLevel, const std::string&) {});
  const auto replaced = pictures.train->read_image(0, &key, out.data());
  EXPECT_EQ(replaced.label, pictures.train->read_image(1, &key, next.data()).label);
  EXPECT_EQ(pictures.train->skipped(), 1);
  set_log_sink(nullptr);
}

// Counts how often each record is read; the first one comes late.
class Counted final : public Records {
 public:
  explicit Counted(const Records& all, std::chrono::milliseconds late = {})
      : all_(all), late_(late), reads_(static_cast<std::size_t>(all.count())) {}
  std::int64_t count() const override { return all_.count(); }
  std::int32_t label(std::int64_t i) const override { return all_.label(i); }
  std::string name(std::int64_t i) const override { return all_.name(i); }
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override {
    all_.read(i, bytes);
    const std::lock_guard lock(mutex_);
    std::this_thread::sleep_for(std::exchange(late_, std::chrono::milliseconds(0)));
    ++reads_[static_cast<std::size_t>(i)];
  }
  Hash hash(StopToken stop) const override { return all_.hash(stop); }
  std::int64_t memory_bytes() const override { return 0; }
  std::int64_t classes() const override { return all_.classes(); }
  const std::vector<std::string>& class_names() const override { return all_.class_names(); }
  const std::string& origin() const override { return all_.origin(); }
  const std::vector<int>& reads() const { return reads_; }

 private:
  const Records& all_;
  mutable std::mutex mutex_;
  mutable std::chrono::milliseconds late_;
  mutable std::vector<int> reads_;
};

// Steps [first, end) of an epoch of 6, each batch of 8 divided among so many ranks, each with so
// many threads that make batches ahead of it.
void read_epoch(const std::shared_ptr<const PictureLoader>& loader, std::int64_t first,
                std::int64_t end, int ranks, int threads,
                std::map<std::int64_t, std::vector<float>>& batches) {
  const std::int64_t own = loader->options().batch / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    Prefetcher prefetcher(loader, {.first_step = first,
                                   .end_step = end,
                                   .threads = threads,
                                   .first_example = rank * own,
                                   .examples = own});
    for (std::int64_t step = first; step < end; ++step) {
      const auto images = prefetcher.wait(step).fields[0].f32();
      batches[step].insert(batches[step].end(), images.begin(), images.end());
      prefetcher.release(step);
    }
  }
}

TEST_F(Shards, are_read_once_in_an_epoch_that_is_interrupted_whoever_reads_them) {
  put_tar("a-0.tar", 30);
  put_tar("a-1.tar", 24, 30, "colour-444.jpg");
  put_tfrecord("a-0.tfrecord", 30);
  put_tfrecord("a-1.tfrecord", 24, 0, "colour-444.jpg");
  AugmentOptions augment;
  augment.crop = "random-resized";
  for (const std::string data : {"tar", "tfrecord"}) {
    const Pictures pictures = open_pictures(data, options(), augment, "");
    ASSERT_EQ(pictures.train->count, 48);
    std::map<std::int64_t, std::vector<float>> expected;
    for (const int ranks : {1, 2, 4}) {
      const auto counted = std::make_shared<const Counted>(pictures.train->records());
      const auto loader = std::make_shared<const PictureLoader>(
          std::make_shared<const PictureSource>(counted, pictures.train->crop(), BadPictures{}),
          PictureLoaderOptions{.seed = 3, .batch = 8, .augment = augment});
      std::map<std::int64_t, std::vector<float>> batches;
      read_epoch(loader, 0, 2, ranks, 1, batches);
      read_epoch(loader, 2, 6, ranks, 3, batches);
      EXPECT_EQ(counted->reads(), std::vector<int>(48, 1)) << data << " of " << ranks << " ranks";
      if (ranks == 1) expected = batches;
      EXPECT_EQ(batches, expected) << data << " of " << ranks << " ranks";
    }
  }
}

// Of a set that reads its pictures anew, and of one that keeps so many bytes of them: examples of
// epochs 0 and 1, then of the evaluation, if that can be. How often the second reads each in epoch
// 1, and then.
struct KeptReads {
  std::vector<int> in_epoch, in_evaluation;
};
KeptReads expect_equal_when_kept(const PictureSource& all, std::int64_t bytes,
                                 bool evaluates = true) {
  const auto counted = std::make_shared<const Counted>(all.records());
  const PictureSource kept(counted, all.crop(), {.skip = true, .limit = 24});
  EXPECT_TRUE(kept.keep_decoded(bytes));
  std::vector<std::uint8_t> expected(static_cast<std::size_t>(all.image_bytes())), found(expected);
  std::vector<int> before(static_cast<std::size_t>(all.count)), after(before);
  const auto read = [&](const ExampleKey* key, std::int64_t i) {
    std::ranges::fill(found, std::uint8_t{0});
    const auto a = all.read_image(i, key, expected.data()),
               b = kept.read_image(i, key, found.data());
    EXPECT_EQ(a.label, b.label) << i;
    EXPECT_EQ(found, expected) << i << (key == nullptr ? " in evaluation" : "");
  };
  std::vector<std::vector<int>> reads = {counted->reads()};
  for (const std::int64_t epoch : {0, 1, 2}) {
    for (std::int64_t i = 0; i < all.count && (evaluates || epoch < 2); ++i) {
      const ExampleKey key{7, epoch, i};
      read(epoch == 2 ? nullptr : &key, i);
    }
    reads.push_back(counted->reads());
  }
  EXPECT_EQ(all.skipped(), kept.skipped());
  const auto since = [&](std::size_t epoch) {
    std::vector<int> own = reads[epoch + 1];
    for (std::size_t i = 0; i < own.size(); ++i) own[i] -= reads[epoch][i];
    return own;
  };
  return {since(1), since(2)};
}

TEST_F(Shards, keep_what_they_decode_where_there_is_room_and_give_the_same_bytes) {
  put_tar("a.tar", 12);
  put_tar("b.tar", 12, 12, "colour-444.jpg");
  AugmentOptions augment;
  augment.crop = "random-resized";
  PictureOptions large = options();
  large.size = large.resize = 128;  // so that all are decoded at their full size
  const Pictures pictures = open_pictures("tar", large, augment, "");
  const auto count = static_cast<std::size_t>(pictures.train->count);
  const auto sum = [](const std::vector<int>& reads) {
    return std::accumulate(reads.begin(), reads.end(), 0);
  };
  const KeptReads all = expect_equal_when_kept(*pictures.train, 1 << 24);
  EXPECT_EQ(all.in_epoch, std::vector<int>(count, 0));
  EXPECT_EQ(all.in_evaluation, std::vector<int>(count, 0));
  const KeptReads none = expect_equal_when_kept(*pictures.train, 1);
  EXPECT_EQ(none.in_epoch, std::vector<int>(count, 1));
  const KeptReads some = expect_equal_when_kept(*pictures.train, 100000);
  EXPECT_GT(sum(some.in_epoch), 0);
  EXPECT_LT(sum(some.in_epoch), static_cast<int>(count));
  EXPECT_EQ(some.in_epoch, some.in_evaluation);
}

// A picture that ends early: of some crops it has all, others are passed over.
TEST_F(Shards, that_keep_what_they_decode_pass_over_the_same_pictures) {
  const std::string good = sample("colour-444.jpg"), cut = good.substr(0, good.size() * 8 / 10);
  std::vector<TarExample> examples;
  for (int i = 0; i < 24; ++i)
    examples.push_back({cat("photos/", i), i % 3 == 0 ? cut : good, cat(i % 2)});
  put("a.tar", tar_of(examples));
  PictureOptions skips = options();
  skips.on_error = "skip", skips.skip_limit = 24;
  AugmentOptions augment;
  augment.crop = "random-resized";
  const Pictures pictures = open_pictures("tar", skips, augment, "");
  set_log_sink([](LogLevel, const std::string&) {});
  expect_equal_when_kept(*pictures.train, 1 << 24, false);
  int read = 0, passed_over = 0;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(pictures.train->image_bytes()));
  for (const std::int64_t epoch : {0, 1})
    for (std::int64_t i = 0; i < pictures.train->count; ++i) {
      const ExampleKey key{7, epoch, i};
      const bool own =
          pictures.train->read_image(i, &key, out.data()).label == pictures.train->label(i);
      const int number = std::stoi(pictures.train->records().name(i).substr(
          pictures.train->records().name(i).rfind('/') + 1));
      if (number % 3 == 0) ++(own ? read : passed_over);
    }
  EXPECT_GE(read, 1);
  EXPECT_GE(passed_over, 1);
  set_log_sink(nullptr);
}

TEST_F(Shards, on_a_disk_that_answers_late_are_waited_for_and_the_run_says_so) {
  put_tar("a.tar", 20);
  const Pictures pictures = open();
  const auto batch_of = [&](std::chrono::milliseconds late) {
    const auto loader = std::make_shared<const PictureLoader>(
        std::make_shared<const PictureSource>(
            std::make_shared<const Counted>(pictures.train->records(), late),
            pictures.train->crop(), BadPictures{}),
        PictureLoaderOptions{.seed = 3, .batch = 8});
    Prefetcher prefetcher(loader, {.end_step = 1, .patience_seconds = 0.05});
    const auto images = prefetcher.wait(0).fields[0].f32();
    const std::vector<float> batch(images.begin(), images.end());
    EXPECT_GE(prefetcher.seconds_waited() + 0.05, late.count() * 1e-3);
    return batch;
  };
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, const std::string& line) {
    if (level == LogLevel::kWarning) lines.push_back(line);
  });
  const std::vector<float> late = batch_of(std::chrono::milliseconds(400));
  const std::vector<std::string> warnings = lines;
  const std::vector<float> in_time = batch_of({});
  set_log_sink(nullptr);
  EXPECT_EQ(late, in_time);
  ASSERT_GE(warnings.size(), 1U);  // after 0.05, 0.1, 0.2 s, on a machine that is not busy
  EXPECT_LE(warnings.size(), 8U);
  EXPECT_CONTAINS(warnings[0],
                  "step 1 has waited 0.05 s for examples of " + folder_.path().string());
  EXPECT_CONTAINS(warnings[0], "the disk answers late");
}

}  // namespace
}  // namespace podium
