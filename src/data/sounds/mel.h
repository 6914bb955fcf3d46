// Log-mel frames: how loud each band of frequencies is, every ten milliseconds (Davis, Mermelstein
// 1980; docs/sounds.md has the numbers). In double, with functions and an order of sums of ours,
// so that every machine has the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/sounds/sound_file.h"
#include "data/sounds/sound_options.h"

namespace podium {

class MelFrames {
 public:
  // Throws UserError(kData) if there are so many bands at this rate that one has no frequency.
  explicit MelFrames(const MelOptions& options);

  // Of a sound at any rate: frames of `mels` values, the first from the first sample on. One that
  // is shorter than a window has one frame.
  std::vector<float> of(const Sound& sound) const;
  // What each band of silence has.
  static float silence();

  std::int64_t mels() const { return std::ssize(bands_); }

 private:
  struct Band {
    std::int64_t first = 0;  // bin of the spectrum
    std::vector<double> weights;
  };
  struct Complex {
    double real = 0, imaginary = 0;
  };
  void transform(std::vector<Complex>& x) const;

  std::int64_t rate_, window_length_, hop_, size_ = 1;
  std::vector<double> window_;
  std::vector<Complex> turns_;  // e^(-2 pi i k / size)
  std::vector<Band> bands_;
};

}  // namespace podium
