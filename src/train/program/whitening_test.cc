#include "train/program/whitening.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "base/numerics/philox.h"
#include "data/pictures/image_set.h"
#include "data/pictures/prepare/prepared_pictures.h"

namespace podium {
namespace {

TEST(SymmetricEigen, of_a_diagonal_matrix_are_its_entries_by_rising_value) {
  const Eigen eigen = symmetric_eigen({3, 0, 0, 0, 1, 0, 0, 0, 2}, 3);
  EXPECT_EQ(eigen.values, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(eigen.vectors, (std::vector<double>{0, 1, 0, 0, 0, 1, 1, 0, 0}));
}

TEST(SymmetricEigen, solve_random_matrices_to_the_last_digits) {
  for (std::uint32_t trial = 0; trial < 20; ++trial) {
    const std::size_t n = 2 + trial % 12;
    const PhiloxStream words(5, RandomPurpose::kInitialise, trial);
    std::vector<double> a(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        a[i * n + j] = a[j * n + i] =
            uniform01(words.word(static_cast<std::uint32_t>(i * n + j))) - 0.5;
    const Eigen eigen = symmetric_eigen(a, n);
    for (std::size_t v = 0; v < n; ++v) {
      if (v > 0) {
        EXPECT_GE(eigen.values[v], eigen.values[v - 1]);
      }
      const double* x = eigen.vectors.data() + v * n;
      double length = 0;
      for (std::size_t i = 0; i < n; ++i) {
        double product = 0;
        for (std::size_t j = 0; j < n; ++j) product += a[i * n + j] * x[j];
        EXPECT_NEAR(product, eigen.values[v] * x[i], 1e-13);
        length += x[i] * x[i];
      }
      EXPECT_NEAR(length, 1, 1e-13);
    }
  }
}

TEST(WhiteningFilters, are_given_up_on_request) {
  const ImageSet set({1, 1, 2, 2, 2, "drawn"}, {1, 2, 3, 4}, {0});
  const PreparedPictures prepared_set(std::make_shared<const ImageSet>(set), {});
  const std::atomic<int> request{1};
  Parameter parameter;
  parameter.shape = Shape{2, 1, 1, 1};
  EXPECT_THROW(whitening_filters(parameter, prepared_set, StopToken(&request)), Stopped);
}

// Images of correlated channels: what the filters give has covariance eigenvalue / (eigenvalue +
// epsilon) in each direction and none between them.
TEST(WhiteningFilters, whiten_the_patches_of_the_training_set) {
  ImageSet set({60, 2, 6, 5, 2, "drawn"});
  const PhiloxStream words(6, RandomPurpose::kInitialise);
  std::uint32_t next = 0;
  for (std::int64_t n = 0; n < set.count; ++n) {
    std::vector<std::uint8_t> first;
    for (int i = 0; i < 30; ++i)
      first.push_back(static_cast<std::uint8_t>(words.word(next++) % 200));
    set.pixels.insert(set.pixels.end(), first.begin(), first.end());
    for (const std::uint8_t pixel : first)
      set.pixels.push_back(static_cast<std::uint8_t>(pixel / 2 + words.word(next++) % 60));
    set.labels.push_back(0);
  }
  const PreparedPictures prepared_set(std::make_shared<const ImageSet>(set), {});
  const Parameter parameter{.name = "whiten.weight",
                            .shape = {16, 2, 2, 2},
                            .initialiser = Initialiser::kWhitening,
                            .epsilon = 1e-12f};
  const Tensor weight = whitening_filters(parameter, prepared_set);
  std::vector<float> images(static_cast<std::size_t>(set.count * set.image_bytes()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(set.count));
  for (std::int64_t i = 0; i < set.count; ++i)
    prepared_set.read(i, nullptr, {images.data() + i * set.image_bytes(), labels.data() + i});
  std::vector<double> covariance(16 * 16);
  double patches = 0;
  for (std::int64_t n = 0; n < set.count; ++n)
    for (std::int64_t y = 0; y < 5; ++y)
      for (std::int64_t x = 0; x < 4; ++x, ++patches) {
        std::vector<double> out(16);
        for (std::size_t k = 0; k < 16; ++k)
          for (std::int64_t c = 0; c < 2; ++c)
            for (std::int64_t r = 0; r < 2; ++r)
              for (std::int64_t s = 0; s < 2; ++s)
                out[k] += static_cast<double>(
                              weight.f32()[k * 8 + static_cast<std::size_t>(c * 4 + r * 2 + s)]) *
                          images[static_cast<std::size_t>(((n * 2 + c) * 6 + y + r) * 5 + x + s)];
        for (std::size_t i = 0; i < 16; ++i)
          for (std::size_t j = 0; j < 16; ++j) covariance[i * 16 + j] += out[i] * out[j];
      }
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j)
      EXPECT_NEAR(covariance[i * 16 + j] / patches, i == j ? 1 : i % 8 == j % 8 ? -1 : 0, 1e-4);
}

}  // namespace
}  // namespace podium
