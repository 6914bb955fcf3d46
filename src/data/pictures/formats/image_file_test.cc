#include "data/pictures/formats/image_file.h"

#include <gtest/gtest.h>
#include <png.h>
#include <sys/stat.h>

#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

std::string write_png(const std::string& path, std::uint32_t format, png_uint_32 height,
                      png_uint_32 width, const Bytes& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = format;
  image.height = height;
  image.width = width;
  EXPECT_NE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr), 0);
  return path;
}

Bytes text(const std::string& start, const Bytes& rest) {
  Bytes bytes(start.begin(), start.end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

class ImageFile : public ::testing::Test {
 protected:
  std::string error_of(const Bytes& file, std::int64_t channels = 1) const {
    return data_error(
        [&] { read_image_file(write_file(folder_ / "picture", file), channels, 2, 3); });
  }
  Bytes pixels_of(const Bytes& file, std::int64_t channels = 1) const {
    return read_image_file(write_file(folder_ / "picture", file), channels, 2, 3).pixels;
  }

  TempFolder folder_;
  const Bytes grey_ = {0, 1, 127, 128, 254, 255};
};

TEST_F(ImageFile, grey_png_keeps_its_bytes) {
  const std::string path = write_png(folder_ / "a.png", PNG_FORMAT_GRAY, 2, 3, grey_);
  const ImageSet set = read_image_file(path, 1, 2, 3);
  EXPECT_EQ(set.pixels, grey_);
  EXPECT_EQ(set.count, 1);
  EXPECT_EQ(set.source, path);
  EXPECT_TRUE(set.labels.empty());
}

TEST_F(ImageFile, colour_png_becomes_grey_or_planes) {
  const Bytes colours = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9, 255, 255, 255, 0, 0, 0};
  const std::string path = write_png(folder_ / "a.png", PNG_FORMAT_RGB, 2, 3, colours);
  EXPECT_EQ(read_image_file(path, 1, 2, 3).pixels, (Bytes{76, 150, 29, 9, 255, 0}));
  EXPECT_EQ(read_image_file(path, 3, 2, 3).pixels,
            (Bytes{255, 0, 0, 9, 255, 0, 0, 255, 0, 9, 255, 0, 0, 0, 255, 9, 255, 0}));
}

TEST_F(ImageFile, transparent_png_lies_on_black) {
  const Bytes pixels = {200, 255, 200, 0, 50, 255, 50, 0, 0, 255, 255, 255};
  const std::string path = write_png(folder_ / "a.png", PNG_FORMAT_GA, 2, 3, pixels);
  EXPECT_EQ(read_image_file(path, 1, 2, 3).pixels, (Bytes{200, 0, 50, 0, 0, 255}));
}

TEST_F(ImageFile, another_size_names_both) {
  const std::string path = write_png(folder_ / "a.png", PNG_FORMAT_GRAY, 3, 2, grey_);
  const std::string error = data_error([&] { read_image_file(path, 1, 2, 3); });
  EXPECT_CONTAINS(error, "a.png: the picture is 3 x 2 pixels");
  EXPECT_CONTAINS(error, "the model takes 2 x 3; resize or crop");
}

TEST_F(ImageFile, damaged_png_is_an_error) {
  Bytes png = read_file(write_png(folder_ / "a.png", PNG_FORMAT_GRAY, 2, 3, grey_));
  EXPECT_CONTAINS(error_of({png.begin(), png.begin() + 20}), "the PNG file is damaged");
  EXPECT_CONTAINS(error_of({png.begin(), png.end() - 25}), "the PNG file is damaged");
  png[20] ^= 0xFF;
  EXPECT_CONTAINS(error_of(png), "the PNG file is damaged");
}

TEST_F(ImageFile, pgm_and_ppm_are_refused_with_what_is_supported) {
  for (const char* start : {"P5\n3 2\n255\n", "P6\n3 2\n255\n", "P2\n3 2\n255\n"}) {
    EXPECT_CONTAINS(error_of(text(start, grey_)),
                    "picture: PBM, PGM and PPM pictures are not supported; convert it to PNG, or "
                    "give a PNG or IDX file");
  }
}

TEST_F(ImageFile, idx_gives_one_picture_or_many) {
  EXPECT_EQ(pixels_of(idx({2, 3}, grey_)), grey_);
  EXPECT_EQ(pixels_of(gzip(idx({2, 3}, grey_))), grey_);
  Bytes twice = grey_;
  twice.insert(twice.end(), grey_.begin(), grey_.end());
  const std::string path = write_file(folder_ / "two", idx({2, 2, 3}, twice));
  EXPECT_EQ(read_image_file(path, 1, 2, 3).count, 2);
  EXPECT_CONTAINS(error_of(idx({6}, grey_)),
                  "picture: at byte 3: the IDX file has 1 dimension, where a picture has 2 and a "
                  "file of pictures 3 (are these labels?); give a PNG or IDX file");
  EXPECT_CONTAINS(error_of(idx({1, 1, 2, 3}, grey_)), "the IDX file has 4 dimensions, where");
  EXPECT_CONTAINS(error_of(idx({3, 2}, grey_)), "the picture is 3 x 2");
  EXPECT_CONTAINS(error_of(idx({2, 3}, grey_), 3),
                  "IDX pictures are grey, the model takes colour; give PNG files");
  EXPECT_CONTAINS(error_of(idx({0, 2, 3}, {})),
                  "at byte 4: the IDX file holds no pictures; give one that holds some");
  EXPECT_CONTAINS(error_of(gzip(idx({2, 3}, {1, 2, 3}))),
                  "picture (unpacked): at byte 15: the file ends here: 3 of the 2 x 3 elements");
}

TEST_F(ImageFile, other_files_are_refused) {
  EXPECT_CONTAINS(error_of({}), "the file is empty");
  EXPECT_CONTAINS(error_of(text("GIF89a", grey_)), "no known picture format");
  EXPECT_CONTAINS(data_error([&] { read_image_file(folder_ / "absent.png", 1, 2, 3); }),
                  "No such file");
  const std::string pipe = folder_ / "pipe.png";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(data_error([&] { read_image_file(pipe, 1, 2, 3); }),
            pipe + ": is a folder, pipe or device, not a file; give a PNG or IDX file");
}

TEST_F(ImageFile, that_unpacks_to_more_than_a_picture_can_have_is_given_up) {
  Bytes many;
  const Bytes member = gzip(Bytes(std::size_t{1} << 25));
  for (int i = 0; i < 9; ++i) many.insert(many.end(), member.begin(), member.end());
  EXPECT_CONTAINS(error_of(many), "picture: larger than 256 MiB, the limit for pictures");
}

}  // namespace
}  // namespace podium
