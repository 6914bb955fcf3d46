#include "data/pictures/prepare/normalise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/numerics/tree.h"
#include "base/words.h"

namespace podium {
namespace {

// pixel / 255, correctly rounded, without the division: the quotient by the rounded reciprocal,
// corrected once by its exact remainder (a test covers all 256 values).
inline float over_255(std::uint8_t pixel) {
  constexpr float kReciprocal = 1.0f / 255.0f;
  const float x = static_cast<float>(pixel);
  const float q = x * kReciprocal;
  return std::fma(std::fma(-255.0f, q, x), kReciprocal, q);
}

void widen(const std::uint8_t* pixels, std::int64_t n, float* __restrict out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = over_255(pixels[i]);
}

void widen_and_standardise(const std::uint8_t* pixels, std::int64_t n, float mean, float deviation,
                           float* __restrict out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = (over_255(pixels[i]) - mean) / deviation;
}

// The sum of term(value) over all values: sixteen partial sums, then the tree.
template <typename Term>
double sum_of(const float* values, std::int64_t n, const Term& term) {
  constexpr std::int64_t kParts = 16;
  std::array<double, kParts> parts{};
  std::int64_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (std::int64_t k = 0; k < kParts; ++k)
      parts[static_cast<std::size_t>(k)] += term(static_cast<double>(values[i + k]));
  }
  for (std::int64_t k = 0; i + k < n; ++k)
    parts[static_cast<std::size_t>(k)] += term(static_cast<double>(values[i + k]));
  return tree_sum(0, kParts, [&](std::int64_t k) { return parts[static_cast<std::size_t>(k)]; });
}

std::uint8_t to_pixel(float value) {
  return static_cast<std::uint8_t>(std::clamp(value * 255.0f + 0.5f, 0.0f, 255.0f));
}

}  // namespace

std::vector<OptionProblem> normalise_problems(const NormaliseOptions& options,
                                              std::int64_t channels) {
  std::vector<OptionProblem> problems;
  if (options.name != "none" && options.name != "per-channel" && options.name != "per-image") {
    problems.push_back({"normalise.name", cat("`normalise.name` = \"", options.name,
                                              "\" is unknown; known: none, per-channel, "
                                              "per-image")});
  }
  if (options.name != "per-channel") return problems;
  const auto one_each = [&](const std::string& key, const std::vector<double>& values) {
    if (values.size() == static_cast<std::size_t>(channels)) return;
    problems.push_back({key, cat("`", key, "` has ", count_text(std::ssize(values), "number"),
                                 "; the images have ", count_text(channels, "channel"),
                                 ": give one number per channel")});
  };
  one_each("normalise.mean", options.mean);
  one_each("normalise.deviation", options.deviation);
  for (const double deviation : options.deviation) {
    if (static_cast<float>(deviation) > 0) continue;
    problems.push_back({"normalise.deviation", cat("`normalise.deviation` contains ", deviation,
                                                   "; it is a divisor and must be above 0")});
  }
  return problems;
}

Normaliser::Normaliser(const NormaliseOptions& options, std::int64_t channels, std::int64_t height,
                       std::int64_t width)
    : channels_(channels), plane_(height * width), per_image_(options.name == "per-image") {
  refuse(normalise_problems(options, channels));
  if (options.name != "per-channel") return;
  for (const double mean : options.mean) mean_.push_back(static_cast<float>(mean));
  for (const double d : options.deviation) deviation_.push_back(static_cast<float>(d));
}

void Normaliser::start(const std::uint8_t* pixels, float* image) const {
  if (mean_.empty()) {
    widen(pixels, channels_ * plane_, image);
    return;
  }
  for (std::int64_t c = 0; c < channels_; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    widen_and_standardise(pixels + c * plane_, plane_, mean_[channel], deviation_[channel],
                          image + c * plane_);
  }
}

void Normaliser::finish(float* image) const {
  if (!per_image_) return;
  const std::int64_t n = channels_ * plane_;
  const auto count = static_cast<double>(n);
  const double mean = sum_of(image, n, [](double v) { return v; }) / count;
  const double squares = sum_of(image, n, [mean](double v) { return (v - mean) * (v - mean); });
  const double deviation = std::max(std::sqrt(squares / count), 1.0 / std::sqrt(count));
  for (std::int64_t i = 0; i < n; ++i)
    image[i] = static_cast<float>((static_cast<double>(image[i]) - mean) / deviation);
}

void Normaliser::to_pixels(const float* image, std::uint8_t* pixels) const {
  const std::int64_t n = channels_ * plane_;
  if (per_image_) {
    const auto [least, most] = std::minmax_element(image, image + n);
    const float low = *least, span = *most > low ? *most - low : 1.0f;
    for (std::int64_t i = 0; i < n; ++i) pixels[i] = to_pixel((image[i] - low) / span);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto channel = static_cast<std::size_t>(i / plane_);
    pixels[i] =
        to_pixel(mean_.empty() ? image[i] : image[i] * deviation_[channel] + mean_[channel]);
  }
}

}  // namespace podium
