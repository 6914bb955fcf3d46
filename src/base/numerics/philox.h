// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random
// numbers: as easy as 1, 2, 3; SC 2011). A value is a pure function of (seed, purpose, counter), so
// nothing has a state to save: which examples a step sees, every augmentation and every dropout
// mask follow from the seed on any device.
#pragma once

#include <array>
#include <cstdint>

namespace podium {

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85u;

// One block of four words for a 128-bit counter and a 64-bit key.
constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return counter;
}

// What a stream of random numbers is for. The values are part of the numerical contract: never
// renumber.
enum class RandomPurpose : std::uint32_t {
  kInitialise = 1,  // counter: (element / 4, 0, 0), purpose index: parameter
  kShuffle = 2,     // counter: (position / 4, epoch, 0)
  kDropout = 3,     // counter: (feature / 4, example, step), purpose index: layer
  kAugment =
      4,  // counter: (draw / 4, example index in the dataset, epoch), purpose index: augmentation
  kPermute = 6,   // counter: (half of an index, epoch, round)
  kGlyphs = 5,    // counter: (draw / 4, example, split)
  kText = 7,      // counter: (0, 0, epoch): where the first window of a text begins
  kGenerate = 8,  // counter: (number of the token / 4, 0, 0)
  kSplit = 9,     // counter: (row): which rows of a table are held out
};

// The stream of one purpose under one seed. `index` tells apart streams of the same purpose
// (layers, parameters).
class PhiloxStream {
 public:
  constexpr PhiloxStream(std::uint64_t seed, RandomPurpose purpose, std::uint32_t index = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        tag_((static_cast<std::uint32_t>(purpose) << 24) ^ index) {}

  // Four words for the counter (a, b, c).
  constexpr PhiloxBlock block(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) const {
    return philox({a, b, c, tag_}, key_);
  }
  // Word `i` of the sequence with counter (i / 4, b, c).
  constexpr std::uint32_t word(std::uint32_t i, std::uint32_t b = 0, std::uint32_t c = 0) const {
    return block(i / 4, b, c)[i % 4];
  }
  constexpr std::array<std::uint32_t, 2> key() const { return key_; }
  constexpr std::uint32_t tag() const { return tag_; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t tag_;
};

// A word as a float in [0, 1): its upper 24 bits.
constexpr float uniform01(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
// A word as an integer in [0, n), by multiplication (bias below n / 2^32).
constexpr std::uint32_t uniform_below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * n) >> 32);
}

}  // namespace podium
