#include "backend/cpu/kernels/view.h"

#include "backend/cpu/kernels/kernel_test_util.h"

namespace podium::cpu {
namespace {

TEST(ViewKernel, copies_the_pixels_that_the_view_names_in_both_layouts) {
  Random random(1);
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {2, 2}, {3, 2}, {5, 17}, {32, 32}}) {
    for (std::int64_t index = 0; index < (height > 1 && width > 1 ? 6 : 2); ++index) {
      for (const bool lanes : {false, true}) {
        const ViewShape shape{.planes = 37, .height = height, .width = width, .lanes = lanes};
        const ViewPixels pixels(index);
        const std::int64_t wide = lanes ? kLanes : 1, plane = height * width * wide;
        const Floats x = random.numbers(shape.planes * plane);
        Floats want;
        for (std::int64_t p = 0; p < shape.planes; ++p)
          for (std::int64_t i = 0; i < height; ++i)
            for (std::int64_t j = 0; j < width; ++j)
              for (std::int64_t k = 0; k < wide; ++k)
                want.push_back(x[static_cast<std::size_t>(
                    p * plane + (pixels.row(i, height) * width + pixels.column(j, width)) * wide +
                    k)]);
        const std::string what = cat(height, " x ", width, " view ", index, lanes ? " lanes" : "");
        Guarded y(shape.planes * plane);
        run_parts(view_parts(shape),
                  [&](int part) { view(shape, pixels, x.data(), y.data(), part); });
        expect_same(y.take(what), want, what);
      }
    }
  }
}

}  // namespace
}  // namespace podium::cpu
