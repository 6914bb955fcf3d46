// The loss, guesses, and what is counted beside them.
#include <algorithm>
#include <string>
#include <vector>

#include "backend/cpu/kernels/bf16/matmul_bf16.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/products/dense.h"
#include "backend/cpu/kernels/products/pack.h"
#include "backend/cpu/kernels/weights.h"
#include "backend/cpu/lower.h"
#include "backend/cpu/lower_phases.h"
#include "base/numerics/bf16.h"
#include "ops/bf16.h"
#include "ops/reference_sums.h"

namespace podium::cpu {
namespace {

SoftmaxShape softmax_shape(const Node& node, const Shape& logits) {
  return {.images = logits[0],
          .classes = logits[1],
          .smoothing = node.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing};
}

// Multiplies the gradients of each loss by that loss's own; (p - t) * 1 was exact.
int weigh_gradients_parts(const SoftmaxShape& shape) {
  return parts_of(blocks_of(shape.images), shape.classes * kLanes, 1 << 16);
}
void weigh_gradients(const SoftmaxShape& shape, const float* weights, float* dz, int part) {
  const Range blocks = share_of(blocks_of(shape.images), weigh_gradients_parts(shape), part);
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block)
    for (std::int64_t k = 0; k < shape.classes; ++k)
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        dz[(block * shape.classes + k) * kLanes + lane] *= weights[block * kLanes + lane];
}

// A linear_cross_entropy and, if it has one, its gradient, of some rows after the others; `z` are
// the logits of these, in lanes, which become their gradients.
struct LinearLoss {
  Lowering& l;
  const Node& node;
  bool with_gradients;
  std::int64_t rows, depth, classes, most;  // `most` rows at a time
  Slot labels, loss, z, weights;
  bool weighs = false;
  float g = 1;  // the gradient of every loss, where these have no weights

  LinearLoss(Lowering& lowering, const Node& its_node, std::int32_t index, std::int64_t rows_once)
      : l(lowering),
        node(its_node),
        with_gradients(node.inputs.size() > 3),
        rows(l.shape(node.inputs[0])[0]),
        depth(l.shape(node.inputs[0])[1]),
        classes(l.shape(node.inputs[1])[0]),
        most(std::min(rows, rows_once)),
        labels(l.lanes(node.inputs[2])),
        loss(l.define_lanes({index, 0})),
        z(l.temporary(padded(most) * classes)),
        weights(labels) {
    if (!with_gradients) return;
    const float* const same = l.constant(node.inputs[3]);
    weighs = same == nullptr;
    if (weighs)
      weights = l.lanes(node.inputs[3]);
    else
      g = *same;
  }

  std::string name(const char* what) const { return cat(node.op->name, " ", node.name, " ", what); }
  // kernel(memory, part)
  void emit(const char* what, int parts, const std::vector<Slot>& reads,
            const std::vector<Slot>& writes, const Cost& cost, const auto& kernel) const {
    l.emit({.name = name(what),
            .parts = parts,
            .reads = reads,
            .writes = writes,
            .run = [=](const Memory& m, int part, int) { kernel(m, part); },
            .cost = cost});
  }
  Cost product_cost(std::int64_t count) const {
    const auto logits = static_cast<double>(count * classes);
    return {2 * logits * static_cast<double>(depth),
            4 * (logits + static_cast<double>((count + classes) * depth))};
  }
  // Losses, and the gradients in the place of the logits.
  void emit_losses(std::int64_t first, std::int64_t count) const {
    const SoftmaxShape softmax = softmax_shape(node, Shape{count, classes});
    const auto logits = static_cast<double>(count * classes);
    emit("losses", softmax_cross_entropy_parts(softmax), {z, labels}, {loss, z},
         {20 * logits, 8 * logits},
         [=, logits = z, losses = loss, of = labels, grad = with_gradients, each = g](
             const Memory& m, int part) {
           softmax_cross_entropy_grad(softmax, m.f32(logits), m.i32(of) + first, each,
                                      m.f32(losses) + first, grad ? m.f32(logits) : nullptr, part);
         });
    if (weighs)
      emit("weights of losses", weigh_gradients_parts(softmax), {z, weights}, {z},
           {logits, 8 * logits}, [=, gradients = z, factors = weights](const Memory& m, int part) {
             weigh_gradients(softmax, m.f32(factors) + first, m.f32(gradients), part);
           });
  }
};

// So many rows at a time as a run of a product has terms: those of each time are the next run of
// the gradient to w.
void lower_linear(Lowering& l, const Node& node, std::int32_t index) {
  const LinearLoss loss(l, node, index, kProductRun);
  const std::int64_t depth = loss.depth;
  const Slot x = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]), z = loss.z,
             dx = loss.with_gradients ? l.define_lanes({index, 1}) : -1,
             dw = loss.with_gradients ? l.define_plain({index, 2}) : -1,
             x_rows = loss.with_gradients ? l.temporary(rows_floats(loss.most, depth)) : -1;
  for (std::int64_t first = 0; first < loss.rows; first += loss.most) {
    const std::int64_t count = std::min(loss.most, loss.rows - first), from = first * depth;
    const Cost product = loss.product_cost(count);
    const DenseShape dense{
        .images = count, .inputs = depth, .outputs = loss.classes, .adds = first > 0};
    loss.emit("logits", dense_forward_parts(dense), {x, w}, {z}, product,
              [=](const Memory& m, int part) {
                dense_forward(dense, m.f32(x) + from, m.f32(w), m.f32(z), part);
              });
    loss.emit_losses(first, count);
    if (!loss.with_gradients) continue;
    loss.emit("input", dense_grad_input_parts(dense), {z, w}, {dx}, product,
              [=](const Memory& m, int part) {
                dense_grad_input(dense, m.f32(z), m.f32(w), m.f32(dx) + from, part);
              });
    loss.emit("rows", lanes_to_rows_parts(count, depth), {x}, {x_rows},
              {0, 8 * static_cast<double>(count * depth)}, [=](const Memory& m, int part) {
                lanes_to_rows(count, depth, m.f32(x) + from, m.f32(x_rows), part);
              });
    loss.emit("weights", dense_grad_weight_parts(dense),
              first > 0 ? std::vector{z, x_rows, dw} : std::vector{z, x_rows}, {dw}, product,
              [=](const Memory& m, int part) {
                dense_grad_weight(dense, m.f32(z), m.f32(x_rows), m.f32(dw), part);
              });
  }
}

// A sum of BF16 products may be cut after any run, so rows are many: w is packed for each time.
void lower_linear_bf16(Lowering& l, const Node& node, std::int32_t index) {
  constexpr std::int64_t kRows = 512;
  static_assert(kRows % kBf16Run == 0);
  const LinearLoss loss(l, node, index, kRows);
  const std::int64_t depth = loss.depth, classes = loss.classes;
  const Slot x = l.plain(node.inputs[0]), w = l.plain(node.inputs[1]), z = loss.z;
  ResultSlot dx;
  if (loss.with_gradients) dx = l.define_result({index, 1}, false);
  const Slot dw = loss.with_gradients ? l.define_plain({index, 2}) : -1;
  for (std::int64_t first = 0; first < loss.rows; first += kRows) {
    const std::int64_t count = std::min(kRows, loss.rows - first), from = first * depth;
    const auto emit_product = [&](const char* what, MatmulBf16 product, Slot a, Slot b, Slot c,
                                  std::int64_t b_from, std::int64_t c_from) {
      product.order = bf16_order_of(node);
      std::vector<Slot> reads = {a, b};
      if (product.continues) reads.push_back(c);
      emit_phases(
          l, matmul_bf16_work(product),
          [=](const Memory& m, float* shared, float* scratch, int phase, int part) {
            matmul_bf16(product, m.f32(a), m.f32(b) + b_from, m.f32(c) + c_from, shared, scratch,
                        phase, part);
          },
          reads, {c}, loss.name(what), loss.product_cost(count));
    };
    emit_product("logits",
                 {.shape = {.rows = classes, .columns = count, .depth = depth, .transpose_b = true},
                  .c_in_lanes = true},
                 w, x, z, from, 0);
    loss.emit_losses(first, count);
    if (!loss.with_gradients) continue;
    emit_product("input",
                 {.shape = {.rows = count, .columns = depth, .depth = classes},
                  .a_in_lanes = true,
                  .rounded = dx.rounded},
                 z, w, dx.slot, 0, from);
    emit_product("weights",
                 {.shape = {.rows = classes, .columns = depth, .depth = count, .transpose_a = true},
                  .a_in_lanes = true,
                  .continues = first > 0},
                 z, x, dw, from, 0);
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
          .parts = weigh_gradients_parts(shape),
          .reads = {losses, dz},
          .writes = {dz},
          .run = [=](const Memory& m, int part, int) {
            weigh_gradients(shape, m.f32(losses), m.f32(dz), part);
          }});
}

void lower_linear_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear(l, node, index);
}
void lower_linear_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear(l, node, index);
}
void lower_linear_cross_entropy_bf16(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear_bf16(l, node, index);
}
void lower_linear_cross_entropy_bf16_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear_bf16(l, node, index);
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
