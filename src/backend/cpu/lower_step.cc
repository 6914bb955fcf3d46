// What a step and an evaluation need beside the network and the updates: the norm of all gradients,
// hashes, views of images.
#include "backend/cpu/kernels/hash.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/update.h"
#include "backend/cpu/kernels/view.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {

void lower_square_sums(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.plain(node.inputs[0]), sums = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  l.emit({.parts = squares_parts(count),
          .reads = {x},
          .writes = {sums},
          .run = [=](const Memory& m, int part, int) {
            squares(count, m.f32(x), m.f32(sums), part);
          }});
}

void lower_global_norm(Lowering& l, const Node& node, std::int32_t index) {
  const auto first_runs = node.attributes.as<GlobalNormAttributes>().first_runs;
  const Slot sums = l.plain(node.inputs[0]), norm = l.define_plain({index, 0});
  const auto runs = static_cast<std::size_t>(first_runs.back());
  l.emit({.reads = {sums}, .writes = {norm}, .run = [=](const Memory& m, int, int) {
            *m.f32(norm) = podium::global_norm({m.f32(sums), runs}, first_runs);
          }});
}

void lower_clip_factor(Lowering& l, const Node& node, std::int32_t index) {
  const float limit = node.attributes.as<ClipFactorAttributes>().limit;
  const Slot norm = l.plain(node.inputs[0]), factor = l.define_plain({index, 0});
  l.emit({.reads = {norm}, .writes = {factor}, .run = [=](const Memory& m, int, int) {
            *m.f32(factor) = podium::clip_factor(*m.f32(norm), limit);
          }});
}

void lower_lars_rate(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<LarsRateAttributes>();
  const Slot parameter = l.plain(node.inputs[0]), gradient = l.plain(node.inputs[1]),
             rate = l.plain(node.inputs[2]), own = l.define_plain({index, 0});
  l.emit({.reads = {parameter, gradient, rate},
          .writes = {own},
          .run = [=](const Memory& m, int, int) {
            *m.f32(own) = podium::lars_rate(*m.f32(parameter), *m.f32(gradient), *m.f32(rate), a);
          }});
}

void lower_hash_sum(Lowering& l, const Node& node, std::int32_t index) {
  const std::uint64_t first = node.attributes.as<HashSumAttributes>().first;
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const int parts = hash_parts(count);
  const Slot x = l.plain(node.inputs[0]), sums = l.temporary(2 * std::int64_t{parts}),
             words = l.define_plain({index, 0});
  const auto wide = [](const Memory& m, Slot slot) {
    return static_cast<std::uint64_t*>(m.any(slot));
  };
  l.emit(
      {.parts = parts, .reads = {x}, .writes = {sums}, .run = [=](const Memory& m, int part, int) {
         hash_part(count, first, m.f32(x), wide(m, sums), part);
       }});
  l.emit({.reads = {sums}, .writes = {words}, .run = [=](const Memory& m, int, int) {
            std::uint64_t sum = 0;
            for (int part = 0; part < parts; ++part) sum += wide(m, sums)[part];
            m.u32(words)[0] = static_cast<std::uint32_t>(sum);
            m.u32(words)[1] = static_cast<std::uint32_t>(sum >> 32);
          }});
}

// In the layout of the images: they are a program's input, or an operation made them.
void lower_view(Lowering& l, const Node& node, std::int32_t index) {
  const Value images = node.inputs[0], y{index, 0};
  const bool lanes = l.in_lanes(images);
  const Shape& shape = l.shape(images);
  const ViewShape view_shape{.planes = (lanes ? blocks_of(shape[0]) : shape[0]) * shape[1],
                             .height = shape[2],
                             .width = shape[3],
                             .lanes = lanes};
  const ViewPixels pixels(node.attributes.as<ViewAttributes>().index);
  const Slot from = lanes ? l.lanes(images) : l.plain(images),
             to = lanes ? l.define_lanes(y) : l.define_plain(y);
  l.emit({.parts = view_parts(view_shape),
          .reads = {from},
          .writes = {to},
          .run = [=](const Memory& m, int part, int) {
            cpu::view(view_shape, pixels, m.f32(from), m.f32(to), part);
          }});
}

}  // namespace podium::cpu
