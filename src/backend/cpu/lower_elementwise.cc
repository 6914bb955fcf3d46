// Element-wise operations keep the layout of their first operand; shapes and constants compute
// nothing.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/channel.h"
#include "backend/cpu/kernels/dropout.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/pack.h"
#include "backend/cpu/kernels/update.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

// The operands of an element-wise node in one layout, its result in the same, and the floats to go
// over.
struct Flat {
  Slot a, b, y;
  std::int64_t count;

  Flat(Lowering& l, const Node& node, std::int32_t index, std::size_t operands) {
    const bool batch = l.in_lanes(node.inputs[0]);
    const auto slot = [&](Value value) { return batch ? l.lanes(value) : l.plain(value); };
    a = slot(node.inputs[0]);
    b = operands > 1 ? slot(node.inputs[1]) : a;
    y = batch ? l.define_lanes({index, 0}) : l.define_plain({index, 0});
    const Shape& shape = l.shape({index, 0});
    count = batch ? padded(shape[0]) * shape.elements_from(1) : shape.elements();
  }
};

// kernel(count, a, b, y, part); b is a where there is one operand.
template <typename Kernel>
void lower_flat(Lowering& l, const Node& node, std::int32_t index, const Kernel& kernel) {
  const Flat f(l, node, index, node.inputs.size());
  l.emit({.parts = flat_parts(f.count),
          .reads = {f.a, f.b},
          .writes = {f.y},
          .run = [=](const Memory& m, int part, int) {
            kernel(f.count, m.f32(f.a), m.f32(f.b), m.f32(f.y), part);
          }});
}

// Updates work in place: where an output is not the memory of its input, the part is copied first.
void copy_part(std::int64_t count, const float* from, float* to, int part) {
  if (from == to) return;
  const std::int64_t begin = part * kFlatPart;
  std::memcpy(to + begin, from + begin,
              static_cast<std::size_t>(std::min(kFlatPart, count - begin)) * sizeof(float));
}

}  // namespace

void lower_add(Lowering& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, cpu::add);
}
void lower_sub(Lowering& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, cpu::sub);
}
void lower_mul(Lowering& l, const Node& node, std::int32_t index) {
  lower_flat(l, node, index, cpu::mul);
}
void lower_scale(Lowering& l, const Node& node, std::int32_t index) {
  const float factor = node.attributes.as<ScaleAttributes>().factor;
  lower_flat(l, node, index,
             [=](std::int64_t count, const float* x, const float*, float* y, int part) {
               cpu::scale(count, x, factor, y, part);
             });
}
void lower_divide(Lowering& l, const Node& node, std::int32_t index) {
  const float divisor = node.attributes.as<DivideAttributes>().divisor;
  lower_flat(l, node, index,
             [=](std::int64_t count, const float* x, const float*, float* y, int part) {
               cpu::divide(count, x, divisor, y, part);
             });
}
void lower_multiply_by(Lowering& l, const Node& node, std::int32_t index) {
  const Slot factor = l.plain(node.inputs[1]);
  const Flat f(l, node, index, 1);
  l.emit({.parts = flat_parts(f.count),
          .reads = {f.a, factor},
          .writes = {f.y},
          .run = [=](const Memory& m, int part, int) {
            cpu::scale(f.count, m.f32(f.a), *m.f32(factor), m.f32(f.y), part);
          }});
}
void lower_combine(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<CombineAttributes>();
  lower_flat(l, node, index,
             [=](std::int64_t count, const float* x, const float* y, float* out, int part) {
               cpu::combine(count, a.a, x, a.b, y, out, false, part);
             });
}
void lower_activate(Lowering& l, const Node& node, std::int32_t index) {
  const Activation activation = node.attributes.as<ActivationAttributes>().activation;
  lower_flat(l, node, index,
             [=](std::int64_t count, const float* x, const float*, float* y, int part) {
               cpu::activate(count, activation, x, y, part);
             });
}
void lower_activate_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Activation activation = node.attributes.as<ActivationAttributes>().activation;
  lower_flat(l, node, index,
             [=](std::int64_t count, const float* dy, const float* x, float* dx, int part) {
               cpu::activate_grad(count, activation, dy, x, dx, part);
             });
}

void lower_fill(Lowering& l, const Node& node, std::int32_t index) {
  l.define_constant({index, 0}, node.attributes.as<FillAttributes>().value);
}

void lower_reshape(Lowering& l, const Node& node, std::int32_t index) {
  l.define_alias({index, 0}, node.inputs[0]);
}

void lower_dropout_mask(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<DropoutMaskAttributes>();
  const Slot step = l.plain(node.inputs[0]), replica = l.plain(node.inputs[1]),
             mask = l.define_lanes({index, 0});
  const DropoutShape shape{
      .images = a.shape[0], .features = a.shape.elements_from(1), .rate = a.rate};
  l.emit({.parts = dropout_mask_parts(shape),
          .reads = {step, replica},
          .writes = {mask},
          .run = [=](const Memory& m, int part, int) {
            const auto first = *m.u32(replica) * static_cast<std::uint32_t>(shape.images);
            cpu::dropout_mask(shape, a.seed, a.layer, *m.u32(step), first, m.f32(mask), part);
          }});
}

// A copy of some of the channels of `from` [N, C, ...] among those of `to`, whose others become +0.
void copy_channels(Lowering& l, const Node& node, std::int32_t index, std::int64_t from_first,
                   std::int64_t to_first, std::int64_t count) {
  const Slot x = l.lanes(node.inputs[0]), y = l.define_lanes({index, 0});
  const Shape &in = l.shape(node.inputs[0]), &out = l.shape({index, 0});
  const Planes planes = planes_of(in);
  const ChannelCopy copy{.blocks = blocks_of(in[0]),
                         .plane = planes.pixels() * kLanes,
                         .from_channels = in[1],
                         .to_channels = out[1],
                         .from_first = from_first,
                         .to_first = to_first,
                         .count = count};
  l.emit({.parts = static_cast<int>(copy.blocks),
          .reads = {x},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::copy_channels(copy, m.f32(x), m.f32(y), part);
          }});
}

void lower_pad_channels(Lowering& l, const Node& node, std::int32_t index) {
  copy_channels(l, node, index, 0, node.attributes.as<PadChannelsAttributes>().before,
                l.shape(node.inputs[0])[1]);
}
void lower_slice_channels(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<SliceChannelsAttributes>();
  copy_channels(l, node, index, a.first, 0, a.count);
}

void lower_rescale(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<RescaleAttributes>();
  const Slot x = l.plain(node.inputs[0]), y = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const Slot sums = l.temporary(squares_parts(count));
  l.emit({.parts = squares_parts(count),
          .reads = {x},
          .writes = {sums},
          .run = [=](const Memory& m, int part, int) {
            squares(count, m.f32(x), m.f32(sums), part);
          }});
  l.emit({.parts = flat_parts(count),
          .reads = {x, sums},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::rescale(count, a.norm, a.epsilon, m.f32(x), m.f32(sums), m.f32(y), part);
          }});
}

void lower_descend(Lowering& l, const Node& node, std::int32_t index) {
  const Slot p = l.plain(node.inputs[0]), d = l.plain(node.inputs[1]),
             rate = l.plain(node.inputs[2]), y = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const bool shared = l.shared_outputs();
  l.emit({.parts = flat_parts(count),
          .reads = {p, d, rate},
          .writes = {y},
          .updates = true,
          .run = [=](const Memory& m, int part, int) {
            // A product by 1 is exact: the contract's fma(-rate, direction, parameter).
            cpu::combine(count, -*m.f32(rate), m.f32(d), 1.0f, m.f32(p), m.f32(y), shared, part);
          }});
}

void lower_sgd_update(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<SgdAttributes>();
  const Slot p = l.plain(node.inputs[0]), g = l.plain(node.inputs[1]), v = l.plain(node.inputs[2]),
             rate = l.plain(node.inputs[3]);
  const Slot new_p = l.define_plain({index, 0}), new_v = l.define_plain({index, 1});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const bool shared = l.shared_outputs();
  l.emit({.parts = flat_parts(count),
          .reads = {p, g, v, rate},
          .writes = {new_p, new_v},
          .updates = true,
          .run = [=](const Memory& m, int part, int) {
            copy_part(count, m.f32(p), m.f32(new_p), part);
            copy_part(count, m.f32(v), m.f32(new_v), part);
            const SgdStep step{.rate = *m.f32(rate),
                               .momentum = a.momentum,
                               .weight_decay = a.weight_decay,
                               .nesterov = a.nesterov};
            cpu::sgd(count, step, m.f32(g), m.f32(new_p), m.f32(new_v), shared, part);
          }});
}

void lower_adam_update(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<AdamAttributes>();
  const Slot p = l.plain(node.inputs[0]), g = l.plain(node.inputs[1]),
             first = l.plain(node.inputs[2]), second = l.plain(node.inputs[3]),
             rate = l.plain(node.inputs[4]), correction = l.plain(node.inputs[5]);
  const Slot learning_rate = a.decoupled ? l.plain(node.inputs[6]) : rate;
  const Slot new_p = l.define_plain({index, 0}), new_first = l.define_plain({index, 1}),
             new_second = l.define_plain({index, 2});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const bool shared = l.shared_outputs();
  l.emit({.parts = flat_parts(count),
          .reads = {p, g, first, second, rate, correction, learning_rate},
          .writes = {new_p, new_first, new_second},
          .updates = true,
          .run = [=](const Memory& m, int part, int) {
            copy_part(count, m.f32(p), m.f32(new_p), part);
            copy_part(count, m.f32(first), m.f32(new_first), part);
            copy_part(count, m.f32(second), m.f32(new_second), part);
            const AdamStep step{
                .beta1 = a.beta1,
                .one_minus_beta1 = 1.0f - a.beta1,
                .beta2 = a.beta2,
                .one_minus_beta2 = 1.0f - a.beta2,
                .rate = *m.f32(rate),
                .root_scale = *m.f32(correction),
                .epsilon = a.epsilon,
                .weight_decay = a.decoupled ? 0.0f : a.weight_decay,
                .shrink = a.decoupled ? *m.f32(learning_rate) * a.weight_decay : 0.0f};
            cpu::adam(count, step, m.f32(g), m.f32(new_p), m.f32(new_first), m.f32(new_second),
                      shared, part);
          }});
}

}  // namespace podium::cpu
