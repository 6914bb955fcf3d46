// Recurrent layers: operands and results are plain.
#include "backend/cpu/kernels/recurrent.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {

void lower_lstm(Lowering& l, const Node& node, std::int32_t index) {
  const LstmShape shape = lstm_shape(node.attributes.as<LstmAttributes>(), l.shape(node.inputs[2]));
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             first_hidden = l.plain(node.inputs[2]), first_cells = l.plain(node.inputs[3]),
             packed = l.temporary(lstm_packed_floats(shape)), hidden = l.define_plain({index, 0}),
             gates = l.define_plain({index, 3}), cells = l.define_plain({index, 4}),
             before = l.define_plain({index, 5}), last_hidden = l.define_plain({index, 1}),
             last_cells = l.define_plain({index, 2});
  l.emit({.name = cat("lstm ", node.name, " pack"),
          .parts = lstm_pack_parts(shape),
          .reads = {w},
          .writes = {packed},
          .run = [=](const Memory& m, int part,
                     int) { lstm_pack(shape, m.f32(w), m.f32(packed), part); },
          .cost = {0, 8.0 * static_cast<double>(lstm_packed_floats(shape))}});
  l.need_scratch(lstm_scratch(shape));
  l.emit({.parts = lstm_parts(shape),
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
  const LstmShape shape = lstm_shape(node.attributes.as<LstmAttributes>(), l.shape(node.inputs[1]));
  const Slot to_hidden = l.plain(node.inputs[0]), to_last_hidden = l.plain(node.inputs[1]),
             to_last_cells = l.plain(node.inputs[2]), w = l.plain(node.inputs[3]),
             first_cells = l.plain(node.inputs[4]), gates = l.plain(node.inputs[5]),
             cells = l.plain(node.inputs[6]), packed = l.temporary(lstm_grad_packed_floats(shape)),
             dx = l.define_plain({index, 0}), to_first_hidden = l.define_plain({index, 1}),
             to_first_cells = l.define_plain({index, 2});
  l.emit({.name = cat("lstm_grad ", node.name, " pack"),
          .parts = lstm_grad_pack_parts(shape),
          .reads = {w},
          .writes = {packed},
          .run = [=](const Memory& m, int part,
                     int) { lstm_grad_pack(shape, m.f32(w), m.f32(packed), part); },
          .cost = {0, 8.0 * static_cast<double>(lstm_grad_packed_floats(shape))}});
  l.emit({.parts = lstm_parts(shape),
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

}  // namespace podium::cpu
