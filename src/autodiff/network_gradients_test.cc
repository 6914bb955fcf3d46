// The gradients of a whole small network against those of the same network written once more, in
// double and without the graph: convolution, bias, batch norm, relu, a branch, dense, loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/gradients.h"
#include "backend/reference/reference_device.h"
#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

constexpr int kImages = 5, kIn = 2, kSize = 7, kOut = 3, kHalf = 4, kClasses = 4;
constexpr int kFeatures = kOut * kHalf * kHalf;
constexpr double kEpsilon = 1e-3, kSmoothing = 0.1;

using Numbers = std::vector<double>;

// The parameters in the order of the graph's inputs.
enum { kKernel, kBias, kGamma, kBeta, kDense, kParameters };
constexpr int kSizes[kParameters] = {kOut * kIn * 9, kOut, kOut, kOut, kClasses* kFeatures};

Numbers random_numbers(int count, std::uint32_t stream, double scale) {
  const PhiloxStream words(21, RandomPurpose::kInitialise, stream);
  Numbers numbers;
  for (int i = 0; i < count; ++i)
    numbers.push_back(static_cast<float>(
        scale * (2.0 * uniform01(words.word(static_cast<std::uint32_t>(i))) - 1)));
  return numbers;
}

int label(int n) { return n % kClasses; }

// The mean loss over the images.
double loss_in_double(const Numbers& x, const std::vector<Numbers>& p) {
  // 3x3, stride 2, `same`: 7 pixels give 4, one row and column of padding on every side.
  Numbers y(static_cast<std::size_t>(kImages * kFeatures));
  const auto at = [](int n, int k, int i, int j) {
    return static_cast<std::size_t>(((n * kOut + k) * kHalf + i) * kHalf + j);
  };
  for (int n = 0; n < kImages; ++n)
    for (int k = 0; k < kOut; ++k)
      for (int i = 0; i < kHalf; ++i)
        for (int j = 0; j < kHalf; ++j) {
          double sum = p[kBias][static_cast<std::size_t>(k)];
          for (int c = 0; c < kIn; ++c)
            for (int r = 0; r < 3; ++r)
              for (int s = 0; s < 3; ++s) {
                const int h = 2 * i + r - 1, w = 2 * j + s - 1;
                if (h < 0 || h >= kSize || w < 0 || w >= kSize) continue;
                sum += x[static_cast<std::size_t>(((n * kIn + c) * kSize + h) * kSize + w)] *
                       p[kKernel][static_cast<std::size_t>(((k * kIn + c) * 3 + r) * 3 + s)];
              }
          y[at(n, k, i, j)] = sum;
        }
  constexpr double kCount = kImages * kHalf * kHalf;
  for (int k = 0; k < kOut; ++k) {
    double mean = 0, variance = 0;
    const auto each = [&](const auto& visit) {
      for (int n = 0; n < kImages; ++n)
        for (int i = 0; i < kHalf * kHalf; ++i) visit(y[at(n, k, 0, i)]);
    };
    each([&](double& v) { mean += v / kCount; });
    each([&](double& v) { variance += (v - mean) * (v - mean) / kCount; });
    each([&](double& v) {
      const double normal =
          (v - mean) / std::sqrt(variance + kEpsilon) * p[kGamma][static_cast<std::size_t>(k)] +
          p[kBeta][static_cast<std::size_t>(k)];
      v = std::max(normal, 0.0) + 0.25 * normal;  // the branch: relu(z) + z / 4
    });
  }
  double loss = 0;
  for (int n = 0; n < kImages; ++n) {
    Numbers logits(kClasses, 0.0);
    double sum = 0;
    for (int c = 0; c < kClasses; ++c) {
      double& logit = logits[static_cast<std::size_t>(c)];
      for (int f = 0; f < kFeatures; ++f)
        logit += y[static_cast<std::size_t>(n * kFeatures + f)] *
                 p[kDense][static_cast<std::size_t>(c * kFeatures + f)];
      sum += std::exp(logit);
    }
    for (int c = 0; c < kClasses; ++c) {
      const double target = (c == label(n) ? 1 - kSmoothing : 0) + kSmoothing / kClasses;
      loss -= target * (logits[static_cast<std::size_t>(c)] - std::log(sum)) / kImages;
    }
  }
  return loss;
}

Tensor tensor_of(const TensorType& type, const Numbers& numbers) {
  Tensor tensor(type);
  for (std::size_t i = 0; i < numbers.size(); ++i) tensor.f32()[i] = static_cast<float>(numbers[i]);
  return tensor;
}

TEST(NetworkGradients, agree_with_finite_differences_in_double) {
  const Numbers x = random_numbers(kImages * kIn * kSize * kSize, 100, 1);
  std::vector<Numbers> p;
  for (int i = 0; i < kParameters; ++i)
    p.push_back(random_numbers(kSizes[i], static_cast<std::uint32_t>(i), i == kDense ? 0.3 : 1));

  Graph graph;
  const auto parameter = [&](const char* name, Shape shape) {
    return graph.input(name, {DType::kF32, std::move(shape)}, InputRole::kParameter);
  };
  const Shape image_shape{kImages, kIn, kSize, kSize};
  const Value images = graph.input("images", {DType::kF32, image_shape}, InputRole::kBatch);
  const Value labels = graph.input("labels", {DType::kI32, {kImages}}, InputRole::kBatch);
  const std::vector<Value> parameters = {
      parameter("kernel", {kOut, kIn, 3, 3}), parameter("bias", {kOut}), parameter("gamma", {kOut}),
      parameter("beta", {kOut}), parameter("dense", {kClasses, kFeatures})};
  Value y = conv2d(graph, images, parameters[kKernel], same_padding(image_shape, 3, 3, 2));
  y = bias_add(graph, y, parameters[kBias]);
  y = batch_norm(graph, y, parameters[kGamma], parameters[kBeta], static_cast<float>(kEpsilon)).y;
  y = add(graph, relu(graph, y), scale(graph, y, 0.25f));
  y = matmul(graph, flatten(graph, y), parameters[kDense], {.transpose_b = true});
  const Value losses = softmax_cross_entropy(graph, y, labels, static_cast<float>(kSmoothing));
  const Value seed = fill(graph, Shape{kImages}, 1.0f / kImages);
  const std::vector<Value> found = gradients(graph, losses, seed, parameters);
  graph.output("loss", batch_mean(graph, losses));
  for (std::size_t i = 0; i < found.size(); ++i) graph.output(cat("gradient", i), found[i]);
  graph.verify();

  std::vector<Tensor> inputs;
  inputs.push_back(tensor_of(graph.type(images), x));
  inputs.emplace_back(graph.type(labels));
  for (int n = 0; n < kImages; ++n) inputs.back().i32()[static_cast<std::size_t>(n)] = label(n);
  for (std::size_t i = 0; i < p.size(); ++i)
    inputs.push_back(tensor_of(graph.type(parameters[i]), p[i]));
  const std::vector<Tensor> results = interpret(graph, inputs);
  EXPECT_NEAR(results[0].f32()[0], loss_in_double(x, p), 1e-6);

  for (std::size_t i = 0; i < p.size(); ++i) {
    const Tensor& gradient = results[i + 1];
    ASSERT_EQ(gradient.type(), graph.type(parameters[i]));
    for (std::size_t k = 0; k < p[i].size(); ++k) {
      constexpr double kStep = 1e-6;
      const double here = p[i][k];
      p[i][k] = here + kStep;
      const double above = loss_in_double(x, p);
      p[i][k] = here - kStep;
      const double below = loss_in_double(x, p);
      p[i][k] = here;
      EXPECT_NEAR(gradient.f32()[k], (above - below) / (2 * kStep), 2e-6)
          << "parameter " << i << ", element " << k;
    }
  }
}

}  // namespace
}  // namespace podium
