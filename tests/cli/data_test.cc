// Data that is missing or bad: exit 3, the file and the remedy named, no run's folder made.
#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

namespace fs = std::filesystem;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

class BadData : public CommandLine {
 protected:
  // Four sound files of MNIST's form, `count` pictures each.
  void write_mnist(std::uint32_t count = 300) const {
    for (const std::string split : {"train", "t10k"}) {
      write("d/" + split + "-images-idx3-ubyte", big_endian(0x803) + big_endian(count) +
                                                     big_endian(28) + big_endian(28) +
                                                     std::string(std::size_t{count} * 784, '\x10'));
      std::string labels;
      for (std::uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
      write("d/" + split + "-labels-idx1-ubyte", big_endian(0x801) + big_endian(count) + labels);
    }
  }
  Outcome train() const {
    return podium({"train", "mnist", "steps=1", "--data-dir", "d", "--out", "run"});
  }
  void expect_refused(const std::vector<std::string>& parts) const {
    expect_refusal(train(), 3, parts);
    EXPECT_FALSE(fs::exists(path("run")));
  }
  static constexpr const char* kImages = "d/train-images-idx3-ubyte";
  static constexpr const char* kLabels = "d/train-labels-idx1-ubyte";
};

TEST_F(BadData, sound_files_are_taken) {
  write_mnist();
  const Outcome outcome = train();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(BadData, no_folder_holds_any) {
  fs::create_directory(path("d"));
  expect_refused({"mnist", "podium data fetch mnist", "--data-dir", "PODIUM_DATA"});
}

TEST_F(BadData, missing_file) {
  write_mnist();
  fs::remove(path(kLabels));
  expect_refused({kLabels, "missing", "podium data fetch mnist"});
}

TEST_F(BadData, empty_file) {
  write_mnist();
  write(kImages, "");
  expect_refused({kImages, "podium data fetch mnist"});
}

TEST_F(BadData, truncated_file) {
  write_mnist();
  fs::resize_file(path(kImages), 5000);
  expect_refused({kImages, "5000"});
}

TEST_F(BadData, wrong_magic_number) {
  write_mnist();
  fs::copy_file(path(kLabels), path(kImages), fs::copy_options::overwrite_existing);
  expect_refused({kImages, "byte"});
}

TEST_F(BadData, label_out_of_range) {
  write_mnist();
  std::string labels = read(kLabels);
  labels[8 + 17] = 11;
  write(kLabels, labels);
  expect_refused({kLabels, "byte 25", "11"});
}

TEST_F(BadData, images_and_labels_of_different_counts) {
  write_mnist();
  write(kLabels, big_endian(0x801) + big_endian(2) + std::string("\1\2", 2));
  expect_refused({kLabels, "2 labels", "300 images"});
}

TEST_F(BadData, corrupted_gzip) {
  write_mnist();
  fs::remove(path(kImages));
  write(std::string(kImages) + ".gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\3garbage", 17));
  expect_refused({std::string(kImages) + ".gz"});
}

TEST_F(BadData, verify_names_files_that_are_not_the_official_ones) {
  write_mnist();
  expect_refusal(podium({"data", "verify", "mnist", "--data-dir", "d"}), 3, {kImages});
}

TEST_F(BadData, unknown_dataset_names_the_nearest) {
  expect_refusal(podium({"data", "fetch", "mnits"}), 2, {"mnits", "mnist"});
}

TEST_F(BadData, list_and_show_need_no_files_for_drawn_data) {
  const Outcome list = podium({"data", "list"});
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("glyphs"), std::string::npos);
  const Outcome show = podium({"data", "show", "glyphs", "--split", "test", "--count", "1"});
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_NE(show.out.find("example 0, label"), std::string::npos) << show.out;
}

}  // namespace
}  // namespace podium::test
