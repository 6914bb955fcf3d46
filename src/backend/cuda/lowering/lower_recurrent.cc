// Recurrent layers: operands and results are plain.
#include "backend/cuda/kernels/recurrent.h"
#include "backend/cuda/lowering/lower.h"

namespace podium::PODIUM_CUDA_SPACE {

void lower_lstm(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      lstm_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[2]));
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             first_hidden = l.plain(node.inputs[2]), first_cells = l.plain(node.inputs[3]),
             hidden = l.define_plain({index, 0}), gates = l.define_plain({index, 3}),
             cells = l.define_plain({index, 4}), before = l.define_plain({index, 5}),
             last_hidden = l.define_plain({index, 1}), last_cells = l.define_plain({index, 2}),
             products = l.temporary(recurrent_products(shape)),
             scratch = l.temporary(recurrent_scratch(shape));
  l.emit({.reads = {x, w, first_hidden, first_cells},
          .writes = {hidden, gates, cells, before, last_hidden, last_cells, products, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::lstm(launch, shape,
                                    {.x = m.f32(x),
                                     .w = m.f32(w),
                                     .first_hidden = m.f32(first_hidden),
                                     .first_cells = m.f32(first_cells),
                                     .hidden = m.f32(hidden),
                                     .gates = m.f32(gates),
                                     .cells = m.f32(cells),
                                     .before = m.f32(before),
                                     .last_hidden = m.f32(last_hidden),
                                     .last_cells = m.f32(last_cells),
                                     .products = m.f32(products),
                                     .scratch = m.f32(scratch)});
          }});
}

void lower_lstm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      lstm_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[1]));
  const Slot to_hidden = l.plain(node.inputs[0]), to_last_hidden = l.plain(node.inputs[1]),
             to_last_cells = l.plain(node.inputs[2]), w = l.plain(node.inputs[3]),
             first_cells = l.plain(node.inputs[4]), gates = l.plain(node.inputs[5]),
             cells = l.plain(node.inputs[6]), dx = l.define_plain({index, 0}),
             to_first_hidden = l.define_plain({index, 1}),
             to_first_cells = l.define_plain({index, 2}),
             scratch = l.temporary(recurrent_grad_scratch(shape));
  l.emit({.reads = {to_hidden, to_last_hidden, to_last_cells, w, first_cells, gates, cells},
          .writes = {dx, to_first_hidden, to_first_cells, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::lstm_grad(launch, shape,
                                         {.to_hidden = m.f32(to_hidden),
                                          .to_last_hidden = m.f32(to_last_hidden),
                                          .to_last_cells = m.f32(to_last_cells),
                                          .w = m.f32(w),
                                          .first_cells = m.f32(first_cells),
                                          .gates = m.f32(gates),
                                          .cells = m.f32(cells),
                                          .dx = m.f32(dx),
                                          .to_first_hidden = m.f32(to_first_hidden),
                                          .to_first_cells = m.f32(to_first_cells),
                                          .scratch = m.f32(scratch)});
          }});
}

void lower_gru(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      gru_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[3]));
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             bias = l.plain(node.inputs[2]), first_hidden = l.plain(node.inputs[3]),
             hidden = l.define_plain({index, 0}), gates = l.define_plain({index, 2}),
             before = l.define_plain({index, 3}), last_hidden = l.define_plain({index, 1}),
             products = l.temporary(recurrent_products(shape)),
             scratch = l.temporary(recurrent_scratch(shape));
  l.emit({.reads = {x, w, bias, first_hidden},
          .writes = {hidden, gates, before, last_hidden, products, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::gru(launch, shape,
                                   {.x = m.f32(x),
                                    .w = m.f32(w),
                                    .bias = m.f32(bias),
                                    .first_hidden = m.f32(first_hidden),
                                    .hidden = m.f32(hidden),
                                    .gates = m.f32(gates),
                                    .before = m.f32(before),
                                    .last_hidden = m.f32(last_hidden),
                                    .products = m.f32(products),
                                    .scratch = m.f32(scratch)});
          }});
}

void lower_gru_grad(Lowering& l, const Node& node, std::int32_t index) {
  const RecurrentShape shape =
      gru_shape(node.attributes.as<RecurrentAttributes>(), l.shape(node.inputs[1]));
  const Slot to_hidden = l.plain(node.inputs[0]), to_last_hidden = l.plain(node.inputs[1]),
             w = l.plain(node.inputs[2]), gates = l.plain(node.inputs[3]),
             before = l.plain(node.inputs[4]), dx = l.define_plain({index, 0}),
             to_states = l.define_plain({index, 1}), to_first_hidden = l.define_plain({index, 2}),
             kept = l.temporary(shape.sequences * shape.units),
             scratch = l.temporary(recurrent_grad_scratch(shape));
  l.emit({.reads = {to_hidden, to_last_hidden, w, gates, before},
          .writes = {dx, to_states, to_first_hidden, kept, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::gru_grad(launch, shape,
                                        {.to_hidden = m.f32(to_hidden),
                                         .to_last_hidden = m.f32(to_last_hidden),
                                         .w = m.f32(w),
                                         .gates = m.f32(gates),
                                         .before = m.f32(before),
                                         .dx = m.f32(dx),
                                         .to_states = m.f32(to_states),
                                         .to_first_hidden = m.f32(to_first_hidden),
                                         .kept = m.f32(kept),
                                         .scratch = m.f32(scratch)});
          }});
}

}  // namespace podium::PODIUM_CUDA_SPACE
