// The loss, guesses, and what is counted beside them.
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/weights.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

SoftmaxShape softmax_shape(const Node& node, const Shape& logits) {
  return {.images = logits[0],
          .classes = logits[1],
          .smoothing = node.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing};
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
