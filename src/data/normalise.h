// Normalisation: the floats that a network gets for the bytes of an image. The one place where it
// is done, for training, evaluation and prediction alike, in arithmetic that is the same on every
// machine:
//   none         pixel / 255
//   per-channel  ((pixel / 255) - mean[channel]) / deviation[channel]
//   per-image    (v - m) / max(d, 1 / sqrt(n)) for the n values v = pixel / 255 of the image as it
//                is after augmentation; m is their mean and d their deviation (of the population)
// Each division is correctly rounded. per-image works in double and rounds its result to float
// once. A sum of it (of v, then of (v - m)^2) is sixteen partial sums by index mod 16, each in
// rising order, and base/tree.h's tree over them.
//
// Augmentation comes after per-channel normalisation, so that the zeros that it brings in are the
// mean, and before per-image normalisation, which sees them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/option_problem.h"

namespace podium {

// The keys of a recipe's [normalise] table.
struct NormaliseOptions {
  std::string name = "none";            // or "per-channel", "per-image"
  std::vector<double> mean, deviation;  // per-channel: one for each channel, of values in 0..1
  bool operator==(const NormaliseOptions&) const = default;
};

// Where the options do not fit images of so many channels.
std::vector<OptionProblem> normalise_problems(const NormaliseOptions& options,
                                              std::int64_t channels);

// Normalises images of one shape. Immutable once made, so threads may share it.
class Normaliser {
 public:
  // Throws UserError(kUsage) for options that do not fit.
  Normaliser(const NormaliseOptions& options, std::int64_t channels, std::int64_t height,
             std::int64_t width);

  // An image is [channels, height, width]. The part before augmentation:
  void start(const std::uint8_t* pixels, float* image) const;
  // The part after it, in place.
  void finish(float* image) const;

  // Pixels for people to look at, from a normalised image: what start() did is undone; a per-image
  // normalised image is stretched from its smallest value to its largest.
  void to_pixels(const float* image, std::uint8_t* pixels) const;

 private:
  std::int64_t channels_, plane_;
  bool per_image_ = false;
  std::vector<float> mean_, deviation_;  // one for each channel; empty: neither is applied
};

}  // namespace podium
