// Augmentation: random changes of a training image. Each is a pure function of (seed, epoch,
// example), with the same bits on every machine.
//
// They are applied in this order, each only if its option is on:
//   flip    mirrors left to right: at random, or alternating (below)
//   warp    one bilinear resampling for rotate_degrees, scale, shear, elastic and shift together;
//           if shift is the only one of them, whole pixels move and nothing is interpolated
//   cutout  sets a square to 0
// Pixels from outside the image are 0. With padding "reflect", which works for whole pixels only,
// they are the image mirrored at the centres of its edge pixels (-1 is pixel 1).
//
// Every kind has its own random stream, so switching one on does not change the draws of the
// others. "alternating" draws once, as "random" does in epoch 0, and flips each image in every
// further epoch, so that two consecutive epochs show both sides of every image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source/option_problem.h"
#include "data/source/source.h"

namespace podium {

// The keys of a recipe's [augment] table; by default all are off. Each amount is a maximum: the
// actual one is drawn uniformly between its negative and itself.
struct AugmentOptions {
  int shift = 0;             // whole pixels, drawn separately down and right (a crop after padding)
  float rotate_degrees = 0;  // about the centre; at most 180
  float scale = 0;           // relative: 0.1 draws a factor of 0.9 to 1.1; at most 0.9
  float shear = 0;           // pixels to the right for each pixel down; at most 2
  float elastic = 0;     // pixels by which the points of a coarse lattice move, each by itself in
                         // both directions; between them a smooth cubic B-spline
  int elastic_cell = 7;  // pixels between the lattice's points
  int cutout = 0;        // the square's side in pixels; the square is inside the image
  std::string flip = "none";     // or "random", "alternating"
  std::string padding = "zero";  // or "reflect": fills what a shift uncovers
  // Colours (data/pictures/prepare/colour.h), before normalisation; 0.4 draws a factor of 0.6 to
  // 1.4.
  float brightness = 0, contrast = 0, saturation = 0;
  float hue = 0;  // of the colour circle, at most 0.5
  // Of photographs alone (data/pictures/prepare/crop.h), which are cropped when they are decoded.
  std::string crop = "none";                  // or "random-resized"
  std::vector<double> crop_area = {0.08, 1};  // least and most share of the picture's area
  std::vector<double> crop_ratio = {3.0 / 4, 4.0 / 3};  // least and most width / height

  bool any() const {
    return shift != 0 || rotate_degrees != 0 || scale != 0 || shear != 0 || elastic != 0 ||
           cutout != 0 || flip != "none";
  }
  bool operator==(const AugmentOptions&) const = default;
};

// The options that are out of range, do not fit images of this size or contradict each other.
std::vector<OptionProblem> augment_problems(const AugmentOptions& options, std::int64_t height,
                                            std::int64_t width);

// Augments images of one shape. Immutable, so threads may share it.
class Augmenter {
 public:
  // Throws UserError(kUsage) for options that do not fit.
  Augmenter(const AugmentOptions& options, std::int64_t channels, std::int64_t height,
            std::int64_t width);

  // Both images are [channels, height, width]; `in` and `out` must not overlap. Allocates nothing
  // after a thread's first call.
  void apply(const ExampleKey& key, const float* in, float* out) const;

 private:
  struct Scratch;  // a thread's memory for one image's warp

  bool mirrors(const ExampleKey& key) const;
  void move(std::int64_t down, std::int64_t right, bool mirror, const float* in, float* out) const;
  void warp(const ExampleKey& key, std::int64_t down, std::int64_t right, bool mirror,
            const float* in, float* out) const;
  void draw_lattice(const ExampleKey& key, Scratch& scratch) const;
  void displace(std::int64_t y, Scratch& scratch) const;
  void resample(const float* in, bool mirror, Scratch& scratch, float* out) const;
  void cut(const ExampleKey& key, float* out) const;

  AugmentOptions options_;
  bool random_flip_ = false, alternating_flip_ = false, reflects_ = false;  // the options' words
  std::int64_t channels_, height_, width_;
  std::int64_t lanes_ = 0;  // the width, rounded up to the length of rows in scratch memory
  // The B-spline's weight of each lattice row at each pixel row [height][lattice_rows_], and of
  // each lattice column at each pixel column [lattice_columns_][lanes_].
  std::int64_t lattice_rows_ = 0, lattice_columns_ = 0;
  std::vector<float> row_weights_, column_weights_;
};

}  // namespace podium
