#include "backend/cpu/kernels/planes/pool.h"

#include <initializer_list>

#include "backend/cpu/kernels/kernel_test_util.h"

namespace podium::cpu {
namespace {

// One plane of 4 x 5 pixels in 2 x 2 windows: the last column lies in none.
constexpr PoolShape kShape{{1, 1, 4, 5}, 2, 2};

// Lane 0 of a plane of so many pixels.
Floats plane(std::initializer_list<float> pixels) {
  Floats out;
  for (const float pixel : pixels) out.insert(out.end(), kLanes, pixel);
  return out;
}
Floats first_lane(const Floats& values) {
  Floats out;
  for (std::size_t i = 0; i < values.size(); i += kLanes) out.push_back(values[i]);
  return out;
}

const Floats kImage = plane({1,    5,    -2,    -2,    9,  //
                             5,    2,    -2,    -3,    9,  //
                             kNan, 1,    0.0f,  -0.0f, 9,  //
                             7,    kNan, -0.0f, 0.0f,  9});

TEST(Pool, of_equals_the_first_is_the_largest_and_nan_is_larger_than_all) {
  for_each_target([](const std::string& target) {
    Floats y(4 * kLanes), place(4 * kLanes), dx(20 * kLanes, 3.0f), led(20 * kLanes, 3.0f);
    run_parts(pool_parts(kShape),
              [&](int part) { max_pool(kShape, kImage.data(), y.data(), nullptr, part); });
    expect_same(first_lane(y), Floats{5, -2, kNan, 0.0f}, target);
    run_parts(pool_parts(kShape),
              [&](int part) { max_pool(kShape, kImage.data(), y.data(), place.data(), part); });
    expect_same(first_lane(y), Floats{5, -2, kNan, 0.0f}, target);
    expect_same(first_lane(place), Floats{1, 0, 3, 0}, target);
    const Floats dy = plane({10, 20, 30, 40});
    run_parts(pool_parts(kShape),
              [&](int part) { max_pool_grad(kShape, dy.data(), kImage.data(), dx.data(), part); });
    expect_same(first_lane(dx), Floats{0, 10, 20, 0, 0,  //
                                       0, 0,  0,  0, 0,  //
                                       0, 0,  40, 0, 0,  //
                                       0, 30, 0,  0, 0},
                target);
    run_parts(pool_parts(kShape), [&](int part) {
      max_pool_grad_at(kShape, dy.data(), place.data(), led.data(), part);
    });
    expect_same(led, dx, target);
  });
}

TEST(Pool, a_mean_gives_and_takes_equal_shares) {
  for_each_target([](const std::string& target) {
    const Floats x = plane({1, 2, 3, 4, 9, 5, 6, 7, 8, 9, 1, 1, 1, 1, 9, 1, 1, 1, -3, 9});
    Floats y(4 * kLanes), dx(20 * kLanes, 3.0f);
    run_parts(pool_parts(kShape),
              [&](int part) { avg_pool(kShape, 0.25f, x.data(), y.data(), part); });
    expect_same(first_lane(y), Floats{3.5f, 5.5f, 1, 0}, target);
    const Floats dy = plane({4, 8, 12, 16});
    run_parts(pool_parts(kShape),
              [&](int part) { avg_pool_grad(kShape, 0.25f, dy.data(), dx.data(), part); });
    expect_same(first_lane(dx), Floats{1, 1, 2, 2, 0, 1, 1, 2, 2, 0, 3, 3, 4, 4, 0, 3, 3, 4, 4, 0},
                target);
  });
}

}  // namespace
}  // namespace podium::cpu
