#include "train/program/whitening.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace podium {
namespace {

constexpr std::int64_t kWhitenedImages = 5000, kBatch = 100;

Field images_field(const Source& set) {
  const std::vector<Field> fields = set.fields();
  PODIUM_REQUIRE(!fields.empty() && fields[0].shape.rank() == 3 && fields.size() == 2,
                 ExitCode::kUsage, "a convolution that whitens starts from images, and ",
                 set.origin(), " has ", to_text(fields), "; use another first layer");
  return fields[0];
}

// The sum over all patches of the products of their values i and j <= i.
std::vector<double> patch_products(const Shape& weight, const Source& set, StopToken stop) {
  const Shape image = images_field(set).shape;
  const std::int64_t channels = image[0], height = image[1], width = image[2];
  const std::int64_t kernel_h = weight[2], kernel_w = weight[3], values = weight.elements_from(1);
  const std::int64_t images = std::min(kWhitenedImages, set.examples()), plane = height * width;
  std::vector<std::int64_t> offsets;  // of a patch's values from its corner
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t r = 0; r < kernel_h; ++r)
      for (std::int64_t s = 0; s < kernel_w; ++s) offsets.push_back(c * plane + r * width + s);

  const auto n = static_cast<std::size_t>(values);
  std::vector<double> sums(n * n), patch(n);
  std::vector<float> pixels(static_cast<std::size_t>(kBatch * image.elements()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(kBatch));
  for (std::int64_t first = 0; first < images; first += kBatch) {
    const std::int64_t count = std::min(kBatch, images - first);
    stop.check();
    for (std::int64_t i = 0; i < count; ++i)
      set.read(first + i, nullptr, {pixels.data() + i * image.elements(), labels.data() + i});
    for (std::int64_t example = 0; example < count; ++example) {
      for (std::int64_t y = 0; y + kernel_h <= height; ++y) {
        for (std::int64_t x = 0; x + kernel_w <= width; ++x) {
          const float* corner = pixels.data() + example * image.elements() + y * width + x;
          for (std::size_t i = 0; i < n; ++i) patch[i] = corner[offsets[i]];
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j <= i; ++j) sums[i * n + j] += patch[i] * patch[j];
        }
      }
    }
  }
  const std::int64_t patches = images * (height - kernel_h + 1) * (width - kernel_w + 1);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      sums[i * n + j] /= static_cast<double>(patches);
      sums[j * n + i] = sums[i * n + j];
    }
  }
  return sums;
}

}  // namespace

Eigen symmetric_eigen(std::vector<double> a, std::size_t n) {
  std::vector<double> v(n * n);
  for (std::size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  constexpr int kSweeps = 60;  // quadratic convergence: ten do for any matrix that is met
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double off = 0, all = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) (i == j ? all : off) += a[i * n + j] * a[i * n + j];
    if (off <= all * 1e-30) break;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        // The rotation that makes a[p, q] zero.
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (std::size_t k = 0; k < n; ++k) {
          const double kp = a[k * n + p], kq = a[k * n + q];
          a[k * n + p] = c * kp - s * kq;
          a[k * n + q] = s * kp + c * kq;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double pk = a[p * n + k], qk = a[q * n + k];
          a[p * n + k] = c * pk - s * qk;
          a[q * n + k] = s * pk + c * qk;
        }
        for (std::size_t k = 0; k < n; ++k) {
          const double pk = v[p * n + k], qk = v[q * n + k];
          v[p * n + k] = c * pk - s * qk;
          v[q * n + k] = s * pk + c * qk;
        }
      }
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return a[i * n + i]; });
  Eigen result;
  for (const std::size_t i : order) {
    result.values.push_back(a[i * n + i]);
    const auto row = v.begin() + static_cast<std::ptrdiff_t>(i * n);
    const auto largest =
        std::max_element(row, row + static_cast<std::ptrdiff_t>(n),
                         [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double sign = *largest < 0 ? -1 : 1;
    for (std::size_t k = 0; k < n; ++k)
      result.vectors.push_back(sign * row[static_cast<std::ptrdiff_t>(k)]);
  }
  return result;
}

Tensor whitening_filters(const Parameter& parameter, const Source& set, StopToken stop) {
  const Shape& shape = parameter.shape;
  PODIUM_CHECK(shape.rank() == 4 && shape[1] == images_field(set).shape[0] &&
                   shape[0] == 2 * shape.elements_from(1),
               parameter.name, " ", to_string(shape));
  const auto n = static_cast<std::size_t>(shape.elements_from(1));
  const Eigen eigen = symmetric_eigen(patch_products(shape, set, stop), n);
  Tensor weight(DType::kF32, shape);
  for (std::size_t i = 0; i < n; ++i) {
    // Rounding may leave an eigenvalue of 0 a little below it.
    const double root =
        std::sqrt(std::max(eigen.values[i], 0.0) + static_cast<double>(parameter.epsilon));
    for (std::size_t k = 0; k < n; ++k) {
      const auto value = static_cast<float>(eigen.vectors[i * n + k] / root);
      weight.f32()[i * n + k] = value;
      weight.f32()[(n + i) * n + k] = -value;
    }
  }
  return weight;
}

}  // namespace podium
