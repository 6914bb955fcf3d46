#include "backend/cpu/kernels/products/pack.h"

#include <cmath>

#include "backend/cpu/kernels/kernel_test_util.h"

namespace podium::cpu {
namespace {

TEST(Pack, lanes_and_back_for_every_count_of_images) {
  for_each_target([](const std::string& target) {
    Random random(1);
    for (const std::int64_t images : kImageCounts) {
      for (const std::int64_t features : {1, 5, 16, 33, 784}) {
        const std::string what = cat(target, " N ", images, " F ", features);
        const Floats plain = random.numbers(images * features);
        Guarded lanes(padded(images) * features);
        run_parts(pack_lanes_parts(images, features), [&](int part) {
          pack_lanes(images, features, plain.data(), lanes.data(), part);
        });
        Floats want = to_lanes(plain, images);
        for (float& x : want) x = std::isnan(x) ? 0.0f : x;
        const Floats got = lanes.take(what);
        expect_same(got, want, what);

        Guarded back(images * features);
        run_parts(unpack_lanes_parts(images, features),
                  [&](int part) { unpack_lanes(images, features, got.data(), back.data(), part); });
        expect_same(back.take(what), plain, what);

        Guarded rows(rows_floats(images, features));
        run_parts(lanes_to_rows_parts(images, features), [&](int part) {
          lanes_to_rows(images, features, got.data(), rows.data(), part);
        });
        const Floats all = rows.take(what);
        for (std::int64_t n = 0; n < images; ++n) {
          for (std::int64_t f = 0; f < features; ++f) {
            ASSERT_EQ(all[(f / kLanes * padded(images) + n) * kLanes + f % kLanes],
                      plain[n * features + f])
                << what;
          }
        }
      }
    }
  });
}

TEST(Pack, labels_are_padded_with_no_class) {
  const std::vector<std::int32_t> labels = {3, 1, 4, 1, 5};
  std::vector<std::int32_t> lanes(16, 7);
  pack_labels(5, labels.data(), lanes.data());
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(lanes[i], i < 5 ? labels[i] : -1);
}

}  // namespace
}  // namespace podium::cpu
