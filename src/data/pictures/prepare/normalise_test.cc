#include "data/pictures/prepare/normalise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/numerics/hash.h"
#include "base/scratch_test_util.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

constexpr std::int64_t kChannels = 3, kPlaneSide = 7;  // 147 values: not a multiple of sixteen
constexpr std::size_t kValues = kChannels * kPlaneSide * kPlaneSide;

Bytes pixels() {
  Bytes bytes(kValues);
  for (std::size_t i = 0; i < kValues; ++i)
    bytes[i] = static_cast<std::uint8_t>((i * 37 + i * i * 11) % 256);
  return bytes;
}

NormaliseOptions per_channel() { return {"per-channel", {0.5, 0.25, 0.125}, {0.2, 0.1, 0.3}}; }

std::vector<float> normalised(const NormaliseOptions& options, const Bytes& bytes) {
  const Normaliser normaliser(options, kChannels, kPlaneSide, kPlaneSide);
  std::vector<float> image(kValues);
  normaliser.start(bytes.data(), image.data());
  normaliser.finish(image.data());
  return image;
}

TEST(Normalise, none_is_the_pixel_over_255_correctly_rounded) {
  Bytes bytes(256);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const Normaliser normaliser({}, 1, 16, 16);
  std::vector<float> image(256);
  normaliser.start(bytes.data(), image.data());
  normaliser.finish(image.data());
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(image[i], static_cast<float>(i) / 255.0f) << i;
}

TEST(Normalise, per_channel_takes_each_channels_own_mean_and_deviation) {
  const Bytes bytes = pixels();
  const std::vector<float> image = normalised(per_channel(), bytes);
  const float means[] = {0.5f, 0.25f, 0.125f}, deviations[] = {0.2f, 0.1f, 0.3f};
  for (std::size_t i = 0; i < kValues; ++i) {
    const std::size_t c = i / (kPlaneSide * kPlaneSide);
    EXPECT_EQ(image[i], (static_cast<float>(bytes[i]) / 255.0f - means[c]) / deviations[c]);
  }
}

TEST(Normalise, per_image_gives_each_image_mean_0_and_deviation_1) {
  const std::vector<float> image = normalised({"per-image", {}, {}}, pixels());
  double sum = 0, squares = 0;
  for (const float v : image) sum += v, squares += static_cast<double>(v) * v;
  EXPECT_NEAR(sum / kValues, 0, 1e-7);
  EXPECT_NEAR(squares / kValues, 1, 1e-6);
}

TEST(Normalise, per_image_agrees_with_plain_sums) {
  const Bytes bytes = pixels();
  const std::vector<float> image = normalised({"per-image", {}, {}}, bytes);
  double mean = 0, variance = 0;
  for (const std::uint8_t pixel : bytes) mean += static_cast<double>(pixel) / 255 / kValues;
  for (const std::uint8_t pixel : bytes)
    variance += std::pow(static_cast<double>(pixel) / 255 - mean, 2) / kValues;
  for (std::size_t i = 0; i < kValues; ++i)
    EXPECT_NEAR(image[i], (bytes[i] / 255.0 - mean) / std::sqrt(variance), 1e-6);
}

TEST(Normalise, per_image_divides_a_flat_image_by_1_over_the_root_of_its_values) {
  Bytes bytes(kValues, 100);
  for (const float v : normalised({"per-image", {}, {}}, bytes)) EXPECT_NEAR(v, 0, 1e-6);
  bytes[3] = 101;  // a deviation far below that
  const double mean = (100.0 + 1.0 / kValues) / 255;
  EXPECT_NEAR(normalised({"per-image", {}, {}}, bytes)[3],
              (101.0 / 255 - mean) * std::sqrt(static_cast<double>(kValues)), 1e-6);
}

// The bits are part of what a recipe means: they hold on every machine.
TEST(Normalise, has_the_recorded_bits) {
  const auto hash = [](const NormaliseOptions& options) {
    const std::vector<float> image = normalised(options, pixels());
    return hash_text(hash_tensor(hash_sum(image), image.size()));
  };
  EXPECT_EQ(hash({}), "e2eae361a6692a22");
  EXPECT_EQ(hash(per_channel()), "a18f98e8790adae4");
  EXPECT_EQ(hash({"per-image", {}, {}}), "6d6b9ce23e2fd048");
}

TEST(Normalise, pixels_to_look_at_are_those_that_went_in) {
  const Bytes bytes = pixels();
  for (const NormaliseOptions& options : {NormaliseOptions{}, per_channel()}) {
    const Normaliser normaliser(options, kChannels, kPlaneSide, kPlaneSide);
    Bytes back(kValues);
    normaliser.to_pixels(normalised(options, bytes).data(), back.data());
    EXPECT_EQ(back, bytes) << options.name;
  }
}

TEST(Normalise, pixels_to_look_at_of_a_standardised_image_span_all_values) {
  const NormaliseOptions options{"per-image", {}, {}};
  const Normaliser normaliser(options, kChannels, kPlaneSide, kPlaneSide);
  Bytes bytes(kValues, 60), back(kValues);
  bytes[0] = 40;
  bytes[1] = 140;
  normaliser.to_pixels(normalised(options, bytes).data(), back.data());
  EXPECT_EQ(back[0], 0);
  EXPECT_EQ(back[1], 255);
  EXPECT_EQ(back[2], 51);
  normaliser.to_pixels(normalised(options, Bytes(kValues, 9)).data(), back.data());
  EXPECT_EQ(back, Bytes(kValues, 0));  // a flat image has no span
}

TEST(Normalise, options_that_do_not_fit_are_named) {
  const auto error = [](const NormaliseOptions& options) {
    return user_error(ExitCode::kUsage,
                      [&] { const Normaliser bad(options, kChannels, kPlaneSide, kPlaneSide); });
  };
  EXPECT_EQ(
      error({"per-channel", {0.5}, {0.1, 0.2, 0.3}}),
      "`normalise.mean` has 1 number; the images have 3 channels: give one number per channel");
  const std::string both = error({"per-channel", {}, {0.1, 0.2}});
  EXPECT_CONTAINS(both, "`normalise.mean` has 0 numbers");
  EXPECT_CONTAINS(both, "`normalise.deviation` has 2 numbers");
  EXPECT_CONTAINS(error({"per-channel", {0, 0, 0}, {1, 0, 1}}),
                  "`normalise.deviation` contains 0; it is a divisor and must be above 0");
  EXPECT_CONTAINS(error({"whiten", {}, {}}), "`normalise.name` = \"whiten\" is unknown");
}

}  // namespace
}  // namespace podium
