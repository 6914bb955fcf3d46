// Batch normalisation, bias, and their gradients: per-channel operations on batch values in lanes.
#include "backend/cpu/kernels/planes/batch_norm.h"
#include "backend/cpu/kernels/planes/channel.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

ActivationShape activation_shape(const Shape& shape) {
  const Planes p = planes_of(shape);
  return {.images = p.images, .channels = p.channels, .height = p.height, .width = p.width};
}

BatchNormShape norm_shape(const Node& node, const Shape& x, const ResultSlot& result) {
  const auto& a = node.attributes.as<BatchNormAttributes>();
  return {.x = activation_shape(x),
          .epsilon = a.epsilon,
          .activation = a.activation,
          .pools = a.pools,
          .activates_sum = a.activates_sum,
          .defers = a.defers,
          .rounded = result.rounded};
}

}  // namespace

namespace {
// What is added to the result; where nothing is, the slot of some operand, which nobody reads.
struct Addend {
  bool there;
  Slot slot;
  const float* of(const Memory& m) const { return there ? m.f32(slot) : nullptr; }
};
Addend addend_of(Lowering& l, const Node& node, std::size_t operand) {
  const bool there = node.attributes.as<BatchNormAttributes>().adds;
  return {there, l.lanes(node.inputs[there ? operand : 0])};
}

ResultSlot define_result(Lowering& l, const Node& node, std::int32_t index) {
  return l.define_result({index, 0}, !node.attributes.as<BatchNormAttributes>().defers);
}
}  // namespace

void lower_batch_norm(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.lanes(node.inputs[0]), gamma = l.plain(node.inputs[1]),
             beta = l.plain(node.inputs[2]);
  const Addend addend = addend_of(l, node, 3);
  const ResultSlot result = define_result(l, node, index);
  const Slot y = result.slot, mean = l.define_plain({index, 1}),
             variance = l.define_plain({index, 2}), inv_std = l.define_plain({index, 3});
  const BatchNormShape shape = norm_shape(node, l.shape(node.inputs[0]), result);
  l.emit({.parts = batch_norm_parts(shape),
          .reads = {x, gamma, beta, addend.slot},
          .writes = {y, mean, variance, inv_std},
          .run = [=](const Memory& m, int part, int) {
            cpu::batch_norm(shape, m.f32(x), m.f32(gamma), m.f32(beta), addend.of(m), m.f32(y),
                            m.f32(mean), m.f32(variance), m.f32(inv_std), part);
          }});
}

void lower_batch_norm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Slot dy = l.lanes(node.inputs[0]), x = l.lanes(node.inputs[1]),
             gamma = l.plain(node.inputs[2]), beta = l.plain(node.inputs[3]),
             mean = l.plain(node.inputs[4]), inv_std = l.plain(node.inputs[5]);
  const Addend addend = addend_of(l, node, 6);
  const ResultSlot result = l.define_result({index, 0});
  const Slot dx = result.slot, dgamma = l.define_plain({index, 1}),
             dbeta = l.define_plain({index, 2});
  const BatchNormShape shape = norm_shape(node, l.shape(node.inputs[1]), result);
  // The first pass may keep something in dx, and the second reads the other operands.
  const bool dx_may_be_dy = !shape.pools && dy != x && !(addend.there && addend.slot == dy);
  l.emit({.parts = batch_norm_grad_parts(shape),
          .reads = {dy, x, gamma, beta, mean, inv_std, addend.slot},
          .writes = {dx, dgamma, dbeta},
          .in_place = dx_may_be_dy ? std::vector{dy} : std::vector<Slot>{},
          .run = [=](const Memory& m, int part, int) {
            cpu::batch_norm_grad(shape, m.f32(dy), m.f32(x), m.f32(gamma), m.f32(beta), m.f32(mean),
                                 m.f32(inv_std), addend.of(m), m.f32(dx), m.f32(dgamma),
                                 m.f32(dbeta), part);
          }});
}

void lower_batch_norm_inference(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.lanes(node.inputs[0]), gamma = l.plain(node.inputs[1]),
             beta = l.plain(node.inputs[2]), mean = l.plain(node.inputs[3]),
             variance = l.plain(node.inputs[4]);
  const Addend addend = addend_of(l, node, 5);
  const ResultSlot result = define_result(l, node, index);
  const Slot y = result.slot;
  const BatchNormShape shape = norm_shape(node, l.shape(node.inputs[0]), result);
  const bool y_may_be_an_operand = !shape.pools && !shape.defers;
  l.emit({.parts = batch_norm_inference_parts(shape),
          .reads = {x, gamma, beta, mean, variance, addend.slot},
          .writes = {y},
          .in_place = y_may_be_an_operand ? std::vector{x, addend.slot} : std::vector<Slot>{},
          .run = [=](const Memory& m, int part, int) {
            cpu::batch_norm_inference(shape, m.f32(x), m.f32(gamma), m.f32(beta), m.f32(mean),
                                      m.f32(variance), addend.of(m), m.f32(y), part);
          }});
}

void lower_batch_norm_running(Lowering& l, const Node& node, std::int32_t index) {
  const Slot old_mean = l.plain(node.inputs[0]), old_var = l.plain(node.inputs[1]),
             mean = l.plain(node.inputs[2]), var = l.plain(node.inputs[3]),
             new_mean = l.define_plain({index, 0}), new_var = l.define_plain({index, 1});
  const auto a = node.attributes.as<BatchNormRunningAttributes>();
  const std::int64_t channels = l.shape(node.inputs[0])[0];
  l.emit({.reads = {old_mean, old_var, mean, var},
          .writes = {new_mean, new_var},
          .run = [=](const Memory& m, int, int) {
            cpu::batch_norm_running(channels, a.count, a.momentum, m.f32(mean), m.f32(var),
                                    m.f32(old_mean), m.f32(old_var), m.f32(new_mean),
                                    m.f32(new_var));
          }});
}

namespace {
// Whether x is a matrix as a product of plain matrices left it, tokens, which products of BF16
// operands read so, too. Those of floats take less time in lanes.
bool is_rows(const Lowering& l, Value x) {
  return l.shape(x).rank() == 2 && !l.in_lanes(x) && l.is_rounded(x);
}
}  // namespace

void lower_bias_add(Lowering& l, const Node& node, std::int32_t index) {
  const bool rows = is_rows(l, node.inputs[0]);
  const Slot x = l.in_layout(node.inputs[0], !rows), bias = l.plain(node.inputs[1]);
  const ResultSlot y = l.define_result({index, 0}, !rows);
  const ActivationShape shape = activation_shape(l.shape(node.inputs[0]));
  l.emit({.parts = rows ? bias_add_rows_parts(shape.images, shape.channels) : bias_add_parts(shape),
          .reads = {x, bias},
          .writes = {y.slot},
          .run = [=](const Memory& m, int part, int) {
            if (rows)
              bias_add_rows(shape.images, shape.channels, m.f32(x), m.f32(bias), m.result(y), part);
            else
              cpu::bias_add(shape, m.f32(x), m.f32(bias), m.result(y), part);
          }});
}

void lower_channel_sum(Lowering& l, const Node& node, std::int32_t index) {
  const bool rows = is_rows(l, node.inputs[0]);
  const Slot dy = l.in_layout(node.inputs[0], !rows), sum = l.define_plain({index, 0});
  const ActivationShape shape = activation_shape(l.shape(node.inputs[0]));
  l.emit({.parts = rows ? channel_sum_rows_parts(shape.channels) : channel_sum_parts(shape),
          .reads = {dy},
          .writes = {sum},
          .run = [=](const Memory& m, int part, int) {
            if (rows)
              channel_sum_rows(shape.images, shape.channels, m.f32(dy), m.f32(sum), part);
            else
              cpu::channel_sum(shape, m.f32(dy), m.f32(sum), part);
          }});
}

}  // namespace podium::cpu
