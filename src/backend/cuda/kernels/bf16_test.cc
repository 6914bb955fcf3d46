// Products of BF16 operands, on the emulation, in every tile that shapes choose: beside the
// contract of BF16 within rounding, the same bits in every order of the threads, and the same for a
// replica alone and beside others.
#include "backend/cuda/kernels/bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/emulated.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "ops/ops.h"

namespace podium::cuda_emulated {
namespace {

struct Layer {
  std::int64_t images, channels, size, filters, kernel;
};

OperationCase case_of(const OpDef& op, const Layer& s) {
  const Shape x{s.images, s.channels, s.size, s.size}, y{s.images, s.filters, s.size, s.size},
      w{s.filters, s.channels, s.kernel, s.kernel};
  Conv2dAttributes a = same_padding(x, s.kernel, s.kernel, 1);
  const bool to_input = op.kind == OpKind::kConv2dBf16GradInput,
             to_weights = op.kind == OpKind::kConv2dBf16GradWeight;
  if (to_input) a.extent_h = a.extent_w = s.size;
  if (to_weights) a.extent_h = a.extent_w = s.kernel;
  OperationCase c;
  std::vector<Value> operands;
  for (const Shape& shape : {to_input ? y : x, to_weights ? y : w}) {
    const TensorType type{DType::kF32, shape};
    operands.push_back(c.graph.input(cat("input", operands.size()), type, InputRole::kBatch));
    c.inputs.push_back(random_operand(type, static_cast<std::uint32_t>(operands.size()), 1));
  }
  c.graph.output("output", c.graph.add(op, a, operands, "product")[0]);
  c.graph.verify();
  return c;
}

class Bf16Products : public testing::Test {
 protected:
  Bf16Products() {
    register_cuda_emulated_backend();
    device_ = make_device("cuda-emulated");
  }
  ~Bf16Products() override { set_cuda_thread_order("forward"); }

  void expect_contract(const OpDef& op, const Layer& layer) {
    const OperationCase c = case_of(op, layer);
    const Tensor expected = interpret(c.graph, c.inputs)[0];
    double largest = 0;
    for (const float v : expected.f32()) largest = std::max(largest, std::fabs(double{v}));
    const Tensor forward = run_case(*device_, c, {})[0];
    for (std::size_t i = 0; i < forward.f32().size(); ++i)
      ASSERT_NEAR(forward.f32()[i], expected.f32()[i], device_->traits().bf16_tolerance * largest)
          << op.name << " element " << i;
    set_cuda_thread_order("shuffled");
    EXPECT_EQ(first_difference(run_case(*device_, c, {})[0], forward), "") << op.name;
    set_cuda_thread_order("forward");
  }

  std::unique_ptr<Device> device_;
};

TEST_F(Bf16Products, follow_the_contract_in_the_tiles_of_any_number_of_outputs) {
  for (const std::int64_t filters : {16, 24, 40, 72})
    for (const OpDef* op :
         {&conv2d_bf16_op, &conv2d_bf16_grad_input_op, &conv2d_bf16_grad_weight_op})
      expect_contract(*op, {24, op == &conv2d_bf16_grad_input_op ? filters : 32, 3,
                            op == &conv2d_bf16_grad_input_op ? 32 : filters, 3});
}

TEST_F(Bf16Products, follow_the_contract_in_the_largest_tiles) {
  expect_contract(conv2d_bf16_op, {512, 1, 8, 72, 1});  // many columns
  expect_contract(conv2d_bf16_op, {512, 1, 6, 60, 1});
  g_bf16_many_slices = 2;
  expect_contract(conv2d_bf16_grad_weight_op, {40, 30, 4, 72, 3});
  g_bf16_many_slices = 128;
}

TEST_F(Bf16Products, follow_the_contract_with_images_and_channels_that_fill_no_octet) {
  for (const OpDef* op : {&conv2d_bf16_op, &conv2d_bf16_grad_input_op, &conv2d_bf16_grad_weight_op})
    for (const Layer& layer :
         {Layer{5, 3, 6, 20, 3}, Layer{11, 33, 4, 7, 3}, Layer{37, 2, 5, 9, 1}})
      expect_contract(*op, layer);
}

}  // namespace
}  // namespace podium::cuda_emulated
