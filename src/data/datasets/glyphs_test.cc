#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>

#include "data/datasets/dataset.h"
#include "data/pictures/picture_loader_test_util.h"
#include "files/checksum.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

ImageSet glyphs(Split split, std::int64_t count, std::uint64_t seed = 0) {
  DatasetOptions options;
  options.seed = seed;
  options.train_examples = count;
  options.test_examples = count;
  return load_dataset("glyphs", split, options);
}

template <typename T>
bool starts_with(const std::vector<T>& all, const std::vector<T>& start) {
  return all.size() >= start.size() && std::equal(start.begin(), start.end(), all.begin());
}

// The bytes are part of what a recipe means: they hold on every machine.
TEST(Glyphs, have_the_recorded_bytes) {
  EXPECT_EQ(sha256(glyphs(Split::kTrain, 500).pixels),
            "0f0cb10a5e397afec14881a2a01496c78e24d92e454008c3ada26c221deb9075");
  const ImageSet set = glyphs(Split::kTrain, 500);
  EXPECT_EQ(sha256(Bytes(set.labels.begin(), set.labels.end())),
            "0143383254435bd6a12694ddbb8e990f8ec633a7bb9c7cb87c48c55137c65668");
  EXPECT_EQ(sha256(glyphs(Split::kTest, 500, 0x123456789ABCDEFull).pixels),
            "4a4f2aecc752a16243f1b1ae54cc9d1e064e54e761e49aa0d908e82659fb8784");
}

TEST(Glyphs, are_a_function_of_seed_split_and_example_alone) {
  const ImageSet few = glyphs(Split::kTrain, 100);
  const ImageSet many = glyphs(Split::kTrain, 5000);  // drawn by several threads
  EXPECT_TRUE(starts_with(many.pixels, few.pixels));
  EXPECT_TRUE(starts_with(many.labels, few.labels));
  EXPECT_NE(glyphs(Split::kTest, 100).pixels, few.pixels);
  EXPECT_NE(glyphs(Split::kTrain, 100, 1).pixels, few.pixels);
}

TEST(Glyphs, are_of_all_classes_about_equally_often) {
  const ImageSet set = glyphs(Split::kTrain, 10000);
  std::array<int, 10> counts{};
  for (const std::int32_t label : set.labels) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);  // five deviations
}

TEST(Glyphs, are_given_up_on_request) {
  const std::atomic<int> request{1};
  EXPECT_THROW(load_dataset("glyphs", Split::kTrain, {.stop = StopToken(&request)}), Stopped);
}

TEST(Glyphs, default_to_as_many_as_mnist) {
  const ImageSet set = load_dataset("glyphs", Split::kTest);
  EXPECT_EQ(set.count, 10000);
  EXPECT_EQ(set.image_bytes(), 784);
}

TEST(Glyphs, refuse_an_impossible_count) {
  EXPECT_CONTAINS(data_error([] { glyphs(Split::kTrain, -1); }), "train_examples is -1");
}

// A linear softmax model, by stochastic gradient descent.
double linear_accuracy(const std::shared_ptr<const ImageSet>& train,
                       const std::shared_ptr<const ImageSet>& test, int epochs) {
  constexpr std::size_t kPixels = 784;
  constexpr std::size_t kClasses = 10;
  std::vector<float> weights((kPixels + 1) * kClasses, 0.0f);  // the last row: the bias
  const auto scores = [&](const float* image) {
    std::array<float, kClasses> z{};
    std::copy_n(weights.end() - kClasses, kClasses, z.begin());
    for (std::size_t i = 0; i < kPixels; ++i) {
      for (std::size_t k = 0; k < kClasses; ++k) z[k] += image[i] * weights[i * kClasses + k];
    }
    return z;
  };
  std::vector<float> image(kPixels);
  std::int32_t label = 0;
  PictureLoaderOptions one_at_a_time;
  const PictureLoader loader(train, one_at_a_time);
  for (std::int64_t step = 0; step < epochs * train->count; ++step) {
    loader.examples(step, 0, 1, image.data(), &label);
    std::array<float, kClasses> z = scores(image.data());
    const float top = *std::max_element(z.begin(), z.end());
    float sum = 0;
    for (float& v : z) sum += v = std::exp(v - top);
    const float rate =
        0.005f * (1.0f - static_cast<float>(step) / static_cast<float>(epochs * train->count));
    for (std::size_t k = 0; k < kClasses; ++k) {
      z[k] = rate * (z[k] / sum - (static_cast<std::size_t>(label) == k ? 1.0f : 0.0f));
    }
    for (std::size_t i = 0; i <= kPixels; ++i) {
      const float x = i < kPixels ? image[i] : 1.0f;
      for (std::size_t k = 0; k < kClasses; ++k) weights[i * kClasses + k] -= x * z[k];
    }
  }
  const PictureLoader tester(test, one_at_a_time);
  int right = 0;
  for (std::int64_t i = 0; i < test->count; ++i) {
    tester.in_order(i, 1, image.data(), &label);
    const std::array<float, kClasses> z = scores(image.data());
    right += std::max_element(z.begin(), z.end()) - z.begin() == label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test->count);
}

TEST(Glyphs, are_beyond_a_linear_model) {
  const auto train = std::make_shared<const ImageSet>(glyphs(Split::kTrain, 10000));
  const auto test = std::make_shared<const ImageSet>(glyphs(Split::kTest, 2000));
  const double accuracy = linear_accuracy(train, test, 3);
  EXPECT_GT(accuracy, 0.5);  // it did learn
  EXPECT_LT(accuracy, 0.85);
}

}  // namespace
}  // namespace podium
