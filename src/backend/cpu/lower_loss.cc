// The loss, guesses, and what is counted beside them.
#include <algorithm>
#include <vector>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/products/dense.h"
#include "backend/cpu/kernels/products/pack.h"
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

// Multiplies the gradients of each loss by that loss's own; (p - t) * 1 was exact.
void weigh_gradients(const SoftmaxShape& shape, const float* weights, float* dz) {
  for (std::int64_t block = 0; block < blocks_of(shape.images); ++block)
    for (std::int64_t k = 0; k < shape.classes; ++k)
      for (std::int64_t lane = 0; lane < cpu::kLanes; ++lane)
        dz[(block * shape.classes + k) * cpu::kLanes + lane] *= weights[block * cpu::kLanes + lane];
}

// The two operations differ in whether they lead on to x and w. So many rows at a time as a run of
// a product has terms: those of each time are the next run of the gradient to w.
void lower_linear(Lowering& l, const Node& node, std::int32_t index, bool with_gradients) {
  const Shape &xs = l.shape(node.inputs[0]), &ws = l.shape(node.inputs[1]);
  const std::int64_t rows = xs[0], depth = xs[1], classes = ws[0],
                     most = std::min(rows, kProductRun);
  const Slot x = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]),
             labels = l.lanes(node.inputs[2]), loss = l.define_lanes({index, 0}),
             z = l.temporary(padded(most) * classes);
  const float* const same_weight = with_gradients ? l.constant(node.inputs[3]) : nullptr;
  const bool weighs = with_gradients && same_weight == nullptr;
  const float g = same_weight == nullptr ? 1.0f : *same_weight;
  const Slot weights = weighs ? l.lanes(node.inputs[3]) : labels,
             dx = with_gradients ? l.define_lanes({index, 1}) : loss,
             dw = with_gradients ? l.define_plain({index, 2}) : loss,
             x_rows = with_gradients ? l.temporary(rows_floats(most, depth)) : x;
  for (std::int64_t first = 0; first < rows; first += kProductRun) {
    const std::int64_t count = std::min(kProductRun, rows - first), from = first * depth;
    const auto emit = [&](const char* what, int parts, const std::vector<Slot>& reads,
                          const std::vector<Slot>& writes, const Cost& cost, const auto& run) {
      l.emit({.name = cat(node.op->name, " ", node.name, " ", what),
              .parts = parts,
              .reads = reads,
              .writes = writes,
              .run = [=](const Memory& m, int part, int) { run(m, part); },
              .cost = cost});
    };
    const auto logits = static_cast<double>(count * classes),
               values = static_cast<double>(count * depth),
               table = static_cast<double>(classes * depth);
    const Cost product{2 * logits * static_cast<double>(depth), 4 * (logits + values + table)};
    const DenseShape dense{.images = count, .inputs = depth, .outputs = classes, .adds = first > 0};
    emit("logits", dense_forward_parts(dense), {x, w}, {z}, product,
         [=](const Memory& m, int part) {
           dense_forward(dense, m.f32(x) + from, m.f32(w), m.f32(z), part);
         });
    const SoftmaxShape softmax = softmax_shape(node, Shape{count, classes});
    emit("losses", softmax_cross_entropy_parts(softmax), {z, labels}, {loss, z},
         {20 * logits, 8 * logits}, [=](const Memory& m, int part) {
           softmax_cross_entropy_grad(softmax, m.f32(z), m.i32(labels) + first, g,
                                      m.f32(loss) + first, with_gradients ? m.f32(z) : nullptr,
                                      part);
         });
    if (!with_gradients) continue;
    if (weighs)
      emit("weights of losses", 1, {z, weights}, {z}, {logits, 8 * logits},
           [=](const Memory& m, int) {
             weigh_gradients(softmax, m.f32(weights) + first, m.f32(z));
           });
    emit("input", dense_grad_input_parts(dense), {z, w}, {dx}, product,
         [=](const Memory& m, int part) {
           dense_grad_input(dense, m.f32(z), m.f32(w), m.f32(dx) + from, part);
         });
    emit("rows", lanes_to_rows_parts(count, depth), {x}, {x_rows}, {0, 8 * values},
         [=](const Memory& m, int part) {
           lanes_to_rows(count, depth, m.f32(x) + from, m.f32(x_rows), part);
         });
    emit("weights", dense_grad_weight_parts(dense),
         first > 0 ? std::vector{z, x_rows, dw} : std::vector{z, x_rows}, {dw}, product,
         [=](const Memory& m, int part) {
           dense_grad_weight(dense, m.f32(z), m.f32(x_rows), m.f32(dw), part);
         });
  }
}

}  // namespace

void lower_softmax_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.lanes(node.inputs[0]), labels = l.lanes(node.inputs[1]),
             loss = l.define_lanes({index, 0});
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  l.emit({.parts = softmax_cross_entropy_parts(shape),
          .reads = {z, labels},
          .writes = {loss},
          .run = [=](const Memory& m, int part, int) {
            cpu::softmax_cross_entropy(shape, m.f32(z), m.i32(labels), m.f32(loss), part);
          }});
}

void lower_softmax_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.lanes(node.inputs[0]), labels = l.lanes(node.inputs[1]);
  const float* weight = l.constant(node.inputs[2]);
  const Slot losses = weight == nullptr ? l.lanes(node.inputs[2]) : -1;
  const Slot dz = l.define_lanes({index, 0});
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  const float g = weight == nullptr ? 1.0f : *weight;
  l.emit({.parts = softmax_cross_entropy_parts(shape),
          .reads = {z, labels},
          .writes = {dz},
          .run = [=](const Memory& m, int part, int) {
            cpu::softmax_cross_entropy_grad(shape, m.f32(z), m.i32(labels), g, nullptr, m.f32(dz),
                                            part);
          }});
  if (weight != nullptr) return;
  l.emit({.name = "softmax_cross_entropy_grad weights",
          .reads = {losses, dz},
          .writes = {dz},
          .run = [=](const Memory& m, int, int) {
            weigh_gradients(shape, m.f32(losses), m.f32(dz));
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
