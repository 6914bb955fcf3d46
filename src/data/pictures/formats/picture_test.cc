#include "data/pictures/formats/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "backend/cpu/kernels/targets.h"
#include "data/pictures/formats/jpeg.h"
#include "data/pictures/picture_source.h"
#include "data/pictures/prepare/resize.h"
#include "files/checksum.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

Bytes picture_sample(const std::string& name) {
  const Bytes file = read_file(std::string(PODIUM_DATA_CORPUS "/picture/") + name);
  EXPECT_FALSE(file.empty()) << name;
  return file;
}

// Bytes of an area in planes [3][height][width].
Bytes planes(const PicturePixels& pixels, const PictureArea& area) {
  Bytes bytes;
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < area.height; ++y)
      for (std::int64_t x = 0; x < area.width; ++x)
        bytes.push_back(
            pixels.row(area.top - pixels.area.top + y)[4 * (area.left - pixels.area.left + x) + c]);
  return bytes;
}

Bytes decoded_pixels(const Bytes& file, int eighths, const PictureArea& area) {
  PictureReader reader(file, "picture");
  PicturePixels pixels;
  reader.decode(eighths, area, pixels);
  return planes(pixels, area);
}

PictureArea whole(const Bytes& file, int eighths) {
  const PictureReader reader(file, "picture");
  return {0, 0, (reader.size().height * eighths + 7) / 8, (reader.size().width * eighths + 7) / 8};
}

std::string picture_error(const Bytes& file) {
  try {
    decoded_pixels(file, 8, whole(file, 8));
  } catch (const BadPicture& error) {
    return error.what();
  }
  return "decoded_pixels";
}

// SHA-256 of what Pillow 13.0 makes of the same: Image.open(...).convert("RGB"), as planes.
struct PillowPicture {
  const char *name, *pixels, *middle;
};
constexpr PillowPicture kPillow[] = {
    {"colour-420.jpg", "e38219188ad54be678834fe3d98eefdd8fbc1c18033bdb3a0baf9f5433f03374",
     "b60e3b7dd776233e958a14d43a58fc031b11ad72784f85e0a2d043552c9e784e"},
    {"colour-422.jpg", "3e19e12b887f7f7de5fc3ced4889540490050fd78d4b72a681ac33c12a0009c8",
     "c57166982ac3a9d440fe9fad7ec0e801af8a5a819714e376360d11848485a9e0"},
    {"colour-444.jpg", "7403e6db1970c6705e44148873d04b344060bcb73bb80a2a84f8cb2115b492cb",
     "9165e836422750c9e7b08aa78d6c86d4885e1c870aafc82d949bfc2ac4ca2f53"},
    {"progressive.jpg", "e38219188ad54be678834fe3d98eefdd8fbc1c18033bdb3a0baf9f5433f03374",
     "b60e3b7dd776233e958a14d43a58fc031b11ad72784f85e0a2d043552c9e784e"},
    {"grey.jpg", "1304c9c6595cef72318731c2dd5d6334cf22d49d255f747ac76a33f164c3855d",
     "9134a0fa8760487a4ce441e654e4b193e7083e9f84caa3e74a0ed10e9d26b962"},
    {"cmyk.jpg", "4064fb3a7d3b595990d9a3d44bc25538b42fd745042231a1ac4d1efb27e1ab89",
     "48de3551f733994a8364c92c5792f72491ec5ffd4beb9eeb179bc6136c5ad7a5"},
    // EXIF says that it lies on its side, and is ignored.
    {"turned.jpg", "e38219188ad54be678834fe3d98eefdd8fbc1c18033bdb3a0baf9f5433f03374",
     "b60e3b7dd776233e958a14d43a58fc031b11ad72784f85e0a2d043552c9e784e"},
};

TEST(Picture, jpeg_that_was_written_is_read_with_nearly_the_same_pixels) {
  constexpr std::int64_t kHeight = 19, kWidth = 33;
  Bytes colours;
  for (std::int64_t y = 0; y < kHeight; ++y)
    for (std::int64_t x = 0; x < kWidth; ++x)
      for (const std::int64_t value : {4 * x, 100 + 4 * y, 2 * x + 2 * y})
        colours.push_back(static_cast<std::uint8_t>(value));
  const Bytes file = jpeg_bytes(colours, kHeight, kWidth, 95);
  const PictureArea area = whole(file, 8);
  ASSERT_EQ(area, (PictureArea{0, 0, kHeight, kWidth}));
  const Bytes read = decoded_pixels(file, 8, area);
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t i = 0; i < kHeight * kWidth; ++i)
      EXPECT_NEAR(read[static_cast<std::size_t>(c * kHeight * kWidth + i)],
                  colours[static_cast<std::size_t>(3 * i + c)], 12);
}

TEST(Picture, jpeg_has_the_pixels_of_pillow) {
  for (const PillowPicture& pillow : kPillow) {
    const Bytes file = picture_sample(pillow.name);
    EXPECT_EQ(sha256(decoded_pixels(file, 8, whole(file, 8))), pillow.pixels) << pillow.name;
  }
}

TEST(Picture, evaluation_sees_the_middle_that_pillow_cuts_out) {
  CropOptions crop;
  crop.size = 32, crop.resize = 40;
  for (const PillowPicture& pillow : kPillow) {
    Bytes made(3 * 32 * 32);
    make_example(picture_sample(pillow.name), pillow.name, crop, nullptr, made.data());
    EXPECT_EQ(sha256(made), pillow.middle) << pillow.name;
  }
}

// A file that tests/peer/pillow_examples.py wrote names them.
TEST(Picture, photographs_are_those_of_pillow) {
  const char* const list = std::getenv("PODIUM_PILLOW");
  if (list == nullptr) GTEST_SKIP() << "$PODIUM_PILLOW names no file";
  std::ifstream lines(list);
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    const std::string hash = line.substr(0, 64), path = line.substr(65);
    Bytes made(3 * 224 * 224);
    make_example(read_file(path), path, {}, nullptr, made.data());
    EXPECT_EQ(sha256(made), hash) << path;
  }
  EXPECT_GT(compared, 0) << list;
}

TEST(Picture, a_part_has_the_pixels_of_the_whole_at_every_scale) {
  for (const char* name : {"colour-420.jpg", "colour-422.jpg", "colour-444.jpg", "progressive.jpg",
                           "grey.jpg", "cmyk.jpg", "colour.png", "grey.png"}) {
    const Bytes file = picture_sample(name);
    for (const int eighths : {8, 4, 2, 1}) {
      if (PictureReader(file, name).size().eighths_for(1 << 20, 1 << 20, 1, 1) != 1 && eighths != 8)
        continue;  // PNG
      const PictureArea all = whole(file, eighths);
      const Bytes full = decoded_pixels(file, eighths, all);
      for (std::int64_t top = 0; top < all.height; top += 5) {
        for (std::int64_t left = 0; left < all.width; left += 3) {
          const PictureArea part{top, left, std::min<std::int64_t>(9, all.height - top),
                                 std::min<std::int64_t>(7, all.width - left)};
          const Bytes found = decoded_pixels(file, eighths, part);
          Bytes expected;
          for (std::int64_t c = 0; c < 3; ++c)
            for (std::int64_t y = 0; y < part.height; ++y)
              for (std::int64_t x = 0; x < part.width; ++x)
                expected.push_back(full[static_cast<std::size_t>(
                    (c * all.height + top + y) * all.width + left + x)]);
          ASSERT_EQ(found, expected) << name << " " << eighths << " " << top << " " << left;
        }
      }
    }
  }
}

TEST(Picture, grey_becomes_three_equal_channels) {
  for (const char* name : {"grey.jpg", "grey.png"}) {
    const Bytes file = picture_sample(name);
    const Bytes bytes = decoded_pixels(file, 8, whole(file, 8));
    const auto plane = static_cast<std::ptrdiff_t>(bytes.size() / 3);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + plane, bytes.begin() + plane)) << name;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + plane, bytes.begin() + 2 * plane));
  }
}

TEST(Picture, the_scale_leaves_a_crop_as_many_pixels_as_are_wanted) {
  const Bytes file = picture_sample("colour-420.jpg");
  const PictureReader reader(file, "picture");
  EXPECT_EQ(reader.size().eighths_for(448, 448, 224, 224), 4);
  EXPECT_EQ(reader.size().eighths_for(447, 448, 224, 224), 8);
  EXPECT_EQ(reader.size().eighths_for(1792, 1792, 224, 224), 1);
  EXPECT_EQ(reader.size().eighths_for(100, 100, 224, 224), 8);
}

// Of one colour, with a baseline JPEG of this size.
Bytes plain_jpeg(std::int64_t height, std::int64_t width) {
  const Bytes colours(static_cast<std::size_t>(3 * height * width), 90);
  return jpeg_bytes(colours, height, width, 50);
}

// The size in a JPEG's header, whose data are those of another.
Bytes with_size(Bytes file, int height, int width) {
  for (std::size_t i = 2; i + 9 < file.size(); i += 2 + 256 * file[i + 2] + file[i + 3]) {
    if (file[i] != 0xFF) break;
    if (file[i + 1] != 0xC0 && file[i + 1] != 0xC2) continue;
    file[i + 5] = static_cast<std::uint8_t>(height / 256), file[i + 6] = height % 256;
    file[i + 7] = static_cast<std::uint8_t>(width / 256), file[i + 8] = width % 256;
    return file;
  }
  ADD_FAILURE() << "no size";
  return file;
}

TEST(Picture, huge_pictures_are_decoded_at_half_their_sides_by_a_rule_of_their_size_alone) {
  const Bytes plain = picture_sample("colour-420.jpg");
  const auto eighths = [&](int height, int width) {
    return PictureReader(with_size(plain, height, width), "picture").size().most_eighths();
  };
  EXPECT_EQ(eighths(8192, 8192), 8);
  EXPECT_EQ(eighths(8192, 8193), 4);
  EXPECT_EQ(eighths(16384, 16384), 4);
  EXPECT_LE(PictureReader(with_size(plain, 16384, 16384), "picture").decoding_bytes(), 1 << 28);
  EXPECT_CONTAINS(picture_error(with_size(plain, 16384, 16385)), "more than the 268435456 allowed");
  EXPECT_CONTAINS(picture_error(with_size(picture_sample("progressive.jpg"), 8192, 8193)),
                  "more than the 67108864 allowed in a PNG or progressive JPEG; make it smaller");
  // Where it is asked for less than that, no more is decoded_pixels than before.
  EXPECT_EQ(
      PictureReader(with_size(plain, 16384, 16384), "p").size().eighths_for(16384, 16384, 224, 224),
      1);
  EXPECT_EQ(
      PictureReader(with_size(plain, 16384, 16384), "p").size().eighths_for(300, 300, 224, 224), 4);
}

TEST(Picture, evaluation_sees_the_middle_of_a_huge_picture) {
  Bytes out(3 * 16 * 16);
  make_example(plain_jpeg(8200, 8193), "picture", {.size = 16, .resize = 18}, nullptr, out.data());
  const auto [least, most] = std::ranges::minmax(out);
  EXPECT_GE(least, 88);
  EXPECT_LE(most, 92);
}

TEST(Picture, that_cannot_be_decoded_is_refused_with_the_reason) {
  EXPECT_CONTAINS(picture_error(picture_sample("cut.jpg")),
                  "picture: the JPEG picture is damaged: Premature");
  EXPECT_CONTAINS(picture_error(picture_sample("text.txt")), "the file is neither JPEG nor PNG");
  EXPECT_CONTAINS(picture_error({}), "the file is empty");
  EXPECT_CONTAINS(picture_error({0xFF, 0xD8, 0xFF, 0xE0, 0, 0}), "the JPEG picture is damaged");
  Bytes png = picture_sample("colour.png");
  png.resize(png.size() / 2);
  EXPECT_CONTAINS(picture_error(png), "the PNG file is damaged");
}

// No picture of `cut.jpg` that has its first rows alone is refused for its last ones.
TEST(Picture, that_ends_early_still_has_its_first_rows) {
  const Bytes file = picture_sample("cut.jpg"), good = picture_sample("colour-420.jpg");
  const PictureArea first{0, 0, 8, 61};
  EXPECT_EQ(decoded_pixels(file, 8, first), decoded_pixels(good, 8, first));
}

// SHA-256 of Image.resize((width, height), BILINEAR) of Pillow 13.0, as planes, of the picture
// whose channel c at (x, y) is 3 x x + 7 y + 50 c + x y mod 256.
TEST(Resize, has_the_bytes_of_pillow_on_every_vector_target) {
  struct Case {
    std::int64_t height, width, out_height, out_width;
    const char* sha256;
  };
  constexpr Case kCases[] = {
      {40, 50, 16, 16, "c4d222f8c968db7b1ed5ecdcc3ee00cde9cfae4e62158fb96648fa6894930900"},
      {33, 17, 64, 48, "36801dfe35adbbe543194bb4c6b760f822590353ff923af87330bf48a9686015"},
      {100, 75, 7, 9, "132f1d8e7d9e1b26ea4f3d7e079749dcb272f0b73be3aa02d88a74d48a8668fa"},
      {224, 224, 224, 224, "0e71715a9d9fd76df44882cca15ea75d3f85113263091e59a05d630aad2979e8"},
      {31, 500, 24, 24, "fb5efedf38c9b4b84dc12764f3d0c5a8ade25da34bc4886ada425479201a6bed"},
      {5, 5, 1, 1, "2f339efb456b539e05b2b7fe50138dbaeee437a64dd7ffe649ef2b4cb7300f0c"},
      {1, 1, 8, 8, "069539ae1940b0d472d059f41aa240c1985df0a6673c535fc82844ea8f664284"},
  };
  const std::string own = cpu::vector_target();
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    SCOPED_TRACE(target);
    for (const Case& c : kCases) {
      PicturePixels pixels;
      pixels.area = {0, 0, c.height, c.width};
      pixels.allocate();
      for (std::int64_t y = 0; y < c.height; ++y)
        for (std::int64_t x = 0; x < c.width; ++x)
          for (std::int64_t k = 0; k < 3; ++k)
            pixels.row(y)[4 * x + k] =
                static_cast<std::uint8_t>(3 * x * x + 7 * y + 50 * k + x * y);
      ResizeAxis rows, columns;
      make_resize_axis(0, static_cast<double>(c.height), c.out_height, 0, c.out_height, rows);
      make_resize_axis(0, static_cast<double>(c.width), c.out_width, 0, c.out_width, columns);
      Bytes out(static_cast<std::size_t>(3 * c.out_height * c.out_width));
      resize(pixels, rows, columns, out.data());
      EXPECT_EQ(sha256(out), c.sha256) << c.height << " x " << c.width;
      // Of a part of the output, the same.
      if (c.out_height < 3 || c.out_width < 3) continue;
      make_resize_axis(0, static_cast<double>(c.height), c.out_height, 1, 2, rows);
      Bytes two(static_cast<std::size_t>(3 * 2 * c.out_width));
      resize(pixels, rows, columns, two.data());
      EXPECT_TRUE(
          std::equal(two.begin(), two.begin() + 2 * c.out_width, out.begin() + c.out_width));
    }
  }
  cpu::set_vector_target(own);
}

TEST(Resize, what_lies_beyond_a_crop_takes_no_part) {
  PicturePixels pixels;
  pixels.area = {0, 0, 20, 20};
  pixels.allocate();
  std::ranges::fill(pixels.bytes, std::uint8_t{9});
  for (std::int64_t y = 5; y < 15; ++y) std::fill_n(pixels.row(y) + 4 * 5, 4 * 10, 200);
  ResizeAxis rows, columns;
  for (const std::int64_t size : {3, 10, 31}) {
    make_resize_axis(5, 10, size, 0, size, rows);
    make_resize_axis(5, 10, size, 0, size, columns);
    Bytes out(static_cast<std::size_t>(3 * size * size));
    resize(pixels, rows, columns, out.data());
    EXPECT_TRUE(std::ranges::all_of(out, [](std::uint8_t v) { return v == 200; })) << size;
  }
}

}  // namespace
}  // namespace podium
