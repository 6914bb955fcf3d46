// Element-wise operations (backend/lowering/elementwise.h), copies, updates.
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/kernels/norms.h"
#include "backend/cuda/lowering/lower.h"
#include "backend/lowering/elementwise.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Each is called as the function that it stands for.
// NOLINTBEGIN(readability-identifier-naming)
struct Kernels {
  static constexpr auto* add = &PODIUM_CUDA_SPACE::add;
  static constexpr auto* sub = &PODIUM_CUDA_SPACE::sub;
  static constexpr auto* mul = &PODIUM_CUDA_SPACE::mul;
  static constexpr auto* scale = &PODIUM_CUDA_SPACE::scale;
  static constexpr auto* divide = &PODIUM_CUDA_SPACE::divide;
  static constexpr auto* multiply_by = &PODIUM_CUDA_SPACE::multiply_by;
  static constexpr auto* combine = &PODIUM_CUDA_SPACE::combine;
  static constexpr auto* activate = &PODIUM_CUDA_SPACE::activate;
  static constexpr auto* activate_grad = &PODIUM_CUDA_SPACE::activate_grad;
  static constexpr auto* activate_sum_grad = &PODIUM_CUDA_SPACE::activate_sum_grad;
  static void round_bf16(const Launch& launch, std::int64_t count, const Source& x, const Source&,
                         const Result& y) {
    PODIUM_CUDA_SPACE::round_bf16(launch, count, x, y);
  }
};
// NOLINTEND(readability-identifier-naming)

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
             mask = l.define_batch_last({index, 0});
  l.emit({.reads = {step, replica},
          .writes = {mask},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::dropout_mask(launch, a, m.u32(step), m.u32(replica), m.f32(mask));
          }});
}

namespace {

// `count` channels of x [N, C, ...] from `from` on become those of y from `to` on.
void copy_channels(Lowering& l, const Node& node, std::int32_t index, std::int64_t from,
                   std::int64_t count, std::int64_t to) {
  const Slot x = l.batch_last(node.inputs[0]), y = l.define_batch_last({index, 0});
  const Shape& in = l.shape(node.inputs[0]);
  const std::int64_t channel = in.elements() / in[1], size = l.shape({index, 0}).elements();
  l.emit({.reads = {x}, .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
            copy_range(launch, from * channel, count * channel, to * channel, size, m.f32(x),
                       m.f32(y));
          }});
}

}  // namespace

void lower_permute(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.batch_last(node.inputs[0]), y = l.define_batch_last({index, 0});
  const PermuteShape shape =
      permute_shape(node.attributes.as<PermuteAttributes>(), l.shape(node.inputs[0]));
  l.emit({.reads = {x}, .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::permute(launch, shape, m.f32(x), m.f32(y));
          }});
}

void lower_pad_channels(Lowering& l, const Node& node, std::int32_t index) {
  copy_channels(l, node, index, 0, l.shape(node.inputs[0])[1],
                node.attributes.as<PadChannelsAttributes>().before);
}
void lower_slice_channels(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<SliceChannelsAttributes>();
  copy_channels(l, node, index, a.first, a.count, 0);
}

void lower_rescale(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<RescaleAttributes>();
  const Slot x = l.plain(node.inputs[0]), y = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const Slot sums = l.temporary(square_runs(count));
  l.emit({.reads = {x}, .writes = {sums, y}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::rescale(launch, count, a, m.f32(x), m.f32(sums), m.f32(y));
          }});
}

void lower_descend(Lowering& l, const Node& node, std::int32_t index) {
  const Slot p = l.plain(node.inputs[0]), d = l.plain(node.inputs[1]),
             rate = l.plain(node.inputs[2]), y = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  l.emit({.reads = {p, d, rate}, .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::descend(launch, count, m.f32(p), m.f32(d), m.f32(rate), m.f32(y));
          }});
}

void lower_sgd_update(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<SgdAttributes>();
  const Slot p = l.plain(node.inputs[0]), g = l.plain(node.inputs[1]), v = l.plain(node.inputs[2]),
             rate = l.plain(node.inputs[3]);
  const Slot new_p = l.define_plain({index, 0}), new_v = l.define_plain({index, 1});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const auto part = [=](const Memory& m) {
    return SgdPart{.count = count,
                   .attributes = a,
                   .operands = {.p = m.f32(p),
                                .g = m.f32(g),
                                .v = m.f32(v),
                                .rate = m.f32(rate),
                                .new_p = m.f32(new_p),
                                .new_v = m.f32(new_v)}};
  };
  // A larger one is worth a launch.
  constexpr std::int64_t kSmall = 1 << 16;
  l.emit({.reads = {p, g, v, rate},
          .writes = {new_p, new_v},
          .run =
              [=](const Launch& launch, const Memory& m) {
                const SgdPart own[] = {part(m)};
                PODIUM_CUDA_SPACE::sgd_update(launch, own);
              },
          .part = count <= kSmall ? JoinedPart(part) : JoinedPart()});
}

void lower_adam_update(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<AdamAttributes>();
  const Slot p = l.plain(node.inputs[0]), g = l.plain(node.inputs[1]),
             first = l.plain(node.inputs[2]), second = l.plain(node.inputs[3]),
             step_size = l.plain(node.inputs[4]), correction = l.plain(node.inputs[5]);
  const Slot rate = a.decoupled ? l.plain(node.inputs[6]) : step_size;
  const Slot new_p = l.define_plain({index, 0}), new_first = l.define_plain({index, 1}),
             new_second = l.define_plain({index, 2});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  l.emit({.reads = {p, g, first, second, step_size, correction, rate},
          .writes = {new_p, new_first, new_second},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::adam_update(launch, count, a,
                                           {.p = m.f32(p),
                                            .g = m.f32(g),
                                            .m = m.f32(first),
                                            .v = m.f32(second),
                                            .step_size = m.f32(step_size),
                                            .correction = m.f32(correction),
                                            .learning_rate = m.f32(rate),
                                            .new_p = m.f32(new_p),
                                            .new_m = m.f32(new_first),
                                            .new_v = m.f32(new_second)});
          }});
}

}  // namespace podium::PODIUM_CUDA_SPACE
