// Matrix products: with the batch in the lanes where an operand is a batch value, plain otherwise.
#include "backend/cpu/kernels/products/dense.h"
#include "backend/cpu/kernels/products/matmul.h"
#include "backend/cpu/kernels/products/pack.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

// y [A, B] = a^T b, both [N, ...] in lanes.
void product_over_images(Lowering& lowering, Value a, Value b, Value y) {
  const Slot sa = lowering.lanes(a), sb = lowering.lanes(b);
  const std::int64_t images = lowering.shape(a)[0], outputs = lowering.shape(a)[1],
                     inputs = lowering.shape(b)[1];
  const Slot rows = lowering.temporary(rows_floats(images, inputs));
  const Slot out = lowering.define_plain(y);
  const DenseShape shape{.images = images, .inputs = inputs, .outputs = outputs};
  const std::string name = cat("matmul ", lowering.graph().node(y).name, " weights");
  lowering.emit({.name = name,
                 .parts = lanes_to_rows_parts(images, inputs),
                 .reads = {sb},
                 .writes = {rows},
                 .run = [=](const Memory& m, int part,
                            int) { lanes_to_rows(images, inputs, m.f32(sb), m.f32(rows), part); },
                 .cost = {0, 8.0 * static_cast<double>(images * inputs)}});
  lowering.emit(
      {.name = name,
       .parts = dense_grad_weight_parts(shape),
       .reads = {sa, rows},
       .writes = {out},
       .run = [=](const Memory& m, int part,
                  int) { dense_grad_weight(shape, m.f32(sa), m.f32(rows), m.f32(out), part); },
       .cost = {2.0 * static_cast<double>(images * inputs * outputs),
                4.0 * static_cast<double>(images * (inputs + outputs) + inputs * outputs)}});
}

}  // namespace

void lower_matmul(Lowering& lowering, const Node& node, std::int32_t index) {
  const auto& t = node.attributes.as<MatmulAttributes>();
  const Value a = node.inputs[0], b = node.inputs[1], y{index, 0};
  const Shape& as = lowering.shape(a);
  const bool batch_a = lowering.in_lanes(a), batch_b = lowering.in_lanes(b);
  if ((batch_a || batch_b) && t.transpose_a && !t.transpose_b) {
    product_over_images(lowering, a, b, y);
  } else if (batch_a && !batch_b && !t.transpose_a) {
    const Slot x = lowering.lanes(a), w = lowering.plain(b), out = lowering.define_lanes(y);
    const std::int64_t columns = lowering.shape(y)[1];
    if (t.transpose_b) {
      const DenseShape shape{.images = as[0], .inputs = as[1], .outputs = columns};
      lowering.emit({.parts = dense_forward_parts(shape),
                     .reads = {x, w},
                     .writes = {out},
                     .run = [=](const Memory& m, int part, int) {
                       dense_forward(shape, m.f32(x), m.f32(w), m.f32(out), part);
                     }});
    } else {
      const DenseShape shape{.images = as[0], .inputs = columns, .outputs = as[1]};
      lowering.emit({.name = cat("matmul ", node.name, " input"),
                     .parts = dense_grad_input_parts(shape),
                     .reads = {x, w},
                     .writes = {out},
                     .run = [=](const Memory& m, int part, int) {
                       dense_grad_input(shape, m.f32(x), m.f32(w), m.f32(out), part);
                     }});
    }
  } else {
    const Slot pa = lowering.plain(a), pb = lowering.plain(b), out = lowering.define_plain(y);
    const MatmulShape shape{.rows = lowering.shape(y)[0],
                            .columns = lowering.shape(y)[1],
                            .depth = t.transpose_a ? as[0] : as[1],
                            .transpose_a = t.transpose_a,
                            .transpose_b = t.transpose_b};
    lowering.emit({.parts = matmul_parts(shape),
                   .reads = {pa, pb},
                   .writes = {out},
                   .run = [=](const Memory& m, int part, int) {
                     cpu::matmul(shape, m.f32(pa), m.f32(pb), m.f32(out), part);
                   }});
  }
}

}  // namespace podium::cpu
