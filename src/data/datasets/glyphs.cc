// glyphs: digits drawn by a procedure, for when there is no file to read. Each picture is a pure
// function of (seed, split, example), by IEEE + - * / and square root alone: the same bytes on
// every machine.
//
// A digit is a few strokes (one of several ways to write it) whose control points are moved at
// random, smoothed, then turned, slanted, stretched and shifted, and drawn with a round pen of
// random width by the distance from each pixel to the nearest stroke; then come stray strokes and
// noise. A linear model stays below 95%; a small convolutional network gets past 98%.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/numerics/functions.h"
#include "base/numerics/philox.h"
#include "base/thread_pool.h"
#include "data/datasets/dataset_list.h"

namespace podium {
namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kRow = 32;  // floats from one row of a canvas to the next

struct Point {
  float x = 0, y = 0;
};

// By value, so that the compiler makes vectors of them.
float least(float a, float b) { return a < b ? a : b; }
float most(float a, float b) { return a > b ? a : b; }
float within(float v, float lo, float hi) { return least(most(v, lo), hi); }

// Control points in a box of 100 x 100, y down. A point given twice is a corner; a stroke whose
// last point is its first is closed.
using Stroke = std::vector<Point>;
using Style = std::vector<Stroke>;

const std::array<std::vector<Style>, 10>& digit_styles() {
  static const std::array<std::vector<Style>, 10> styles = {{
      {{{{50, 8}, {74, 18}, {82, 50}, {74, 82}, {50, 92}, {26, 82}, {18, 50}, {26, 18}, {50, 8}}},
       {{{56, 10}, {72, 30}, {70, 62}, {46, 92}, {28, 74}, {30, 36}, {56, 10}}},
       {{{50, 8}, {76, 20}, {80, 50}, {74, 80}, {50, 92}, {24, 80}, {20, 50}, {26, 20}, {50, 8}},
        {{66, 30}, {34, 70}}}},
      {{{{50, 8}, {50, 92}}},
       {{{34, 28}, {52, 9}, {52, 9}, {52, 92}}},
       {{{36, 26}, {52, 9}, {52, 9}, {52, 90}}, {{30, 91}, {74, 91}}}},
      {{{{24, 30}, {30, 12}, {58, 4}, {80, 22}, {70, 48}, {42, 70}, {22, 90}, {22, 90}, {80, 90}}},
       {{{24, 28},
         {40, 6},
         {74, 10},
         {74, 40},
         {46, 70},
         {24, 90},
         {18, 74},
         {40, 72},
         {60, 90},
         {84, 84}}}},
      {{{{24, 18},
         {46, 5},
         {76, 12},
         {74, 40},
         {44, 47},
         {44, 47},
         {80, 54},
         {82, 84},
         {50, 97},
         {20, 82}}},
       {{{24, 10},
         {76, 10},
         {76, 10},
         {46, 44},
         {46, 44},
         {78, 48},
         {84, 80},
         {52, 97},
         {20, 84}}}},
      {{{{30, 10}, {24, 56}, {24, 56}, {82, 56}}, {{68, 10}, {66, 92}}},
       {{{84, 64}, {18, 64}, {18, 64}, {62, 8}, {62, 8}, {62, 92}}}},
      {{{{76, 10},
         {32, 10},
         {32, 10},
         {28, 45},
         {28, 45},
         {56, 36},
         {82, 54},
         {76, 86},
         {46, 96},
         {20, 82}}},
       {{{34, 12}, {28, 46}, {28, 46}, {62, 40}, {80, 64}, {70, 90}, {42, 96}, {20, 86}},
        {{34, 12}, {80, 8}}}},
      {{{{68, 8}, {40, 20}, {22, 56}, {24, 86}, {50, 96}, {78, 84}, {74, 58}, {50, 50}, {25, 68}}},
       {{{60, 6}, {36, 44}, {24, 74}, {34, 94}, {62, 94}, {74, 74}, {58, 58}, {26, 70}}}},
      {{{{18, 12}, {80, 12}, {80, 12}, {42, 92}}},
       {{{18, 12}, {80, 12}, {80, 12}, {44, 92}}, {{36, 52}, {74, 50}}},
       {{{20, 26}, {20, 12}, {20, 12}, {80, 10}, {80, 10}, {54, 50}, {46, 92}}}},
      {{{{50, 50},
         {76, 36},
         {70, 10},
         {50, 5},
         {30, 10},
         {24, 36},
         {50, 50},
         {80, 66},
         {74, 90},
         {50, 96},
         {26, 90},
         {20, 66},
         {50, 50}}},
       {{{50, 7}, {70, 14}, {70, 40}, {50, 47}, {30, 40}, {30, 14}, {50, 7}},
        {{50, 47}, {76, 56}, {76, 86}, {50, 95}, {24, 86}, {24, 56}, {50, 47}}}},
      {{{{74, 26},
         {66, 10},
         {44, 6},
         {26, 20},
         {30, 44},
         {54, 50},
         {74, 26},
         {74, 26},
         {74, 56},
         {66, 93}}},
       {{{74, 26},
         {60, 6},
         {32, 10},
         {26, 36},
         {46, 52},
         {70, 42},
         {74, 26},
         {78, 62},
         {62, 92},
         {30, 90}}}},
  }};
  return styles;
}

// The random numbers of one example, in the order in which they are asked for.
class GlyphDraws {
 public:
  GlyphDraws(std::uint64_t seed, Split split, std::int64_t example)
      : stream_(seed, RandomPurpose::kGlyphs),
        example_(static_cast<std::uint32_t>(example)),
        split_(static_cast<std::uint32_t>(split)) {}
  std::uint32_t word() {
    if (used_ == 4) {
      block_ = stream_.block(next_++, example_, split_);
      used_ = 0;
    }
    return block_[used_++];
  }
  std::uint32_t below(std::size_t n) {
    return uniform_below(word(), static_cast<std::uint32_t>(n));
  }
  float between(float lo, float hi) { return lo + (hi - lo) * uniform01(word()); }
  PhiloxBlock block() {
    used_ = 4;
    return stream_.block(next_++, example_, split_);
  }

 private:
  PhiloxStream stream_;
  std::uint32_t example_, split_;
  std::uint32_t next_ = 0;
  std::size_t used_ = 4;
  PhiloxBlock block_{};
};

// Cuts each corner at a quarter of its two sides (Chaikin): a curve near the control points.
void smooth(Stroke& stroke, Stroke& spare) {
  spare.clear();
  spare.push_back(stroke.front());
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point a = stroke[i];
    const Point b = stroke[i + 1];
    spare.push_back({0.75f * a.x + 0.25f * b.x, 0.75f * a.y + 0.25f * b.y});
    spare.push_back({0.25f * a.x + 0.75f * b.x, 0.25f * a.y + 0.75f * b.y});
  }
  spare.push_back(stroke.back());
  stroke.swap(spare);
}

// Squared distances from each pixel to the nearest stroke so far.
struct Canvas {
  alignas(64) std::array<float, kSide * kRow> squares;
  void clear() { squares.fill(1e9f); }

  // Distances above `reach` pixels may be left out.
  void add(Point a, Point b, float reach) {
    const float dx = b.x - a.x;
    const float dy = b.y - a.y;
    const float length = dx * dx + dy * dy;
    const float inverse = length > 1e-6f ? 1.0f / length : 0.0f;
    const auto whole = [](float v) {
      return static_cast<std::int64_t>(std::min(std::max(v, 0.0f), static_cast<float>(kSide)));
    };
    const std::int64_t first = whole(std::min(a.y, b.y) - reach);
    const std::int64_t end = whole(std::max(a.y, b.y) + reach + 1.0f);
    for (std::int64_t y = first; y < end; ++y) {
      float* row = squares.data() + y * kRow;
      const float py = static_cast<float>(y) - a.y;
      for (std::int64_t x = 0; x < kRow; ++x) {
        const float px = static_cast<float>(static_cast<std::int32_t>(x)) - a.x;
        float t = (px * dx + py * dy) * inverse;
        t = within(t, 0.0f, 1.0f);
        const float ex = px - t * dx;
        const float ey = py - t * dy;
        row[x] = least(row[x], ex * ex + ey * ey);
      }
    }
  }

  // Inks `to` where the pen, a disc of this radius, has been: full inside, falling over one pixel.
  void ink(float radius, float darkness, std::array<float, kSide * kRow>& to) const {
    for (std::size_t i = 0; i < squares.size(); ++i) {
      const float cover = within(radius + 0.5f - std::sqrt(squares[i]), 0.0f, 1.0f);
      to[i] = most(to[i], cover * darkness);
    }
  }
};

// A thread's memory.
struct Desk {
  Canvas canvas;
  alignas(64) std::array<float, kSide * kRow> picture;
  alignas(64) std::array<float, kSide * kRow> noise;
  Stroke stroke, spare;
};

// Draws one example; returns its label.
std::uint8_t draw(GlyphDraws draws, Desk& desk, std::uint8_t* pixels) {
  const auto label = static_cast<std::uint8_t>(draws.below(10));
  const std::vector<Style>& styles = digit_styles()[label];
  const Style& style = styles[draws.below(styles.size())];

  // From the box of 100 x 100 to pixels: stretch, slant, turn, shift.
  const float wide = draws.between(0.115f, 0.20f);
  const float tall = draws.between(0.155f, 0.235f);
  const float slant = draws.between(-0.35f, 0.35f);
  const double turns = static_cast<double>(draws.between(-18.0f, 18.0f)) / 360;
  const auto sine = static_cast<float>(sin_2pi(turns));
  const auto cosine = static_cast<float>(cos_2pi(turns));
  const float right = draws.between(-3.5f, 3.5f);
  const float down = draws.between(-3.0f, 3.0f);
  const float radius = draws.between(0.55f, 1.55f);
  const float darkness = draws.between(0.6f, 1.0f);
  const float jitter = draws.between(1.0f, 6.5f);
  const float centre = 0.5f * static_cast<float>(kSide - 1);
  const auto place = [&](Point p) {
    const float x = (p.x - 50.0f) * wide - (p.y - 50.0f) * tall * slant;
    const float y = (p.y - 50.0f) * tall;
    return Point{centre + right + cosine * x - sine * y, centre + down + sine * x + cosine * y};
  };

  desk.canvas.clear();
  desk.picture.fill(0.0f);
  for (const Stroke& stroke : style) {
    desk.stroke = stroke;
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      Point& p = desk.stroke[i];
      const bool same = i > 0 && stroke[i].x == stroke[i - 1].x && stroke[i].y == stroke[i - 1].y;
      const float dx = draws.between(-jitter, jitter);
      const float dy = draws.between(-jitter, jitter);
      p = same ? desk.stroke[i - 1] : place({p.x + dx, p.y + dy});
    }
    smooth(desk.stroke, desk.spare);
    if (desk.stroke.size() > 4) smooth(desk.stroke, desk.spare);
    for (std::size_t i = 0; i + 1 < desk.stroke.size(); ++i) {
      desk.canvas.add(desk.stroke[i], desk.stroke[i + 1], radius + 0.5f);
    }
  }
  desk.canvas.ink(radius, darkness, desk.picture);

  // Stray strokes, fainter than the digit.
  const std::uint32_t strays = draws.below(4);
  for (std::uint32_t i = 0; i < strays; ++i) {
    const Point a{draws.between(0, kSide), draws.between(0, kSide)};
    const Point b{a.x + draws.between(-7, 7), a.y + draws.between(-7, 7)};
    const float pen = draws.between(0.3f, 0.9f);
    desk.canvas.clear();
    desk.canvas.add(a, b, pen + 0.5f);
    desk.canvas.ink(pen, darkness * draws.between(0.3f, 0.8f), desk.picture);
  }

  // Noise: sixteen bytes a block.
  const float amplitude = draws.between(0.0f, 0.35f) / 255.0f;
  for (std::size_t i = 0; i < desk.noise.size(); i += 16) {
    const PhiloxBlock block = draws.block();
    for (std::size_t k = 0; k < 16; ++k) {
      desk.noise[i + k] = static_cast<float>((block[k / 4] >> (8 * (k % 4))) & 0xFF);
    }
  }
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const auto i = static_cast<std::size_t>(y * kRow + x);
      const float value = desk.picture[i] + (desk.noise[i] - 127.5f) * amplitude;
      const float clamped = within(value, 0.0f, 1.0f);
      pixels[y * kSide + x] =
          static_cast<std::uint8_t>(static_cast<std::int32_t>(clamped * 255.0f + 0.5f));
    }
  }
  return label;
}

ImageSet load_glyphs(const DatasetInfo& info, Split split, const DatasetOptions& options) {
  const bool train = split == Split::kTrain;
  const std::int64_t wanted = train ? options.train_examples : options.test_examples;
  PODIUM_REQUIRE(wanted >= 0 && wanted <= 10'000'000, ExitCode::kData, "glyphs: ", to_string(split),
                 "_examples is ", wanted, "; it must be 1 to 10000000, or 0 for ",
                 train ? info.train_examples : info.test_examples);
  ImageSet set;
  set.count = wanted != 0 ? wanted : train ? info.train_examples : info.test_examples;
  set.channels = info.channels;
  set.height = info.height;
  set.width = info.width;
  set.classes = info.classes;
  set.source = cat("drawn, seed ", options.seed);
  lengthen(set.pixels, static_cast<std::size_t>(set.count * set.image_bytes()), options.stop);
  set.labels.resize(static_cast<std::size_t>(set.count));

  const auto draw_range = [&](std::int64_t first, std::int64_t end) {
    Desk desk;
    for (std::int64_t i = first; i < end && !options.stop.requested(); ++i) {
      set.labels[static_cast<std::size_t>(i)] =
          draw(GlyphDraws(options.seed, split, i), desk, set.pixels.data() + i * set.image_bytes());
    }
  };
  const std::int64_t shares = std::clamp<std::int64_t>(set.count / 1000, 1, usable_cores());
  std::vector<std::jthread> threads;
  std::int64_t k = shares - 1;
  try {
    for (; k > 0; --k)
      threads.emplace_back(draw_range, set.count * k / shares, set.count * (k + 1) / shares);
  } catch (const std::system_error&) {
    // The system starts no further thread: this one draws the rest.
  }
  draw_range(0, set.count * (k + 1) / shares);
  threads.clear();  // joins them
  options.stop.check();
  return set;
}

}  // namespace

DatasetInfo glyphs_dataset() {
  DatasetInfo info;
  info.name = "glyphs";
  info.description = "generated digits, 28 x 28, any number; needs no files";
  info.channels = 1;
  info.height = kSide;
  info.width = kSide;
  info.classes = 10;
  info.train_examples = 60000;
  info.test_examples = 10000;
  info.load = load_glyphs;
  return info;
}

}  // namespace podium
