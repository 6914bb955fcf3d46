#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "data/pictures/picture_loader_test_util.h"
#include "data/pictures/pictures.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

namespace fs = std::filesystem;

Bytes sample_bytes(const std::string& name) {
  return read_file(std::string(PODIUM_DATA_CORPUS "/picture/") + name);
}

// A folder of pictures, and a cache folder for its index.
class Folder : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_CACHE_HOME", (cache_ / "").c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  std::string add(const std::string& name, const std::string& what = "colour-420.jpg") {
    return write_file(photos_ / name, sample_bytes(what));
  }
  void add_two_classes(int each) {
    for (int i = 0; i < each; ++i) {
      add(cat("cats/", i, ".jpg"));
      add(cat("dogs/", i, ".jpg"), "colour-444.jpg");
    }
  }
  PictureIndex index(bool* from_cache = nullptr, const IndexOptions& options = {}) {
    return index_of(PictureFormat::kFolder, photos_ / "", options, from_cache);
  }
  std::string index_error() {
    return data_error([&] { index(); });
  }
  Pictures open(const PictureOptions& more = {}) {
    PictureOptions options = more;
    options.path = photos_ / "";
    options.size = 16;
    return open_pictures("folder", options, {}, "");
  }

  TempFolder photos_, cache_;
};

TEST_F(Folder, has_its_pictures_by_class_in_the_order_of_their_names) {
  for (const char* name : {"b/2.jpg", "b/10.JPEG", "a/z.png", "a/deep/er/y.jpg", "a/.hidden.jpg",
                           "a/notes.txt", ".git/x.jpg", "loose.jpg"})
    add(name);
  const PictureIndex found = index();
  EXPECT_EQ(found.class_names, (std::vector<std::string>{"a", "b"}));
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < found.count(); ++i) names.push_back(found.name(i));
  EXPECT_EQ(names,
            (std::vector<std::string>{"a/deep/er/y.jpg", "a/z.png", "b/10.JPEG", "b/2.jpg"}));
  EXPECT_EQ(found.labels, (Labels{0, 0, 1, 1}));
  EXPECT_EQ(found.others, 2);  // the notes and the loose one
  EXPECT_EQ(found.file_sizes[1], std::ssize(sample_bytes("colour-420.jpg")));
}

TEST_F(Folder, has_names_in_every_alphabet_and_with_any_signs) {
  const std::vector<std::string> classes = {"100%", "a\nb", "Äpfel", "кошки", "猫"};
  for (const std::string& name : classes) add(name + "/ein Bild.jpg");
  bool from_cache = true;
  EXPECT_EQ(index(&from_cache).class_names, classes);
  EXPECT_FALSE(from_cache);
  EXPECT_EQ(index(&from_cache).class_names, classes);
  EXPECT_TRUE(from_cache);
}

TEST_F(Folder, with_two_parts_is_divided_by_them) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "train/b/3.jpg", "val/b/4.jpg"})
    add(name);
  const Pictures pictures = open();
  EXPECT_EQ(pictures.train->count, 3);
  EXPECT_EQ(pictures.test->count, 1);
  EXPECT_EQ(pictures.train->class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(pictures.test->class_names, pictures.train->class_names);
  EXPECT_EQ(pictures.test->label(0), 1);
  add("val/c/5.jpg");
  EXPECT_CONTAINS(index_error(), "a class that");
}

TEST_F(Folder, without_parts_holds_out_a_share_of_each_class_that_new_pictures_hardly_change) {
  add_two_classes(20);
  const auto held_out = [&] {
    const Pictures pictures = open();
    std::set<std::string> names;
    for (std::int64_t i = 0; i < pictures.test->count; ++i)
      names.insert(pictures.test->records().name(i));
    EXPECT_EQ(pictures.train->count + pictures.test->count, index().count());
    return names;
  };
  const std::set<std::string> before = held_out();
  EXPECT_EQ(before.size(), 4U);
  add("cats/new.jpg");
  const std::set<std::string> after = held_out();
  std::size_t same = 0;
  for (const std::string& name : before) same += after.count(name);
  EXPECT_GE(same, 3U);
}

TEST_F(Folder, links_are_followed_but_not_in_circles) {
  add_two_classes(1);
  TempFolder elsewhere;
  write_file(elsewhere / "more/9.jpg", sample_bytes("colour-420.jpg"));
  fs::create_directory_symlink(elsewhere / "more", photos_ / "cats/more");
  fs::create_directory_symlink(photos_ / "", photos_ / "dogs/all");
  fs::create_directory_symlink(".", photos_ / "dogs/self");
  const PictureIndex found = index();
  EXPECT_EQ(found.count(), 3);
  EXPECT_EQ(found.name(1), "cats/more/9.jpg");
  EXPECT_EQ(found.circles, 2);
}

TEST_F(Folder, with_files_or_folders_that_are_not_readable_names_them) {
  add_two_classes(2);
  const std::string locked = photos_ / "cats";
  fs::permissions(locked, fs::perms::none);
  const auto folder = data_error_as_nobody(photos_, [&] { index(); });
  fs::permissions(locked, fs::perms::all);
  if (!folder) GTEST_SKIP() << "this user cannot become nobody";
  EXPECT_CONTAINS(*folder, locked + ": Permission denied; make it readable, or remove it");
  const Pictures pictures = open();
  const std::string path = pictures.train->records().name(0);
  fs::permissions(path, fs::perms::none);
  Bytes out(3 * 16 * 16);
  const auto file =
      data_error_as_nobody(photos_, [&] { pictures.train->read_image(0, nullptr, out.data()); });
  EXPECT_CONTAINS(*file, path + ": Permission denied; make it readable, or remove it");
}

TEST_F(Folder, that_cannot_be_trained_on_is_refused_with_the_remedy) {
  EXPECT_CONTAINS(data_error([&] { index_of(PictureFormat::kFolder, photos_ / "none", {}); }),
                  "name a folder of");
  EXPECT_CONTAINS(index_error(), "has no folders, and each class must be a folder");
  fs::create_directory(photos_ / "cats");
  EXPECT_CONTAINS(index_error(), "its 1 folder has no pictures");
  add("cats/1.jpg");
  EXPECT_CONTAINS(data_error([&] { open(); }), "has 1 picture, and no class has two");
  add("cats/2.jpg");
  EXPECT_CONTAINS(data_error([&] { open().train->require_usable("the training set"); }),
                  "has 1 class; a classifier needs at least two");
}

TEST_F(Folder, is_indexed_again_once_it_has_changed) {
  add_two_classes(2);
  bool from_cache = true;
  index(&from_cache);
  EXPECT_FALSE(from_cache);
  index(&from_cache);
  EXPECT_TRUE(from_cache);
  add("dogs/new.jpg");
  EXPECT_EQ(index(&from_cache).count(), 5);
  EXPECT_FALSE(from_cache);
  index(&from_cache);
  EXPECT_TRUE(from_cache);
  // A file that changes in its place is seen if the files are looked at.
  write_file(photos_ / "dogs/new.jpg", sample_bytes("progressive.jpg"));
  index(&from_cache);
  EXPECT_TRUE(from_cache);
  index(&from_cache, {.check_files = true});
  EXPECT_FALSE(from_cache);
  index(&from_cache, {.check_files = true});
  EXPECT_TRUE(from_cache);
  // A damaged index is made again.
  const std::string file = index_file_of(PictureFormat::kFolder, photos_ / "");
  Bytes bytes = read_file(file);
  ASSERT_FALSE(bytes.empty());
  bytes[bytes.size() / 2] ^= 1;
  write_file(file, bytes);
  EXPECT_EQ(index(&from_cache).count(), 5);
  EXPECT_FALSE(from_cache);
}

TEST_F(Folder, an_index_reads_back_as_it_was_and_any_other_text_is_refused) {
  add_two_classes(2);
  const std::string text = index_text(index());
  const PictureIndex again = parse_index(text, "index");
  EXPECT_EQ(index_text(again), text);
  EXPECT_EQ(again.count(), 4);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_CONTAINS(data_error([&] { parse_index(text.substr(0, size), "index"); }),
                    "this is not a complete index");
}

TEST_F(Folder, copies_are_the_same_data_whatever_their_times_and_places) {
  add_two_classes(3);
  const std::string before = open().train->identity({});
  EXPECT_EQ(open().train->identity({}), before);
  EXPECT_CONTAINS(before, "decoded by libjpeg-turbo ");
  TempFolder elsewhere;
  fs::copy(photos_ / "", elsewhere / "copy", fs::copy_options::recursive);
  const std::string path = elsewhere / "copy/cats/0.jpg";
  struct timespec times[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const auto of_copy = [&] {
    return open_pictures("folder", {.path = elsewhere / "copy/", .size = 16}, {}, "");
  };
  EXPECT_EQ(of_copy().train->identity({}), before);
  // Other bytes, another label and another name are other data.
  Bytes bytes = read_file(of_copy().train->records().name(0));
  bytes.push_back(0);
  fs::remove(of_copy().train->records().name(0));
  write_file(photos_ / "x", bytes);
  fs::rename(photos_ / "x", of_copy().train->records().name(0));
  EXPECT_NE(of_copy().train->identity({}), before);
  fs::rename(photos_ / "cats", photos_ / "lions");
  EXPECT_NE(open().train->identity({}), before);
}

TEST_F(Folder, contents_are_read_once_and_again_only_of_files_that_changed) {
  add_two_classes(20);
  const auto read_of = [&] {
    std::int64_t most = 0;
    const IndexOptions how{
        .reading = [&](const char*, std::int64_t, std::int64_t all) { most = all; }};
    open_pictures("folder", {.path = photos_ / "", .size = 16}, {}, "", how).train->identity({});
    return most;
  };
  EXPECT_EQ(read_of(), 36);
  EXPECT_EQ(read_of(), 0);
  add("cats/new.jpg");
  EXPECT_LE(read_of(), 2);  // another may have moved to those to train on
  EXPECT_EQ(read_of(), 0);
}

TEST_F(Folder, empty_folders_are_no_classes_and_are_named) {
  add_two_classes(3);
  for (const char* name : {"empty", "zebras/deep"}) fs::create_directories(photos_ / name);
  const Pictures pictures = open();
  EXPECT_EQ(pictures.train->class_names, (std::vector<std::string>{"cats", "dogs"}));
  ASSERT_EQ(pictures.notes.size(), 1U);
  EXPECT_CONTAINS(pictures.notes[0],
                  "2 folders have no pictures and are no classes: empty, zebras");
}

TEST_F(Folder, classes_with_one_picture_or_none_to_evaluate_are_named) {
  add_two_classes(3);
  add("emus/1.jpg");
  ASSERT_EQ(open().notes.size(), 1U);
  EXPECT_CONTAINS(
      open().notes[0],
      "1 class has one picture alone, so nothing can be both learned and evaluated of it: emus");
  TempFolder divided;
  for (const char* name : {"train/a/1.jpg", "train/a/2.jpg", "train/b/2.jpg", "train/b/3.jpg",
                           "val/b/4.jpg", "extra/5.jpg"})
    write_file(divided / name, sample_bytes("colour-420.jpg"));
  const Pictures pictures = open_pictures("folder", {.path = divided / "", .size = 16}, {}, "");
  ASSERT_EQ(pictures.notes.size(), 2U);
  EXPECT_CONTAINS(
      pictures.notes[0],
      "1 folder has no place beside the parts \"train\" and \"val\" and is no class: extra");
  EXPECT_CONTAINS(pictures.notes[1], "1 class has no picture that is evaluated: a");
}

TEST_F(Folder, pictures_to_evaluate_are_decoded_once_and_the_bad_ones_named) {
  add_two_classes(6);
  const auto check = [&](std::int64_t& checked) {
    checked = 0;
    const IndexOptions how{
        .reading = [&](const char*, std::int64_t, std::int64_t all) { checked = all; }};
    const Pictures pictures =
        open_pictures("folder", {.path = photos_ / "", .size = 16}, {}, "", how);
    return pictures.test->records().decoding_problems(pictures.test->crop(), {});
  };
  std::int64_t checked = 0;
  EXPECT_EQ(check(checked).size(), 0U);
  EXPECT_EQ(checked, 2);
  EXPECT_EQ(check(checked).size(), 0U);
  EXPECT_EQ(checked, 0) << "remembered";
  const std::string path = open().test->records().name(0);
  fs::remove(path);
  write_file(path, sample_bytes("cut.jpg"));
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::string> problems = check(checked);
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_CONTAINS(problems[0], path);
    EXPECT_EQ(checked, 1);
  }
}

TEST_F(Folder, a_relative_path_is_looked_up_in_the_data_dir_first) {
  TempFolder other;
  write_file(photos_ / "mine/a/1.jpg", sample_bytes("colour-420.jpg"));
  EXPECT_EQ(find_pictures("mine", photos_ / ""), photos_ / "mine");
  const fs::path before = fs::current_path();
  fs::current_path(photos_.path());
  EXPECT_EQ(find_pictures("mine", other / ""), "mine") << "the current folder is next";
  write_file(other / "mine/a/1.jpg", sample_bytes("colour-420.jpg"));
  EXPECT_EQ(find_pictures("mine", other / ""), other / "mine");
  fs::current_path(before);
  EXPECT_EQ(find_pictures(photos_ / "mine", other / ""), photos_ / "mine");
  EXPECT_CONTAINS(data_error([&] { find_pictures("mine", other / "none"); }), "no such folder");
  EXPECT_CONTAINS(data_error([&] { find_pictures("nobody's", other / ""); }),
                  "Searched:\n  " + (other / "nobody's") + "\n  nobody's");
}

TEST_F(Folder, a_file_that_changes_or_vanishes_is_an_error_that_names_it) {
  add_two_classes(3);
  const Pictures pictures = open();
  Bytes out(3 * 16 * 16);
  EXPECT_NO_THROW(pictures.train->read_image(0, nullptr, out.data()));
  const std::string path = pictures.train->records().name(0);
  write_file(path, sample_bytes("progressive.jpg"));
  const auto error = [&] {
    return data_error([&] { pictures.train->read_image(0, nullptr, out.data()); });
  };
  EXPECT_CONTAINS(error(), path + ": it has changed since it was indexed");
  fs::remove(path);
  EXPECT_CONTAINS(error(), path + ": No such file or directory");
}

TEST_F(Folder, a_bad_picture_ends_training_or_the_next_takes_its_place_up_to_a_limit) {
  add_two_classes(3);
  PictureOptions options;
  Bytes out(3 * 16 * 16), next(3 * 16 * 16);
  // Of the four pictures to train on, the first becomes a bad one.
  const std::string path = open().train->records().name(0);
  write_file(path, sample_bytes("cut.jpg"));
  index(nullptr, {.fresh = true});
  const ExampleKey key{0, 0, 0};
  const std::string error =
      data_error([&] { open(options).train->read_image(0, &key, out.data()); });
  EXPECT_CONTAINS(error, path);
  EXPECT_CONTAINS(error, "Premature end");
  EXPECT_CONTAINS(error, "data.on_error=skip");
  options.on_error = "skip";
  options.skip_limit = 1;
  const Pictures pictures = open(options);
  set_log_sink([](LogLevel, const std::string&) {});
  const auto replaced = pictures.train->read_image(0, &key, out.data());
  const auto second = pictures.train->read_image(1, &key, next.data());
  EXPECT_EQ(out, next);
  EXPECT_EQ(replaced.label, second.label);
  EXPECT_EQ(pictures.train->skipped(), 1);
  EXPECT_NO_THROW(pictures.train->read_image(0, &key, out.data()));  // counted once
  EXPECT_CONTAINS(data_error([&] { pictures.train->read_image(0, nullptr, out.data()); }),
                  "evaluation skips no picture");
  options.skip_limit = 0;
  EXPECT_CONTAINS(data_error([&] { open(options).train->read_image(0, &key, out.data()); }),
                  "`data.skip_limit` is 0");
  set_log_sink(nullptr);
}

// A batch is a function of seed and step, and so are its crops.
TEST_F(Folder, batches_do_not_depend_on_who_makes_them) {
  add_two_classes(6);
  PictureOptions options;
  options.path = photos_ / "";
  options.size = 16;
  AugmentOptions augment;
  augment.crop = "random-resized";
  augment.flip = "random";
  const Pictures pictures = open_pictures("folder", options, augment, "");
  const PictureLoader loader(pictures.train, {.seed = 5, .batch = 4, .augment = augment});
  constexpr std::size_t kImage = 3 * 16 * 16;
  std::vector<float> whole(4 * kImage), one(kImage), later(4 * kImage);
  std::int32_t labels[4], label = 0;
  loader.examples(7, 0, 4, whole.data(), labels);
  for (std::int64_t k = 3; k >= 0; --k) {
    loader.examples(7, k, 1, one.data(), &label);
    EXPECT_EQ(label, labels[k]);
    EXPECT_TRUE(std::equal(one.begin(), one.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(kImage) * k));
  }
  loader.examples(9, 0, 4, later.data(), labels);
  EXPECT_NE(later, whole);
}

}  // namespace
}  // namespace podium
