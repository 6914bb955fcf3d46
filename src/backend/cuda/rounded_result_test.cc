// Images in BF16 are written so by the kernels that make them, and read so, where images fill
// octets: no step rounds or widens them. Their bits are compared in backend/rounded_images_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/lowering.h"
#include "backend/image_makers_test_util.h"

namespace podium::cuda_emulated {
namespace {

TEST(RoundedResult, takes_no_step_of_its_own) {
  for (const std::int64_t images : {8, 24, 3})
    for (const ImageMaker& maker : image_makers(images))
      for (const ImageReaders& readers : kImageReaders) {
        const OperationCase c = image_case(maker, readers);
        const Program program = Lowering(c.graph).run();
        const auto rounds = [](const Step& step) {
          return step.name.starts_with("round ") || step.name.starts_with("widen ");
        };
        const bool is_product =
            maker.op == &conv2d_bf16_op || maker.op == &conv2d_bf16_grad_input_op;
        EXPECT_EQ(std::ranges::count_if(program.steps, rounds), images % 8 == 0 ? 0
                                                                : is_product    ? 2
                                                                                : 1)
            << maker.op->name << " " << maker.attributes.text() << ", " << images
            << (readers.operands_are_rounded ? ", of rounded ones" : "")
            << (readers.result_is_rounded ? ", rounded" : "")
            << (readers.read_as_floats ? ", read as floats" : "");
      }
}

}  // namespace
}  // namespace podium::cuda_emulated
