// Sums over planes, normalisation and pooling, on the emulation, against the contracts: bits, on
// shapes that go every way through the kernels (few and many images, tiles in part, bands, widths
// that are no whole packs), and with values that show what was left out.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "backend/operation_case.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Images of which some are infinite, NaN, -0 or equal to each other.
Tensor draw(const TensorType& type, std::uint32_t stream) {
  Tensor tensor = random_operand(type, stream, 10, true);
  const auto x = tensor.f32();
  constexpr float kSpecial[] = {-0.0f, 1.0f, 1.0f, std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity()};
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 3 == 1) x[i] = -x[i];
    if (stream % 2 == 0 && (i * 7919 + stream) % 97 == 0) x[i] = kSpecial[i % 5];
  }
  return tensor;
}

class CudaPlanes : public testing::Test {
 protected:
  CudaPlanes() {
    register_cuda_emulated_backend();
    gpu_ = make_device("cuda-emulated");
    reference_ = make_device("reference");
  }
  void expect_equal(const OpDef& op, const Attributes& attributes,
                    const std::vector<TensorType>& inputs) {
    for (std::uint32_t stream = 0; stream < 2; ++stream) {
      OperationCase operation;
      std::vector<Value> values;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        values.push_back(operation.graph.input(cat("input", i), inputs[i], InputRole::kBatch));
        operation.inputs.push_back(draw(inputs[i], 2 * static_cast<std::uint32_t>(i) + stream));
      }
      const std::vector<Value> results = operation.graph.add(op, attributes, values, op.name);
      for (std::size_t i = 0; i < results.size(); ++i)
        operation.graph.output(cat("output", i), results[i]);
      const std::vector<Tensor> actual = run_case(*gpu_, operation, {}),
                                expected = run_case(*reference_, operation, {});
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(first_difference(actual[i], expected[i]), "")
            << op.name << " " << attributes.text() << " of " << to_string(inputs[0].shape)
            << ", output " << i;
    }
  }

  std::unique_ptr<Device> gpu_, reference_;
};

TensorType images(const Shape& shape) { return {DType::kF32, shape}; }

constexpr std::int64_t kShapes[][4] = {
    {3, 2, 5, 6},   {4, 3, 4, 4},   {32, 2, 6, 8}, {33, 1, 2, 2},  {128, 1, 6, 6},
    {130, 2, 6, 4}, {300, 1, 2, 4}, {5, 1, 34, 6}, {40, 1, 66, 2}, {6, 2, 1, 9}};

TEST_F(CudaPlanes, are_summed_in_the_order_of_the_contract) {
  for (const auto& [n, c, h, w] : kShapes) expect_equal(channel_sum_op, {}, {images({n, c, h, w})});
}

TEST_F(CudaPlanes, are_normalised_whatever_their_shape) {
  for (const auto& [n, c, h, w] : kShapes)
    for (const Activation& activation : kActivations)
      for (const bool pools : {false, true}) {
        if (pools && (h % 2 != 0 || w % 2 != 0)) continue;
        const TensorType x = images({n, c, h, w}), vector = images({c}),
                         y = pools ? images({n, c, h / 2, w / 2}) : x;
        BatchNormAttributes a{.activation = activation, .pools = pools, .adds = !pools};
        expect_equal(batch_norm_op, Attributes(a),
                     pools ? std::vector{x, vector, vector} : std::vector{x, vector, vector, x});
        if (a.adds) {
          BatchNormAttributes of_sum = a;
          of_sum.activates_sum = true;
          expect_equal(batch_norm_op, Attributes(of_sum), {x, vector, vector, x});
        }
        a.adds = activation.kind == ActivationKind::kRelu;
        std::vector<TensorType> operands = {y, x, vector, vector, vector, vector};
        if (a.adds) operands.push_back(x);
        expect_equal(batch_norm_grad_op, Attributes(a), operands);
      }
}

TEST_F(CudaPlanes, are_pooled_in_windows_that_fit_and_that_do_not) {
  PoolAttributes wide;
  wide.window_h = 3, wide.window_w = 2;
  PoolAttributes overlapping;
  overlapping.window_h = overlapping.window_w = 3;
  overlapping.stride_h = overlapping.stride_w = 2;
  overlapping.pad_top = overlapping.pad_left = overlapping.pad_bottom = overlapping.pad_right = 1;
  for (const Shape& shape : {Shape{4, 2, 6, 8}, {8, 1, 7, 5}, {5, 2, 5, 4}, {32, 1, 4, 7}})
    for (const PoolAttributes& a : {PoolAttributes(), wide, overlapping}) {
      const TensorType x = images(shape), y = images(pooled(shape, a));
      expect_equal(max_pool_op, Attributes(a), {x});
      expect_equal(max_pool_grad_op, Attributes(a), {y, x});
      PoolAttributes with_places = a;
      with_places.places = true;
      expect_equal(max_pool_op, Attributes(with_places), {x});
      if (!a.tiles()) continue;
      expect_equal(avg_pool_op, Attributes(a), {x});
      PoolAttributes back = a;
      back.height = shape[2], back.width = shape[3];
      expect_equal(avg_pool_grad_op, Attributes(back), {y});
    }
}

}  // namespace
}  // namespace podium
