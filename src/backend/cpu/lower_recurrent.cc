// Recurrent layers: operands and results are plain.
#include "backend/cpu/kernels/recurrent.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

// The weights as a product reads them.
Slot packed_weights(Lowering& l, const Node& node, const RecurrentWeights& weights, Slot w) {
  const Slot packed = l.temporary(packed_floats(weights));
  l.emit(
      {.name = cat(node.op->name, " ", node.name, " pack"),
       .parts = pack_parts(weights),
       .reads = {w},
       .writes = {packed},
       .run = [=](const Memory& m, int part, int) { pack(weights, m.f32(w), m.f32(packed), part); },
       .cost = {0, 8.0 * static_cast<double>(packed_floats(weights))}});
  return packed;
}

}  // namespace

void lower_lstm(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      lstm_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[2]));
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             first_hidden = l.plain(node.inputs[2]), first_cells = l.plain(node.inputs[3]),
             packed = packed_weights(l, node, recurrent_weights(shape), w),
             hidden = l.define_plain({index, 0}), gates = l.define_plain({index, 3}),
             cells = l.define_plain({index, 4}), before = l.define_plain({index, 5}),
             last_hidden = l.define_plain({index, 1}), last_cells = l.define_plain({index, 2});
  l.need_scratch(recurrent_scratch(shape));
  l.emit({.parts = recurrent_parts(shape),
          .reads = {x, packed, first_hidden, first_cells},
          .writes = {hidden, gates, cells, before, last_hidden, last_cells},
          .run = [=](const Memory& m, int part, int thread) {
            cpu::lstm(shape,
                      {.x = m.f32(x),
                       .packed_w = m.f32(packed),
                       .first_hidden = m.f32(first_hidden),
                       .first_cells = m.f32(first_cells),
                       .hidden = m.f32(hidden),
                       .gates = m.f32(gates),
                       .cells = m.f32(cells),
                       .before = m.f32(before),
                       .last_hidden = m.f32(last_hidden),
                       .last_cells = m.f32(last_cells)},
                      m.scratch(thread), part);
          }});
}

void lower_lstm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      lstm_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[1]));
  const Slot to_hidden = l.plain(node.inputs[0]), to_last_hidden = l.plain(node.inputs[1]),
             to_last_cells = l.plain(node.inputs[2]), w = l.plain(node.inputs[3]),
             first_cells = l.plain(node.inputs[4]), gates = l.plain(node.inputs[5]),
             cells = l.plain(node.inputs[6]),
             packed = packed_weights(l, node, recurrent_grad_weights(shape), w),
             dx = l.define_plain({index, 0}), to_first_hidden = l.define_plain({index, 1}),
             to_first_cells = l.define_plain({index, 2});
  l.emit({.parts = recurrent_parts(shape),
          .reads = {to_hidden, to_last_hidden, to_last_cells, packed, first_cells, gates, cells},
          .writes = {dx, to_first_hidden, to_first_cells},
          .run = [=](const Memory& m, int part, int) {
            cpu::lstm_grad(shape,
                           {.to_hidden = m.f32(to_hidden),
                            .to_last_hidden = m.f32(to_last_hidden),
                            .to_last_cells = m.f32(to_last_cells),
                            .packed_w = m.f32(packed),
                            .first_cells = m.f32(first_cells),
                            .gates = m.f32(gates),
                            .cells = m.f32(cells),
                            .dx = m.f32(dx),
                            .to_first_hidden = m.f32(to_first_hidden),
                            .to_first_cells = m.f32(to_first_cells)},
                           part);
          }});
}

void lower_gru(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      gru_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[3]));
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             bias = l.plain(node.inputs[2]), first_hidden = l.plain(node.inputs[3]),
             packed = packed_weights(l, node, recurrent_weights(shape), w),
             hidden = l.define_plain({index, 0}), gates = l.define_plain({index, 2}),
             before = l.define_plain({index, 3}), last_hidden = l.define_plain({index, 1});
  l.need_scratch(recurrent_scratch(shape));
  l.emit({.parts = recurrent_parts(shape),
          .reads = {x, packed, bias, first_hidden},
          .writes = {hidden, gates, before, last_hidden},
          .run = [=](const Memory& m, int part, int thread) {
            cpu::gru(shape,
                     {.x = m.f32(x),
                      .packed_w = m.f32(packed),
                      .bias = m.f32(bias),
                      .first_hidden = m.f32(first_hidden),
                      .hidden = m.f32(hidden),
                      .gates = m.f32(gates),
                      .before = m.f32(before),
                      .last_hidden = m.f32(last_hidden)},
                     m.scratch(thread), part);
          }});
}

void lower_gru_grad(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      gru_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[1]));
  const Slot to_hidden = l.plain(node.inputs[0]), to_last_hidden = l.plain(node.inputs[1]),
             w = l.plain(node.inputs[2]), gates = l.plain(node.inputs[3]),
             before = l.plain(node.inputs[4]),
             packed = packed_weights(l, node, recurrent_grad_weights(shape), w),
             dx = l.define_plain({index, 0}), to_states = l.define_plain({index, 1}),
             to_first_hidden = l.define_plain({index, 2});
  l.need_scratch(recurrent_scratch(shape));
  l.emit({.parts = recurrent_parts(shape),
          .reads = {to_hidden, to_last_hidden, packed, gates, before},
          .writes = {dx, to_states, to_first_hidden},
          .run = [=](const Memory& m, int part, int thread) {
            cpu::gru_grad(shape,
                          {.to_hidden = m.f32(to_hidden),
                           .to_last_hidden = m.f32(to_last_hidden),
                           .packed_w = m.f32(packed),
                           .gates = m.f32(gates),
                           .before = m.f32(before),
                           .dx = m.f32(dx),
                           .to_states = m.f32(to_states),
                           .to_first_hidden = m.f32(to_first_hidden)},
                          m.scratch(thread), part);
          }});
}

}  // namespace podium::cpu
