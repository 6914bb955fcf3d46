// Activations in BF16 are written so by the kernels that make them, and read so, where what lies
// side by side fills octets: no step rounds or widens them. Their bits are compared in
// backend/rounded_activations_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/activation_makers_test_util.h"
#include "backend/cuda/lowering/lowering.h"

namespace podium::cuda_emulated {
namespace {

// The steps that round or widen a value.
std::int64_t conversions(const OperationCase& c) {
  return std::ranges::count_if(Lowering(c.graph).run().steps, [](const Step& step) {
    return step.name.starts_with("round ") || step.name.starts_with("widen ");
  });
}

std::string text_of(const ActivationMaker& maker, const CaseReaders& readers) {
  return cat(maker.op->name, " ", maker.attributes.text(), ", ", to_string(maker.operands[0]),
             readers.operands_are_rounded ? ", of rounded ones" : "",
             readers.result_is_rounded ? ", rounded" : "",
             readers.read_as_floats ? ", read as floats" : "");
}

TEST(RoundedResult, of_images_takes_no_step_of_its_own) {
  for (const std::int64_t images : {8, 24, 3})
    for (const ActivationMaker& maker : image_makers(images))
      for (const CaseReaders& readers : kCaseReaders) {
        const bool is_product =
            maker.op == &conv2d_bf16_op || maker.op == &conv2d_bf16_grad_input_op;
        EXPECT_EQ(conversions(image_case(maker, readers)), images % 8 == 0 ? 0
                                                           : is_product    ? 2
                                                                           : 1)
            << text_of(maker, readers);
      }
}

// Nor are they turned.
TEST(RoundedResult, of_tokens_takes_no_step_of_its_own) {
  for (const std::int64_t columns : {16, 12})
    for (const ActivationMaker& maker : token_makers(columns))
      for (const CaseReaders& readers : kCaseReaders) {
        const OperationCase c = token_case(maker, readers);
        const Program program = Lowering(c.graph).run();
        EXPECT_TRUE(std::ranges::none_of(program.steps, [](const Step& step) {
          return step.name.starts_with("turn ");
        })) << text_of(maker, readers);
        EXPECT_EQ(conversions(c), 0) << text_of(maker, readers);
      }
}

// What products alone read is half as large as its floats.
TEST(RoundedResult, of_tokens_is_kept_in_halves) {
  for (const ActivationMaker& maker : token_makers(16)) {
    const Program program = Lowering(token_case(maker, {true, true, false}).graph).run();
    const auto made = std::ranges::find_if(
        program.steps, [](const Step& step) { return step.name.ends_with(" made"); });
    ASSERT_NE(made, program.steps.end());
    const std::int64_t columns = maker.op == &softmax_cross_entropy_grad_op ? 512 : 16;
    EXPECT_TRUE(std::ranges::any_of(made->writes, [&](lowering::Slot slot) {
      return program.slots[static_cast<std::size_t>(slot)].bytes == 14 * columns * 2;
    })) << maker.op->name;
  }
}

}  // namespace
}  // namespace podium::cuda_emulated
