#include "backend/cpu/kernels/loss.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/dropout.h"
#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/products/pack.h"
#include "base/numerics/functions.h"
#include "base/numerics/philox.h"

namespace podium::cpu {
namespace {

using Labels = std::vector<std::int32_t>;

Labels lanes_of(const Labels& labels) {
  Labels out(static_cast<std::size_t>(padded(static_cast<std::int64_t>(labels.size()))));
  pack_labels(static_cast<std::int64_t>(labels.size()), labels.data(), out.data());
  return out;
}

struct ExpectedLoss {
  Floats loss, dz;
};
ExpectedLoss loss_of(const SoftmaxShape& s, const Floats& z, const Labels& labels, float g) {
  ExpectedLoss out;
  const float a = s.smoothing, classes = static_cast<float>(s.classes);
  for (std::int64_t n = 0; n < s.images; ++n) {
    const float* row = z.data() + n * s.classes;
    const float max = *std::max_element(row, row + s.classes);
    Floats d, e;
    for (std::int64_t k = 0; k < s.classes; ++k) {
      d.push_back(row[k] - max);
      e.push_back(exp_f32(d.back()));
    }
    const float sum = image_sum_of(e), own = d[labels[n]];
    out.loss.push_back(a == 0
                           ? log_f32(sum) - own
                           : log_f32(sum) - std::fma(1 - a, own, (a / classes) * image_sum_of(d)));
    for (std::int64_t k = 0; k < s.classes; ++k) {
      const float t = (k == labels[n] ? 1 - a : 0.0f) + a / classes;
      out.dz.push_back((e[k] / sum - t) * g);
    }
  }
  return out;
}

void check_loss(const SoftmaxShape& s, float spread, unsigned seed, const std::string& target) {
  const std::string what = cat(target, " N ", s.images, " K ", s.classes, " a ", s.smoothing);
  Random random(seed);
  Floats z = random.numbers(s.images * s.classes);
  for (float& x : z) x *= spread;
  Labels labels;
  for (std::int64_t n = 0; n < s.images; ++n) {
    labels.push_back(static_cast<std::int32_t>(random.pick(0, s.classes - 1)));
  }
  const ExpectedLoss want = loss_of(s, z, labels, 1.0f / 256);
  const Floats z_lanes = to_lanes(z, s.images);
  const Labels label_lanes = lanes_of(labels);
  Guarded loss(padded(s.images)), both(padded(s.images)), dz(padded(s.images) * s.classes);
  run_parts(softmax_cross_entropy_parts(s), [&](int part) {
    softmax_cross_entropy(s, z_lanes.data(), label_lanes.data(), loss.data(), part);
    softmax_cross_entropy_grad(s, z_lanes.data(), label_lanes.data(), 1.0f / 256, both.data(),
                               dz.data(), part);
  });
  const Floats losses = loss.take(what);
  expect_same(from_lanes(losses, s.images), want.loss, what + " loss");
  expect_same(from_lanes(both.take(what), s.images), want.loss, what + " loss beside gradient");
  expect_same(from_lanes(dz.take(what), s.images), want.dz, what + " dz");
  Guarded alone(padded(s.images) * s.classes);
  run_parts(softmax_cross_entropy_parts(s), [&](int part) {
    softmax_cross_entropy_grad(s, z_lanes.data(), label_lanes.data(), 1.0f / 256, nullptr,
                               alone.data(), part);
  });
  expect_same(from_lanes(alone.take(what), s.images), want.dz, what + " dz alone");

  Floats padded_losses = to_lanes(want.loss, s.images);
  Guarded mean(1);
  batch_mean(s.images, padded_losses.data(), mean.data());
  expect_same(mean.take(what), {image_sum_of(want.loss) / static_cast<float>(s.images)}, what);
}

TEST(Loss, equals_the_contract_for_every_count_of_images_and_classes) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t images : kImageCounts) {
      for (const std::int64_t classes : {1, 2, 10, 16, 17, 100}) {
        for (const float smoothing : {0.0f, 0.2f}) {
          check_loss({images, classes, smoothing}, 3, static_cast<unsigned>(images), target);
        }
      }
    }
    check_loss({32, 10, 0}, 100, 1, target);
    check_loss({32, 10, 0}, 1e-6f, 2, target);
  });
}

TEST(Loss, nan_logits_give_a_nan_loss_for_their_image_alone) {
  for_each_target([](const std::string& target) {
    Random random(1);
    Floats z = random.numbers(3 * 4);
    z[5] = kNan;
    const Floats lanes = to_lanes(z, 3);
    const Labels labels = lanes_of({0, 0, 3});
    Floats loss(16), dz(4 * 16);
    softmax_cross_entropy_grad({3, 4, 0}, lanes.data(), labels.data(), 1, loss.data(), dz.data(),
                               0);
    EXPECT_TRUE(std::isnan(loss[1])) << target;
    EXPECT_TRUE(std::isnan(dz[1])) << target;
    EXPECT_FALSE(std::isnan(loss[0]) || std::isnan(loss[2])) << target;
  });
}

TEST(Loss, correct_counts_the_first_of_equals_and_never_a_nan) {
  for_each_target([](const std::string& target) {
    const auto count = [&](const Floats& z, const Labels& labels) {
      const auto images = static_cast<std::int64_t>(labels.size());
      std::int32_t result = -1;
      correct(images, static_cast<std::int64_t>(z.size()) / images, to_lanes(z, images).data(),
              lanes_of(labels).data(), &result);
      return result;
    };
    EXPECT_EQ(count({1, 3, 2}, {1}), 1) << target;
    EXPECT_EQ(count({1, 3, 2}, {2}), 0);
    EXPECT_EQ(count({3, 3, 2}, {0}), 1);
    EXPECT_EQ(count({3, 3, 2}, {1}), 0);
    EXPECT_EQ(count({0.0f, -0.0f}, {0}), 1);
    EXPECT_EQ(count({kNan, 3, 2}, {0}), 0);
    EXPECT_EQ(count({1, 3, kNan}, {1}), 0);
    EXPECT_EQ(count({kNan}, {0}), 0);
    EXPECT_EQ(count({5}, {0}), 1);
    EXPECT_EQ(count({1, 3, 2}, {-1}), 0);

    Random random(2);
    for (const std::int64_t images : kImageCounts) {
      Floats z;
      Labels labels;
      std::int32_t want = 0;
      for (std::int64_t n = 0; n < images; ++n) {
        Floats row;
        for (int k = 0; k < 10; ++k) row.push_back(static_cast<float>(random.pick(0, 20)));
        labels.push_back(static_cast<std::int32_t>(random.pick(0, 9)));
        want += std::max_element(row.begin(), row.end()) - row.begin() == labels.back() ? 1 : 0;
        z.insert(z.end(), row.begin(), row.end());
      }
      EXPECT_EQ(count(z, labels), want) << target << " " << images;
    }
  });
}

TEST(Dropout, masks_follow_the_philox_stream) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t images : kImageCounts) {
      for (const std::int64_t features : {1, 3, 4, 10, 200}) {
        const DropoutShape s{images, features, features == 200 ? 0.5f : 0.3f};
        const PhiloxStream stream(0x123456789abcdefull, RandomPurpose::kDropout, 3);
        const auto threshold =
            static_cast<std::uint32_t>(std::floor(static_cast<double>(s.rate) * 4294967296.0));
        Floats want;
        for (std::int64_t n = 0; n < images; ++n) {
          for (std::int64_t f = 0; f < features; ++f) {
            const std::uint32_t word = stream.word(static_cast<std::uint32_t>(f),
                                                   1000u + static_cast<std::uint32_t>(n), 77);
            want.push_back(word >= threshold ? 1 / (1 - s.rate) : 0.0f);
          }
        }
        Guarded mask(padded(images) * features);
        run_parts(dropout_mask_parts(s), [&](int part) {
          dropout_mask(s, 0x123456789abcdefull, 3, 77, 1000, mask.data(), part);
        });
        expect_same(from_lanes(mask.take(target), images), want, target);
      }
    }
  });
}

TEST(Dropout, a_rate_of_zero_keeps_everything) {
  Floats mask(16 * 8);
  dropout_mask({16, 8, 0}, 1, 2, 3, 4, mask.data(), 0);
  for (const float x : mask) EXPECT_EQ(x, 1);
}

TEST(Loss, argmax_is_the_first_of_equals_and_minus_one_for_a_nan) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t images : kImageCounts) {
      for (const std::int64_t classes : {1, 2, 10, 100}) {
        Random random(static_cast<unsigned>(images * classes));
        Floats z = random.numbers(images * classes);
        for (float& x : z) x = std::round(x);  // many are equal
        if (images > 2) z[2 * classes + classes / 2] = kNan;
        Labels want;
        for (std::int64_t n = 0; n < images; ++n) {
          const auto row = z.begin() + n * classes;
          want.push_back(
              std::any_of(row, row + classes, [](float x) { return std::isnan(x); })
                  ? -1
                  : static_cast<std::int32_t>(std::max_element(row, row + classes) - row));
        }
        const Floats lanes = to_lanes(z, images);
        Labels got(static_cast<std::size_t>(images) + 1, 77);
        run_parts(argmax_parts(images, classes),
                  [&](int part) { argmax(images, classes, lanes.data(), got.data(), part); });
        EXPECT_EQ(got.back(), 77) << "wrote behind its output";
        got.pop_back();
        EXPECT_EQ(got, want) << target << " N " << images << " K " << classes;
      }
    }
  });
}

}  // namespace
}  // namespace podium::cpu
