// The random words of augmentation: one stream for each kind of change, so that switching one on
// does not change the draws of the others.
#pragma once

#include <cstdint>

#include "base/numerics/philox.h"
#include "data/source/source.h"

namespace podium {

// The streams of kAugment, one for each kind. Part of what a seed means: never renumber.
enum class AugmentKind : std::uint32_t {
  kFlip = 0,
  kShift = 1,
  kAffine = 2,
  kElastic = 3,
  kCutout = 4,
  kCrop = 5,
  kColour = 6
};

class Draws {
 public:
  Draws(const ExampleKey& key, AugmentKind kind)
      : stream_(key.seed, RandomPurpose::kAugment, static_cast<std::uint32_t>(kind)),
        example_(static_cast<std::uint32_t>(key.example)),
        epoch_(static_cast<std::uint32_t>(key.epoch)) {}
  PhiloxBlock block(std::uint32_t i) const { return stream_.block(i, example_, epoch_); }

 private:
  PhiloxStream stream_;
  std::uint32_t example_, epoch_;
};

}  // namespace podium
