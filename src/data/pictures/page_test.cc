#include "data/pictures/page.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "data/pictures/font.h"
#include "data/pictures/formats/image_file.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

// The page as it is read back: planes of red, green and blue.
Bytes planes_of(const Page& page) {
  const TempFolder folder;
  const std::string path = write_file(folder / "page.png", page.png());
  return read_image_file(path, 3, page.height(), page.width()).pixels;
}

Bytes plane(const Bytes& planes, std::size_t c) {
  const auto size = static_cast<std::ptrdiff_t>(planes.size() / 3);
  const auto first = planes.begin() + static_cast<std::ptrdiff_t>(c) * size;
  return {first, first + size};
}

constexpr std::uint8_t W = 255;

TEST(Page, is_white_until_something_is_drawn) { EXPECT_EQ(planes_of(Page(2, 3)), Bytes(18, W)); }

TEST(Page, enlarges_each_pixel_of_a_picture) {
  Page page(5, 6);
  const Bytes colours = {1, 2, 10, 20, 100, 200};  // one row of two pixels in three planes
  page.draw(1, 2, 2, 3, 1, 2, colours.data());
  EXPECT_EQ(plane(planes_of(page), 0), (Bytes{W, W, W, W, W, W,  //
                                              W, W, 1, 1, 2, 2,  //
                                              W, W, 1, 1, 2, 2,  //
                                              W, W, W, W, W, W,  //
                                              W, W, W, W, W, W}));
  EXPECT_EQ(plane(planes_of(page), 2), (Bytes{W, W, W,   W,   W,   W,    //
                                              W, W, 100, 100, 200, 200,  //
                                              W, W, 100, 100, 200, 200,  //
                                              W, W, W,   W,   W,   W,    //
                                              W, W, W,   W,   W,   W}));
}

TEST(Page, shows_one_channel_in_grey_and_leaves_out_what_lies_beyond) {
  Page page(2, 2);
  const Bytes grey = {7, 8};
  page.draw(1, 1, 1, 1, 1, 2, grey.data());
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(plane(planes_of(page), c), (Bytes{W, W, W, 7}));
}

TEST(Page, writes_captions_in_its_font) {
  Page page(10, 8);
  page.write(1, 2, 1, "7", 9);
  std::string seen;
  const Bytes red = plane(planes_of(page), 0);
  for (std::size_t i = 0; i < red.size(); ++i) {
    seen += red[i] == 9 ? '#' : '.';
    if (i % 8 == 7) seen += '\n';
  }
  EXPECT_EQ(seen,
            "........\n"
            "..#####.\n"
            "......#.\n"
            ".....#..\n"
            "....#...\n"
            "...#....\n"
            "...#....\n"
            "...#....\n"
            "........\n"
            "........\n");
  EXPECT_EQ(text_width("", 2), 0);
  EXPECT_EQ(text_width("7", 2), 10);
  EXPECT_EQ(text_width("77", 3), 33);
}

TEST(Font, every_character_has_a_shape_of_its_own) {
  const std::string known = "0123456789abcdefghijklmnopqrstuvwxyz-";
  std::set<std::string> shapes;
  const auto shape_of = [](char character) {
    std::string shape;
    for (std::int64_t y = 0; y < kGlyphHeight; ++y) {
      for (std::int64_t x = 0; x < kGlyphWidth; ++x) shape += has_ink(character, y, x) ? '#' : '.';
    }
    return shape;
  };
  for (const char character : known) shapes.insert(shape_of(character));
  EXPECT_EQ(shapes.size(), known.size());
  EXPECT_EQ(shape_of('Q'), shape_of('q'));
  EXPECT_EQ(shape_of(' '), std::string(45, '.'));
  EXPECT_EQ(shape_of('\xc3'), std::string(45, '.'));
}

// A "g" without the part below the line reads as a "9".
TEST(Font, letters_that_reach_below_the_line_do_and_others_do_not) {
  const std::string below = "gjpqy";
  for (const char character : std::string("0123456789abcdefghijklmnopqrstuvwxyz-")) {
    bool ink = false;
    for (std::int64_t y = kGlyphHeight - 2; y < kGlyphHeight; ++y)
      for (std::int64_t x = 0; x < kGlyphWidth; ++x) ink = ink || has_ink(character, y, x);
    EXPECT_EQ(ink, below.find(character) != std::string::npos) << character;
  }
}

}  // namespace
}  // namespace podium
