// Products of BF16 operands, on the emulation, in every tile that shapes choose: the bits of the
// contract in both orders of tensor cores, in every order of the threads. And whether tensor cores
// that keep another rule are found out.
#include "backend/cuda/kernels/bf16.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_device.h"
#include "backend/cuda/emulated/emulated.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/tensor_cores.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "ops/ops.h"

namespace podium::cuda_emulated {
namespace {

struct Layer {
  std::int64_t images, channels, size, filters, kernel;
};

OperationCase case_of(const OpDef& op, const Layer& s, Bf16Order order) {
  const Shape x{s.images, s.channels, s.size, s.size}, y{s.images, s.filters, s.size, s.size},
      w{s.filters, s.channels, s.kernel, s.kernel};
  Conv2dAttributes a = same_padding(x, s.kernel, s.kernel, 1);
  a.order = order;
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
  Bf16Products() { register_cuda_emulated_backend(); }
  ~Bf16Products() override {
    set_cuda_thread_order("forward");
    set_cuda_capability(9, 0);
  }

  static void expect_contract(const OpDef& op, const Layer& layer) {
    // By warps and by warpgroups.
    for (const auto& [major, order] :
         {std::pair{8, Bf16Order::kAmpere}, std::pair{9, Bf16Order::kHopper}}) {
      set_cuda_capability(major, 0);
      const auto device = make_device("cuda-emulated");
      const OperationCase c = case_of(op, layer, order);
      const Tensor expected = interpret(c.graph, c.inputs)[0];
      for (const char* threads : {"forward", "shuffled"}) {
        set_cuda_thread_order(threads);
        EXPECT_EQ(first_difference(run_case(*device, c, {})[0], expected), "")
            << op.name << " " << major << " " << name_of(order) << " " << threads;
      }
    }
  }
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

TEST_F(Bf16Products, of_operands_that_are_too_large_are_refused_in_the_plan) {
  const auto refusal = [](const Shape& x, const Shape& w) -> std::string {
    Graph graph;
    Conv2dAttributes a = same_padding(x, 1, 1, 1);
    a.order = Bf16Order::kHopper;
    graph.output("y", graph.add1(conv2d_bf16_op, a,
                                 {graph.input("x", {DType::kF32, x}, InputRole::kBatch),
                                  graph.input("w", {DType::kF32, w}, InputRole::kParameter)},
                                 "conv1"));
    try {
      make_device("cuda-emulated")->plan(graph, {});
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  };
  const Shape w{8, 1 << 10, 1, 1};
  EXPECT_EQ(refusal({1 << 13, 1 << 10, 16, 15}, w), "");
  const std::string text = refusal({1 << 13, 1 << 10, 16, 16}, w);
  EXPECT_NE(text.find("conv1: an operand [8192, 1024, 16, 16] is too large for BF16 on a GPU"),
            std::string::npos)
      << text;
  EXPECT_NE(refusal({1, 1 << 10, 1, 1 << 15}, w), "");
}

TEST_F(Bf16Products, of_warpgroups_are_those_of_warps_in_every_order_of_the_threads) {
  const Stream stream = runtime::make_stream();
  for (const char* threads : {"forward", "reverse", "shuffled"}) {
    set_cuda_thread_order(threads);
    const WarpgroupProbe probe = probe_warpgroups(stream, {.major = 9, .minor = 0});
    EXPECT_EQ(probe.sums, 2 * 128 * (128 + 256));
    EXPECT_EQ(probe.differences, 0) << threads;
  }
  // Another GPU has none, nor has a program for 9.0 that was not made for all of it.
  EXPECT_EQ(probe_warpgroups(stream, {.major = 10, .minor = 0}).sums, 0);
  set_cuda_code_version(80);
  EXPECT_EQ(probe_warpgroups(stream, {.major = 9, .minor = 0}).sums, 0);
  set_cuda_code_version(90);
  runtime::destroy_stream(stream);
}

TEST_F(Bf16Products, are_exact_on_tensor_cores_that_keep_the_rule_and_on_no_others) {
  for (const int major : {8, 9}) {
    for (const bool odd : {false, true}) {
      set_cuda_capability(major, 0, odd);
      const Bf16Support support = make_device("cuda-emulated")->bf16();
      EXPECT_EQ(support.orders.empty(), odd);
      EXPECT_EQ(support.family, odd ? cat("sm_", major, 0) : "");
    }
  }
  // One that adds as GPUs of another capability do.
  const Stream stream = runtime::make_stream();
  set_cuda_capability(9, 0);
  EXPECT_EQ(probe_tensor_cores(stream, Bf16Order::kHopper, 64, 5).differences, 0);
  const Probe other = probe_tensor_cores(stream, Bf16Order::kAmpere, 64, 5);
  EXPECT_EQ(other.sums, 64 * 128);
  EXPECT_GT(other.differences, other.sums / 8);
  runtime::destroy_stream(stream);
  for (const bool odd : {false, true}) {
    set_cuda_capability(8, 9, odd);
    const std::vector<ProbedGpu> probed = probe_gpus(2000);
    ASSERT_EQ(probed.size(), 1u);
    EXPECT_EQ(probed[0].bf16_order, "ampere");
    EXPECT_GE(probed[0].sums, 2000);
    EXPECT_EQ(probed[0].differences != 0, odd);
  }
  set_cuda_capability(7, 0);
  EXPECT_TRUE(make_device("cuda-emulated")->bf16().orders.empty());
}

}  // namespace
}  // namespace podium::cuda_emulated
