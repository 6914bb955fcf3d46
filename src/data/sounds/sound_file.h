// WAV and FLAC files, by libsndfile. Only what every decoder decodes to the same samples is read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace podium {

struct Sound {
  std::int64_t rate = 0;        // Hz
  std::vector<double> samples;  // -1 to 1, of floats as they are; the mean of the channels
};

// Whether the name is that of a sound file: .wav, .wave or .flac, in any case.
bool is_sound_name(const std::string& name);

// `name` stands for the file in errors. Throws UserError(kData) with a remedy, if the bytes are no
// sound, cut short, compressed with loss, or have no samples or one that is not finite.
Sound parse_sound(std::span<const std::uint8_t> bytes, const std::string& name);

// The samples at another rate (docs/sounds.md, Resampling).
Sound resampled(const Sound& sound, std::int64_t rate);

}  // namespace podium
