// A layer and an operation of one's own, for the programs beside it: squeeze-and-excitation (Hu et
// al. 2018), which weighs the channels of an image by what a small network makes of their means.
#pragma once

#include <podium/base/numerics/functions.h>
#include <podium/podium.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace squeeze {

using podium::ConstTensors;
using podium::Shape;
using podium::Tensors;
using podium::Value;

// --- the operation: channel_gate(x [N, C, H, W], s [N, C]) = x * g, with g = 1 / (1 + exp(-s)).
// podium::exp_f32 has the same bits on every machine; std::exp has not.

inline float gate_of(float s) { return 1.0f / (1.0f + podium::exp_f32(-s)); }

inline std::vector<podium::TensorType> infer_gate(const podium::InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  c.require(x.rank() == 4 && c.inputs[1].shape == Shape{x[0], x[1]},
            "needs images [N, C, H, W] and one value [N, C] for each channel");
  return {c.inputs[0]};
}

inline void reference_gate(const podium::Attributes&, ConstTensors in, Tensors out) {
  const auto x = in[0]->f32(), s = in[1]->f32();
  const auto pixels = static_cast<std::size_t>(in[0]->shape().elements_from(2));
  for (std::size_t i = 0; i < x.size(); ++i) out[0]->f32()[i] = x[i] * gate_of(s[i / pixels]);
}

// The gradient for s: g (1 - g) times the sum over pixels of dy * x.
inline std::vector<podium::TensorType> infer_gate_grad(const podium::InferContext& c) {
  return {c.inputs[2]};
}

inline void reference_gate_grad(const podium::Attributes&, ConstTensors in, Tensors out) {
  const auto dy = in[0]->f32(), x = in[1]->f32(), s = in[2]->f32();
  const auto pixels = static_cast<std::size_t>(in[1]->shape().elements_from(2));
  for (std::size_t i = 0; i < s.size(); ++i) {
    float sum = 0;
    for (std::size_t p = i * pixels; p < (i + 1) * pixels; ++p) sum += dy[p] * x[p];
    out[0]->f32()[i] = gate_of(s[i]) * (1.0f - gate_of(s[i])) * sum;
  }
}

// The shapes that podium::check_operation() tries.
inline std::vector<podium::OpSample> gate_samples() {
  const auto f32 = [](Shape shape) { return podium::TensorType{podium::DType::kF32, shape}; };
  return {{{}, {f32({1, 1, 1, 1}), f32({1, 1})}},
          {{}, {f32({2, 3, 5, 7}), f32({2, 3})}},
          {{}, {f32({17, 4, 3, 3}), f32({17, 4})}}};
}

inline const podium::OpDef gate_grad_op = {
    .name = "channel_gate_grad", .infer = infer_gate_grad, .reference = reference_gate_grad};

inline std::vector<Value> gradient_gate(const podium::GradientContext& c);

inline const podium::OpDef gate_op = {.name = "channel_gate",
                                      .infer = infer_gate,
                                      .gradient = gradient_gate,
                                      .reference = reference_gate,
                                      .samples = gate_samples};

inline std::vector<Value> gradient_gate(const podium::GradientContext& c) {
  const Value dy = c.output_gradients[0];
  return {c.graph.add1(gate_op, {}, {dy, c.input(1)}),
          c.graph.add1(gate_grad_op, {}, {dy, c.input(0), c.input(1)})};
}

// --- the layer: parameters NAME.down.weight [C/2, C], NAME.down.bias, NAME.up [C, C/2], NAME.start

inline Value excite(podium::Network& net, const std::string& name, Value x) {
  podium::Graph& graph = net.graph();
  const std::int64_t channels = graph.shape(x)[1], fewer = channels / 2;
  Value s = net.dense(name + ".down", net.global_avg_pool(x), {.units = fewer, .bias = true});
  s = net.relu(s);
  const Value up = net.parameter({.name = name + ".up",
                                  .shape = {channels, fewer},
                                  .initialiser = podium::Initialiser::kGlorotUniform,
                                  .decays = true});
  // Gates start at 1 / (1 + exp(-1)), 0.73.
  const Value start = net.parameter(
      {.name = name + ".start", .shape = {channels}, .initialiser = podium::Initialiser::kOnes});
  s = podium::bias_add(graph, podium::matmul(graph, s, up, {.transpose_b = true}, name), start,
                       name);
  return graph.add1(gate_op, {}, {x, s}, name);
}

// --- a network that has it

inline Value model(podium::Network& net, Value x, std::int64_t classes) {
  x = net.conv2d("conv1", x, {.channels = 8, .kernel = 5, .stride = 2});
  x = excite(net, "excite1", net.relu(net.batch_norm("bn1", x)));
  x = net.conv2d("conv2", x, {.channels = 16, .kernel = 3, .stride = 2});
  x = excite(net, "excite2", net.relu(net.batch_norm("bn2", x)));
  x = net.relu(net.dense("fc1", net.flatten(x), {.units = 64, .bias = true}));
  return net.dense("fc2", net.dropout("dropout", x, 0.2f), {.units = classes, .bias = true});
}

}  // namespace squeeze
