// How weight decay reaches the update: which parameters it acts on, and how strongly.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "backend/reference/reference_device.h"
#include "ops/ops.h"
#include "train/program/program.h"

namespace podium {
namespace {

// Two weights that decay around a bias that does not, laid out one after the other.
FlatLayout layout() {
  FlatLayout flat;
  flat.parameters = {{"a.weight", {DType::kF32, {16}}, 0, true},
                     {"a.bias", {DType::kF32, {16}}, 64, false},
                     {"b.weight", {DType::kF32, {32}}, 128, true},
                     {"c.weight", {DType::kF32, {16}}, 256, true}};
  flat.parameter_bytes = 320;
  flat.loss_offset = 320;
  flat.bytes = 384;
  return flat;
}

using Pieces = std::vector<std::tuple<std::int64_t, std::int64_t, float>>;

Pieces pieces(const OptimizerOptions& options, std::int64_t replicas, std::int64_t begin = 0,
              std::int64_t end = 384) {
  Pieces list;
  const UpdateProgram program = build_update_program(layout(), options, replicas, begin, end);
  for (const UpdatePiece& piece : program.pieces)
    list.emplace_back(piece.begin, piece.end, piece.weight_decay);
  return list;
}

TEST(Decay, once_acts_as_written_whatever_the_number_of_replicas) {
  for (const std::int64_t replicas : {1, 8}) {
    EXPECT_EQ(pieces({.weight_decay = 0.25f}, replicas),
              (Pieces{{0, 64, 0.25f}, {64, 128, 0.0f}, {128, 320, 0.25f}}));
  }
}

TEST(Decay, per_replica_acts_as_often_as_there_are_replicas) {
  const OptimizerOptions options{.weight_decay = 0.25f, .decay = Decay::kPerReplica};
  EXPECT_EQ(pieces(options, 1), pieces({.weight_decay = 0.25f}, 1));
  EXPECT_EQ(pieces(options, 8), (Pieces{{0, 64, 2.0f}, {64, 128, 0.0f}, {128, 320, 2.0f}}));
}

TEST(Decay, on_all_parameters_makes_one_piece) {
  EXPECT_EQ(pieces({.weight_decay = 0.25f, .decay_all = true}, 8), (Pieces{{0, 320, 0.25f}}));
}

TEST(Decay, a_shard_cuts_pieces_and_changes_no_strength) {
  const OptimizerOptions options{.weight_decay = 0.25f};
  EXPECT_EQ(pieces(options, 8, 0, 128), (Pieces{{0, 64, 0.25f}, {64, 128, 0.0f}}));
  EXPECT_EQ(pieces(options, 8, 192, 384), (Pieces{{192, 320, 0.25f}}));
  EXPECT_EQ(pieces(options, 8, 320, 384), Pieces{});
}

// Older estimators added decay * p to the gradient of each replica, and summed those.
TEST(Decay, per_replica_is_the_sum_over_replicas_of_decayed_gradients) {
  constexpr int kReplicas = 8;
  constexpr float kDecay = 0.125f, kRate = 0.5f, kParameter = 3, kGradient = 0.25f;
  float sum = 0;
  for (int replica = 0; replica < kReplicas; ++replica)
    sum += kGradient / kReplicas + kDecay * kParameter;

  const OptimizerOptions options{.weight_decay = kDecay, .decay = Decay::kPerReplica};
  const UpdateProgram program = build_update_program(layout(), options, kReplicas, 0, 64);
  std::vector<Tensor> inputs;
  for (const NamedValue& input : program.graph.inputs()) {
    inputs.emplace_back(program.graph.type(input.value));
    const float value = input.name == "learning_rate" ? kRate
                        : input.name == "parameter/0" ? kParameter
                        : input.name == "gradient/0"  ? kGradient
                                                      : 0;
    std::ranges::fill(inputs.back().f32(), value);
  }
  const std::vector<Tensor> results = interpret(program.graph, inputs);
  EXPECT_EQ(results[0].f32()[7], kParameter - kRate * sum);
}

}  // namespace
}  // namespace podium
