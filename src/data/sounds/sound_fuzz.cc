// libFuzzer target: any bytes as a sound file. Either they are none, with words, or all samples are
// finite, and so are the frames.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/sounds/mel.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const podium::MelFrames mel({.rate = 8000, .mels = 20});
  try {
    podium::Sound sound = podium::parse_sound({bytes, size}, "a.wav");
    for (const double sample : sound.samples)
      if (!std::isfinite(sample)) std::abort();
    if (sound.samples.size() > 2000) sound.samples.resize(2000);
    if (sound.rate < 1000) sound.rate = 8000;  // as many samples, not a thousand times as many
    for (const float value : mel.of(sound))
      if (std::isnan(value)) std::abort();
  } catch (const podium::UserError&) {
  }
  return 0;
}
