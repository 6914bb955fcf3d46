// The loss, guesses, and what is counted beside them.
#include <algorithm>
#include <functional>
#include <vector>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/matmul.h"
#include "backend/cpu/kernels/weights.h"
#include "backend/cpu/lower.h"
#include "ops/reference_sums.h"

namespace podium::cpu {
namespace {

SoftmaxShape softmax_shape(const Node& node, const Shape& logits) {
  return {.images = logits[0],
          .classes = logits[1],
          .smoothing = node.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing};
}

// Rows of fewer classes leave most of a vector empty.
constexpr std::int64_t kLeastClasses = 64;
// Whether a kernel reads the logits as a product of plain matrices left them.
bool in_rows(const Lowering& l, Value logits) {
  return !l.in_lanes(logits) && l.shape(logits)[1] >= kLeastClasses;
}

// The gradients of the losses, for kernels that read rows.
struct RowGradients {
  std::vector<Slot> reads;
  std::function<RowWeights(const Memory&)> from;  // that of a row on
};
RowGradients row_gradients(Lowering& l, Value value, std::int64_t row = 0) {
  if (const float* same = l.constant(value))
    return {{}, [g = *same](const Memory&) { return RowWeights{.same = g}; }};
  const Slot slot = l.plain(value);
  return {{slot}, [=](const Memory& m) { return RowWeights{.each = m.f32(slot) + row}; }};
}

std::vector<Slot> with(std::vector<Slot> slots, const std::vector<Slot>& others) {
  slots.insert(slots.end(), others.begin(), others.end());
  return slots;
}

// The two operations differ in whether they lead on to x and w. So many rows at a time as a run of
// a product has terms: the products of each time are the next run of the gradient to w.
void lower_linear(Lowering& l, const Node& node, std::int32_t index, bool with_gradients) {
  const Shape &xs = l.shape(node.inputs[0]), &ws = l.shape(node.inputs[1]);
  const std::int64_t rows = xs[0], depth = xs[1], classes = ws[0];
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]),
             labels = l.plain(node.inputs[2]), loss = l.define_plain({index, 0}),
             dx = with_gradients ? l.define_plain({index, 1}) : loss,
             dw = with_gradients ? l.define_plain({index, 2}) : loss,
             z = l.temporary(std::min(rows, kProductRun) * classes);
  const auto emit_product = [&](const char* what, const MatmulShape& shape,
                                const std::vector<Slot>& reads, Slot to, const auto& run) {
    const double terms = static_cast<double>(shape.rows * shape.columns) *
                         static_cast<double>(shape.depth),
                 floats =
                     static_cast<double>(shape.rows * shape.depth + shape.depth * shape.columns +
                                         shape.rows * shape.columns);
    l.emit({.name = cat(node.op->name, " ", node.name, what),
            .parts = matmul_parts(shape),
            .reads = reads,
            .writes = {to},
            .run = run,
            .cost = {2 * terms, 4 * floats}});
  };
  for (std::int64_t first = 0; first < rows; first += kProductRun) {
    const std::int64_t count = std::min(kProductRun, rows - first);
    const MatmulShape forward{
        .rows = count, .columns = classes, .depth = depth, .transpose_b = true};
    emit_product(" logits", forward, {x, w}, z, [=](const Memory& m, int part, int) {
      cpu::matmul(forward, m.f32(x) + first * depth, m.f32(w), m.f32(z), part);
    });
    const SoftmaxShape softmax{
        .images = count,
        .classes = classes,
        .smoothing = node.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing};
    const RowGradients g =
        with_gradients ? row_gradients(l, node.inputs[3], first) : RowGradients{};
    const double logits = static_cast<double>(count * classes);
    l.emit({.name = cat(node.op->name, " ", node.name, " losses"),
            .parts = softmax_cross_entropy_rows_parts(softmax),
            .reads = with({z, labels}, g.reads),
            .writes = {loss, z},
            .run =
                [=](const Memory& m, int part, int) {
                  softmax_cross_entropy_rows(softmax, m.f32(z), m.i32(labels) + first,
                                             with_gradients ? g.from(m) : RowWeights{},
                                             m.f32(loss) + first,
                                             with_gradients ? m.f32(z) : nullptr, part);
                },
            .cost = {20 * logits, 8 * logits}});
    if (!with_gradients) continue;
    const MatmulShape to_x{.rows = count, .columns = depth, .depth = classes};
    emit_product(" input", to_x, {z, w}, dx, [=](const Memory& m, int part, int) {
      cpu::matmul(to_x, m.f32(z), m.f32(w), m.f32(dx) + first * depth, part);
    });
    const MatmulShape to_w{
        .rows = classes, .columns = depth, .depth = count, .transpose_a = true, .adds = first > 0};
    emit_product(" weights", to_w, first > 0 ? std::vector{z, x, dw} : std::vector{z, x}, dw,
                 [=](const Memory& m, int part, int) {
                   cpu::matmul(to_w, m.f32(z), m.f32(x) + first * depth, m.f32(dw), part);
                 });
  }
}

}  // namespace

void lower_softmax_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  if (in_rows(l, node.inputs[0])) {
    const Slot z = l.plain(node.inputs[0]), labels = l.plain(node.inputs[1]),
               loss = l.define_plain({index, 0});
    l.emit({.parts = softmax_cross_entropy_rows_parts(shape),
            .reads = {z, labels},
            .writes = {loss},
            .run = [=](const Memory& m, int part, int) {
              softmax_cross_entropy_rows(shape, m.f32(z), m.i32(labels), {}, m.f32(loss), nullptr,
                                         part);
            }});
    return;
  }
  const Slot z = l.lanes(node.inputs[0]), labels = l.lanes(node.inputs[1]),
             loss = l.define_lanes({index, 0});
  l.emit({.parts = softmax_cross_entropy_parts(shape),
          .reads = {z, labels},
          .writes = {loss},
          .run = [=](const Memory& m, int part, int) {
            cpu::softmax_cross_entropy(shape, m.f32(z), m.i32(labels), m.f32(loss), part);
          }});
}

void lower_softmax_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  if (in_rows(l, node.inputs[0])) {
    const Slot z = l.plain(node.inputs[0]), labels = l.plain(node.inputs[1]);
    const RowGradients g = row_gradients(l, node.inputs[2]);
    const Slot dz = l.define_plain({index, 0});
    l.emit({.parts = softmax_cross_entropy_rows_parts(shape),
            .reads = with({z, labels}, g.reads),
            .writes = {dz},
            .in_place = {z},
            .run = [=](const Memory& m, int part, int) {
              softmax_cross_entropy_rows(shape, m.f32(z), m.i32(labels), g.from(m), nullptr,
                                         m.f32(dz), part);
            }});
    return;
  }
  const Slot z = l.lanes(node.inputs[0]), labels = l.lanes(node.inputs[1]);
  const float* weight = l.constant(node.inputs[2]);
  const Slot losses = weight == nullptr ? l.lanes(node.inputs[2]) : -1;
  const Slot dz = l.define_lanes({index, 0});
  const float g = weight == nullptr ? 1.0f : *weight;
  l.emit({.parts = softmax_cross_entropy_parts(shape),
          .reads = {z, labels},
          .writes = {dz},
          .run = [=](const Memory& m, int part, int) {
            cpu::softmax_cross_entropy_grad(shape, m.f32(z), m.i32(labels), g, nullptr, m.f32(dz),
                                            part);
          }});
  if (weight != nullptr) return;
  // A weight for each example: (p - t) * 1 is exact, so its own product follows.
  l.emit({.name = "softmax_cross_entropy_grad weights",
          .reads = {losses, dz},
          .writes = {dz},
          .run = [=](const Memory& m, int, int) {
            for (std::int64_t block = 0; block < blocks_of(shape.images); ++block)
              for (std::int64_t k = 0; k < shape.classes; ++k)
                for (std::int64_t lane = 0; lane < cpu::kLanes; ++lane)
                  m.f32(dz)[(block * shape.classes + k) * cpu::kLanes + lane] *=
                      m.f32(losses)[block * cpu::kLanes + lane];
          }});
}

void lower_linear_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear(l, node, index, false);
}
void lower_linear_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear(l, node, index, true);
}

void lower_batch_mean(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.lanes(node.inputs[0]), mean = l.define_plain({index, 0});
  const std::int64_t images = l.shape(node.inputs[0])[0];
  l.emit({.reads = {x}, .writes = {mean}, .run = [=](const Memory& m, int, int) {
            cpu::batch_mean(images, m.f32(x), m.f32(mean));
          }});
}

void lower_correct(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.lanes(node.inputs[0]), labels = l.lanes(node.inputs[1]),
             count = l.define_plain({index, 0});
  const Shape& logits = l.shape(node.inputs[0]);
  const std::int64_t images = logits[0], classes = logits[1];
  l.emit({.reads = {z, labels}, .writes = {count}, .run = [=](const Memory& m, int, int) {
            cpu::correct(images, classes, m.f32(z), m.i32(labels), m.i32(count));
          }});
}

void lower_argmax(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.lanes(node.inputs[0]), guesses = l.define_plain({index, 0});
  const Shape& logits = l.shape(node.inputs[0]);
  const std::int64_t images = logits[0], classes = logits[1];
  l.emit({.parts = argmax_parts(images, classes),
          .reads = {z},
          .writes = {guesses},
          .run = [=](const Memory& m, int part, int) {
            cpu::argmax(images, classes, m.f32(z), m.i32(guesses), part);
          }});
}

void lower_weigh(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.lanes(node.inputs[0]), weights = l.lanes(node.inputs[1]),
             result = l.define_lanes({index, 0});
  const std::int64_t count = l.shape(node.inputs[0])[0];
  l.emit({.reads = {x, weights}, .writes = {result}, .run = [=](const Memory& m, int, int) {
            cpu::weigh(count, m.f32(x), m.i32(weights), m.f32(result));
          }});
}

void lower_weighted_count(Lowering& l, const Node& node, std::int32_t index) {
  const Slot weights = l.lanes(node.inputs[0]), a = l.lanes(node.inputs[1]),
             b = l.lanes(node.inputs[2]), sum = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0])[0];
  l.emit({.reads = {weights, a, b}, .writes = {sum}, .run = [=](const Memory& m, int, int) {
            cpu::weighted_count(count, m.i32(weights), m.i32(a), m.i32(b), m.i32(sum));
          }});
}

}  // namespace podium::cpu
