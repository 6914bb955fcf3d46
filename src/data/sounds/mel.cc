#include "data/sounds/mel.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/numerics/functions.h"

namespace podium {
namespace {

constexpr std::int64_t kWindowMs = 25, kHopMs = 10;
constexpr double kLowest = 20;   // Hz
constexpr double kFloor = 1e-6;  // added to each band's energy

double mel_of(double hertz) { return 1127 * log_f64(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (exp_f64(mel / 1127) - 1); }

}  // namespace

MelFrames::MelFrames(const MelOptions& options)
    : rate_(options.rate),
      window_length_(options.rate * kWindowMs / 1000),
      hop_(options.rate * kHopMs / 1000) {
  // Zeros up to twice the window: bins that lie closer.
  while (size_ < 2 * window_length_) size_ *= 2;
  for (std::int64_t i = 0; i < window_length_; ++i)  // Hann
    window_.push_back(0.5 -
                      0.5 * cos_2pi(static_cast<double>(i) / static_cast<double>(window_length_)));
  for (std::int64_t k = 0; k < size_ / 2; ++k) {
    const double turn = static_cast<double>(k) / static_cast<double>(size_);
    turns_.push_back({cos_2pi(turn), -sin_2pi(turn)});
  }
  const double bin = static_cast<double>(rate_) / static_cast<double>(size_);
  const double low = mel_of(kLowest), high = mel_of(static_cast<double>(rate_) / 2);
  const auto edge = [&](std::int64_t i) {
    return hertz_of(low +
                    (high - low) * static_cast<double>(i) / static_cast<double>(options.mels + 1));
  };
  for (std::int64_t i = 0; i < options.mels; ++i) {
    const double left = edge(i), centre = edge(i + 1), right = edge(i + 2);
    Band& band = bands_.emplace_back();
    for (std::int64_t b = 0; b <= size_ / 2; ++b) {
      const double at = static_cast<double>(b) * bin;
      const double weight =
          std::min((at - left) / (centre - left), (right - at) / (right - centre));
      if (weight <= 0) continue;
      if (band.weights.empty()) band.first = b;
      band.weights.push_back(weight);
    }
    PODIUM_REQUIRE(!band.weights.empty(), ExitCode::kData, "data.mels = ", options.mels, ": at ",
                   rate_, " Hz, the band around ", static_cast<std::int64_t>(centre),
                   " Hz has no frequency; use fewer bands");
  }
}

float MelFrames::silence() { return static_cast<float>(log_f64(kFloor)); }

// Cooley and Tukey's, radix 2: a plan that is the same everywhere, as no library's is.
void MelFrames::transform(std::vector<Complex>& x) const {
  for (std::int64_t i = 1, j = 0; i < size_; ++i) {
    std::int64_t bit = size_ / 2;
    for (; j & bit; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(j)]);
  }
  for (std::int64_t half = 1; half < size_; half *= 2) {
    for (std::int64_t begin = 0; begin < size_; begin += 2 * half) {
      for (std::int64_t k = 0; k < half; ++k) {
        const Complex turn = turns_[static_cast<std::size_t>(k * (size_ / (2 * half)))];
        Complex& a = x[static_cast<std::size_t>(begin + k)];
        Complex& b = x[static_cast<std::size_t>(begin + k + half)];
        const Complex c = {b.real * turn.real - b.imaginary * turn.imaginary,
                           b.real * turn.imaginary + b.imaginary * turn.real};
        b = {a.real - c.real, a.imaginary - c.imaginary};
        a = {a.real + c.real, a.imaginary + c.imaginary};
      }
    }
  }
}

std::vector<float> MelFrames::of(const Sound& sound) const {
  const std::vector<double> samples = resampled(sound, rate_).samples;
  const std::int64_t count = std::ssize(samples);
  std::vector<float> frames;
  std::vector<Complex> spectrum(static_cast<std::size_t>(size_));
  for (std::int64_t begin = 0; begin == 0 || begin + window_length_ <= count; begin += hop_) {
    std::ranges::fill(spectrum, Complex{});
    for (std::int64_t i = 0; i < std::min(window_length_, count - begin); ++i)
      spectrum[static_cast<std::size_t>(i)].real =
          window_[static_cast<std::size_t>(i)] * samples[static_cast<std::size_t>(begin + i)];
    transform(spectrum);
    for (const Band& band : bands_) {
      double energy = 0;
      for (std::int64_t i = 0; i < std::ssize(band.weights); ++i) {
        const Complex& z = spectrum[static_cast<std::size_t>(band.first + i)];
        energy += band.weights[static_cast<std::size_t>(i)] *
                  (z.real * z.real + z.imaginary * z.imaginary);
      }
      frames.push_back(static_cast<float>(log_f64(energy + kFloor)));
    }
  }
  return frames;
}

}  // namespace podium
