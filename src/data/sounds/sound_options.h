// Sounds in files, as named in a recipe: `data = "sounds:FOLDER"`, or the [data] table.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// A value of a recipe's `data` that is not the name of a dataset: recordings, each of a class.
inline constexpr const char* kSoundData = "sounds";

// The name of the field that has the frames of a recording.
inline constexpr const char* kFramesField = "frames";

// What the network reads of a recording.
struct MelOptions {
  std::int64_t rate = 16000;  // Hz: recordings of another rate are resampled
  std::int64_t mels = 40;     // bands of frequencies, each a feature of a frame
  bool operator==(const MelOptions&) const = default;
};

// The keys of a recipe's [data] table that only sounds have.
struct SoundOptions {
  MelOptions mel;
  std::string held_out_files;  // a pattern: what is evaluated; empty: a share
  bool operator==(const SoundOptions&) const = default;
};

}  // namespace podium
