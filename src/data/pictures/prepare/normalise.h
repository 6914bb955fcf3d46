// Normalisation: converts the bytes of an image to the floats that a network gets. Training,
// evaluation and prediction all use this code, whose results have the same bits on every
// machine:
//   none         pixel / 255
//   per-channel  ((pixel / 255) - mean[channel]) / deviation[channel]
//   per-image    (v - m) / max(d, 1 / sqrt(n)) for the n values v = pixel / 255 of the augmented
//                image; m is their mean and d their deviation (of the population)
// Each division is correctly rounded. per-image computes in double and rounds its result to float
// once. Its sums (of v, then of (v - m)^2) are sixteen partial sums by index mod 16, each in
// increasing order, joined by the tree of base/numerics/tree.h.
//
// Augmentation follows per-channel normalisation, so that its zeros are the mean, and precedes
// per-image normalisation, which includes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source/option_problem.h"

namespace podium {

// The keys of a recipe's [normalise] table.
struct NormaliseOptions {
  std::string name = "none";            // or "per-channel", "per-image"
  std::vector<double> mean, deviation;  // per-channel: one per channel, for values in 0..1
  bool operator==(const NormaliseOptions&) const = default;
};

// The options that do not fit images with this number of channels.
std::vector<OptionProblem> normalise_problems(const NormaliseOptions& options,
                                              std::int64_t channels);

// Normalises images of one shape. Immutable, so threads may share it.
class Normaliser {
 public:
  // Throws UserError(kUsage) for options that do not fit.
  Normaliser(const NormaliseOptions& options, std::int64_t channels, std::int64_t height,
             std::int64_t width);

  // The part before augmentation. An image is [channels, height, width].
  void start(const std::uint8_t* pixels, float* image) const;
  // The part after it, in place.
  void finish(float* image) const;

  // Converts a normalised image to pixels for display: undoes start(). A per-image normalised image
  // is stretched from its smallest value to its largest.
  void to_pixels(const float* image, std::uint8_t* pixels) const;

 private:
  std::int64_t channels_, plane_;
  bool per_image_ = false;
  std::vector<float> mean_, deviation_;  // one for each channel; empty: neither is applied
};

}  // namespace podium
