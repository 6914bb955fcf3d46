// For tests: WAV files of tones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/numerics/functions.h"
#include "base/scratch_test_util.h"

namespace podium {

// A WAV file of 16 bits with one channel.
inline std::string wav_bytes(const std::vector<double>& samples, std::uint32_t rate) {
  std::string bytes;
  const auto put = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i);
  };
  const auto size = static_cast<std::uint32_t>(2 * samples.size());
  bytes += "RIFF", put(36 + size, 4), bytes += "WAVEfmt ", put(16, 4), put(1, 2), put(1, 2);
  put(rate, 4), put(2 * rate, 4), put(2, 2), put(16, 2), bytes += "data", put(size, 4);
  for (const double sample : samples)
    put(static_cast<std::uint32_t>(static_cast<std::int32_t>(sample * 32767)), 2);
  return bytes;
}

inline std::vector<double> tone(double hertz, std::int64_t rate, std::int64_t samples) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < samples; ++i)
    all.push_back(0.5 * sin_2pi(hertz * static_cast<double>(i) / static_cast<double>(rate)));
  return all;
}

// A folder with `count` recordings of each of two classes: "low" and "high".
inline void put_tones(const std::filesystem::path& folder, int count, std::int64_t rate = 8000) {
  for (int i = 0; i < count; ++i) {
    for (const char* label : {"low", "high"}) {
      std::filesystem::create_directories(folder / label);
      const double hertz = (label[0] == 'l' ? 300 : 1500) + 17 * (i % 13);
      put_text(folder / label / (std::to_string(i) + ".wav"),
               wav_bytes(tone(hertz, rate, rate / 10 + 100 * (i % 7)),
                         static_cast<std::uint32_t>(rate)));
    }
  }
}

}  // namespace podium
