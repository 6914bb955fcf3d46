// Element-wise operations (backend/lowering/elementwise.h), copies, updates.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/dropout.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/planes/channel.h"
#include "backend/cpu/kernels/products/pack.h"
#include "backend/cpu/kernels/update.h"
#include "backend/cpu/lower.h"
#include "backend/lowering/elementwise.h"

namespace podium::cpu {
namespace {

struct Kernels {
  static void add(int part, std::int64_t n, const float* a, const float* b, FlatResult y) {
    cpu::add(n, a, b, y, part);
  }
  static void sub(int part, std::int64_t n, const float* a, const float* b, FlatResult y) {
    cpu::sub(n, a, b, y, part);
  }
  static void mul(int part, std::int64_t n, const float* a, const float* b, FlatResult y) {
    cpu::mul(n, a, b, y, part);
  }
  static void scale(int part, std::int64_t n, float factor, const float* x, FlatResult y) {
    cpu::scale(n, x, factor, y, part);
  }
  static void divide(int part, std::int64_t n, float divisor, const float* x, FlatResult y) {
    cpu::divide(n, x, divisor, y, part);
  }
  static void multiply_by(int part, std::int64_t n, const float* x, const float* by, FlatResult y) {
    cpu::scale(n, x, *by, y, part);
  }
  static void combine(int part, std::int64_t n, const CombineAttributes& a, const float* u,
                      const float* v, FlatResult y) {
    cpu::combine(n, a.a, u, a.b, v, y, false, part);
  }
  static void activate(int part, std::int64_t n, const Activation& f, const float* x,
                       FlatResult y) {
    cpu::activate(n, f, x, y, part);
  }
  static void activate_grad(int part, std::int64_t n, const Activation& f, const float* dy,
                            const float* x, FlatResult dx) {
    cpu::activate_grad(n, f, dy, x, dx, part);
  }
  static void activate_sum_grad(int part, std::int64_t n, const Activation& f, const float* dy,
                                const float* more, const float* x, FlatResult dx) {
    cpu::activate_sum_grad(n, f, dy, more, x, dx, part);
  }
  static void round_bf16(int part, std::int64_t n, const float* x, const float*, FlatResult y) {
    const std::int64_t begin = part * kFlatPart;
    round_floats(x + begin, 1, std::min(kFlatPart, n - begin), 0, y.floats + begin);
  }
};

// Updates work in place: where an output is not the memory of its input, the part is copied first.
void copy_part(std::int64_t count, const float* from, float* to, int part) {
  if (from == to) return;
  const std::int64_t begin = part * kFlatPart;
  std::memcpy(to + begin, from + begin,
              static_cast<std::size_t>(std::min(kFlatPart, count - begin)) * sizeof(float));
}

}  // namespace

#define PODIUM_SHARED_LOWERING(name)                                     \
  void lower_##name(Lowering& l, const Node& node, std::int32_t index) { \
    lowering::lower_##name<Kernels>(l, node, index);                     \
  }
PODIUM_ELEMENTWISE_LIST(PODIUM_SHARED_LOWERING)
#undef PODIUM_SHARED_LOWERING

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

void lower_permute(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.lanes(node.inputs[0]), y = l.define_lanes({index, 0});
  const PermuteShape shape =
      permute_shape(node.attributes.as<PermuteAttributes>(), l.shape(node.inputs[0]));
  l.emit({.parts = static_cast<int>(blocks_of(shape.images)),
          .reads = {x},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::permute(shape, m.f32(x), m.f32(y), part);
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
