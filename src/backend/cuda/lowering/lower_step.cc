// The loss and what is counted beside it; norms and hashes; views of images; operations that a
// program defines for itself.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/kernels/norms.h"
#include "backend/cuda/kernels/weights.h"
#include "backend/cuda/lowering/lower.h"
#include "ops/reference_sums.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

SoftmaxShape softmax_shape(const Node& node, const Shape& logits) {
  return {.images = logits[0],
          .classes = logits[1],
          .smoothing = node.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing};
}

// Fewer classes leave most of a block idle.
constexpr std::int64_t kLeastClasses = 512;
// Whether a kernel reads the logits as a product of plain matrices left them.
bool in_rows(const Lowering& l, Value logits) {
  return !l.is_batch_last(logits) && l.shape(logits)[1] >= kLeastClasses;
}

// A linear_cross_entropy and, if it has one, its gradient, of some rows after the others. So many
// in FP32 as a run of a product has terms: the products of each time are the next run of the
// gradient to w. A sum of BF16 products may be cut after any run of 32.
template <bool kBf16>
void lower_linear(Lowering& l, const Node& node, std::int32_t index) {
  const bool with_gradients = node.inputs.size() > 3;
  const Shape &xs = l.shape(node.inputs[0]), &ws = l.shape(node.inputs[1]);
  for (const Shape& shape : {xs, ws})
    if (kBf16) require_bf16_size(node, shape);
  const std::int64_t rows = xs[0], depth = xs[1], classes = ws[0],
                     most = std::min(rows, kBf16 ? 1024 : kProductRun);
  const MatrixLayout by_depth{depth, 1}, by_class{classes, 1};
  const auto operand = [&](Value value) {
    return kBf16 ? l.rounding_source(value, false) : SourceSlot{l.plain(value), false};
  };
  const SourceSlot x = operand(node.inputs[0]), w = operand(node.inputs[1]);
  const Slot labels = l.plain(node.inputs[2]),
             dloss = with_gradients ? l.plain(node.inputs[3]) : labels,
             loss = l.define_plain({index, 0}), z = l.temporary(most * classes);
  // The gradient to the logits is where these were, or in halves as products read them.
  ResultSlots dz, dx, dw;
  if (with_gradients) {
    if (kBf16 && is_filled(classes))
      dz.halves = l.temporary(most * classes / 2);
    else
      dz.floats = z;
    if constexpr (kBf16)
      dx = l.define_result({index, 1}, false);
    else
      dx.floats = l.define_plain({index, 1});
    dw.floats = l.define_plain({index, 2});
  }
  const SourceSlot gradient =
      dz.halves == ResultSlots::kNone ? SourceSlot{z, false} : SourceSlot{dz.halves, true};
  // Of a from the a_from-th element on, and so on.
  const auto emit_product = [&](const MatmulShape& shape, SourceSlot a, std::int64_t a_from,
                                SourceSlot b, std::int64_t b_from, const ResultSlots& y,
                                std::int64_t y_from) {
    const Slot own = l.temporary(kBf16 ? matmul_bf16_scratch(shape) : matmul_scratch(shape));
    std::vector<Slot> reads = {a.slot, b.slot};
    if (shape.adds) reads.push_back(y.floats);
    l.emit({.reads = reads,
            .writes = y.slots({own}),
            .run =
                [=](const Launch& launch, const Memory& m) {
                  const Source left = m.source(a).from(a_from), right = m.source(b).from(b_from);
                  const Result to = m.result(y).from(y_from);
                  if constexpr (kBf16)
                    matmul_bf16(launch, shape, left, right, to, m.f32(own));
                  else
                    matmul(launch, shape, left.floats, right.floats, to.floats, m.f32(own));
                },
            .cost = {2 * static_cast<double>(shape.rows * shape.columns) *
                         static_cast<double>(shape.depth),
                     0}});
  };
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first), from = first * depth;
    emit_product({.rows = count,
                  .depth = depth,
                  .columns = classes,
                  .a = by_depth,
                  .b = turned(by_depth),
                  .y = by_class},
                 x, from, w, 0, {.floats = z}, 0);
    const SoftmaxShape softmax = softmax_shape(node, Shape{count, classes});
    l.emit(
        {.reads = {z, labels, dloss},
         .writes = dz.slots({loss, z}),
         .run =
             [=](const Launch& launch, const Memory& m) {
               softmax_cross_entropy_rows(
                   launch, softmax,
                   {.z = m.f32(z),
                    .labels = Each<const std::int32_t>(m.i32(labels)).from(first),
                    .dloss = with_gradients ? ConstFloats(m.f32(dloss)).from(first) : ConstFloats{},
                    .loss = m.f32(loss).from(first),
                    .dz = m.result(dz)});
             },
         .cost = {20.0 * static_cast<double>(count * classes), 0}});
    if (!with_gradients) continue;
    emit_product({.rows = count,
                  .depth = classes,
                  .columns = depth,
                  .a = by_class,
                  .b = by_depth,
                  .y = by_depth},
                 gradient, 0, w, 0, dx, from);
    emit_product({.rows = classes,
                  .depth = count,
                  .columns = depth,
                  .a = turned(by_class),
                  .b = by_depth,
                  .y = by_depth,
                  .adds = first > 0},
                 gradient, 0, x, from, dw, 0);
  }
}

}  // namespace

void lower_softmax_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  if (in_rows(l, node.inputs[0])) {
    const Slot z = l.plain(node.inputs[0]), labels = l.plain(node.inputs[1]),
               loss = l.define_plain({index, 0});
    l.emit(
        {.reads = {z, labels}, .writes = {loss}, .run = [=](const Launch& launch, const Memory& m) {
           softmax_cross_entropy_rows(
               launch, shape, {.z = m.f32(z), .labels = m.i32(labels), .loss = m.f32(loss)});
         }});
    return;
  }
  const Slot z = l.batch_last(node.inputs[0]), labels = l.batch_last(node.inputs[1]),
             loss = l.define_batch_last({index, 0});
  l.emit(
      {.reads = {z, labels}, .writes = {loss}, .run = [=](const Launch& launch, const Memory& m) {
         PODIUM_CUDA_SPACE::softmax_cross_entropy(launch, shape, m.f32(z), m.i32(labels),
                                                  m.f32(loss));
       }});
}

void lower_softmax_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  const SoftmaxShape shape = softmax_shape(node, l.shape(node.inputs[0]));
  if (in_rows(l, node.inputs[0])) {
    const Slot z = l.plain(node.inputs[0]), labels = l.plain(node.inputs[1]),
               dloss = l.plain(node.inputs[2]);
    const ResultSlots dz = l.define_result({index, 0}, false);
    l.emit(
        {.reads = {z, labels, dloss},
         .writes = dz.slots(),
         .run = [=](const Launch& launch, const Memory& m) {
           softmax_cross_entropy_rows(
               launch, shape,
               {.z = m.f32(z), .labels = m.i32(labels), .dloss = m.f32(dloss), .dz = m.result(dz)});
         }});
    return;
  }
  const Slot z = l.batch_last(node.inputs[0]), labels = l.batch_last(node.inputs[1]),
             dloss = l.batch_last(node.inputs[2]), dz = l.define_batch_last({index, 0});
  l.emit({.reads = {z, labels, dloss},
          .writes = {dz},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::softmax_cross_entropy_grad(launch, shape, m.f32(z), m.i32(labels),
                                                          m.f32(dloss), m.f32(dz));
          }});
}

void lower_linear_cross_entropy(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear<false>(l, node, index);
}
void lower_linear_cross_entropy_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear<false>(l, node, index);
}
void lower_linear_cross_entropy_bf16(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear<true>(l, node, index);
}
void lower_linear_cross_entropy_bf16_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_linear<true>(l, node, index);
}

void lower_batch_mean(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.batch_last(node.inputs[0]), mean = l.define_plain({index, 0});
  const std::int64_t images = l.shape(node.inputs[0])[0];
  l.emit({.reads = {x}, .writes = {mean}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::batch_mean(launch, images, m.f32(x), m.f32(mean));
          }});
}

void lower_correct(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.batch_last(node.inputs[0]), labels = l.batch_last(node.inputs[1]),
             count = l.define_plain({index, 0});
  const std::int64_t images = l.shape(node.inputs[0])[0], classes = l.shape(node.inputs[0])[1];
  l.emit(
      {.reads = {z, labels}, .writes = {count}, .run = [=](const Launch& launch, const Memory& m) {
         PODIUM_CUDA_SPACE::correct(launch, images, classes, m.f32(z), m.i32(labels), m.i32(count));
       }});
}

void lower_argmax(Lowering& l, const Node& node, std::int32_t index) {
  const Slot z = l.batch_last(node.inputs[0]), guesses = l.define_plain({index, 0});
  const std::int64_t images = l.shape(node.inputs[0])[0], classes = l.shape(node.inputs[0])[1];
  l.emit({.reads = {z}, .writes = {guesses}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::argmax(launch, images, classes, m.f32(z), m.i32(guesses));
          }});
}

void lower_weigh(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.plain(node.inputs[0]), weights = l.plain(node.inputs[1]),
             result = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0])[0];
  l.emit({.reads = {x, weights},
          .writes = {result},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::weigh(launch, count, m.f32(x), m.i32(weights), m.f32(result));
          }});
}

void lower_weighted_count(Lowering& l, const Node& node, std::int32_t index) {
  const Slot weights = l.plain(node.inputs[0]), a = l.plain(node.inputs[1]),
             b = l.plain(node.inputs[2]), sum = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0])[0];
  l.emit({.reads = {weights, a, b},
          .writes = {sum},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::weighted_count(launch, count, m.i32(weights), m.i32(a), m.i32(b),
                                              m.i32(sum));
          }});
}

void lower_square_sums(Lowering& l, const Node& node, std::int32_t index) {
  const Slot x = l.plain(node.inputs[0]), sums = l.define_plain({index, 0});
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  l.emit({.reads = {x}, .writes = {sums}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::square_sums(launch, count, m.f32(x), m.f32(sums));
          }});
}

void lower_global_norm(Lowering& l, const Node& node, std::int32_t index) {
  const auto& first_runs = node.attributes.as<GlobalNormAttributes>().first_runs;
  const Slot first = l.data(std::as_bytes(std::span(first_runs))), sums = l.plain(node.inputs[0]),
             norm = l.define_plain({index, 0}), scratch = l.temporary(first_runs.back());
  const auto parameters = static_cast<std::int64_t>(first_runs.size()) - 1;
  const std::int64_t runs = first_runs.back();
  l.emit({.reads = {sums, first},
          .writes = {norm, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            const Each<const std::int64_t> places{
                reinterpret_cast<const std::int64_t*>(m.first(first)), 0};
            PODIUM_CUDA_SPACE::global_norm(launch, parameters, runs, places, m.f32(sums),
                                           m.f32(scratch), m.f32(norm));
          }});
}

void lower_clip_factor(Lowering& l, const Node& node, std::int32_t index) {
  const float limit = node.attributes.as<ClipFactorAttributes>().limit;
  const Slot norm = l.plain(node.inputs[0]), factor = l.define_plain({index, 0});
  l.emit({.reads = {norm}, .writes = {factor}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::clip_factor(launch, limit, m.f32(norm), m.f32(factor));
          }});
}

void lower_lars_rate(Lowering& l, const Node& node, std::int32_t index) {
  const auto a = node.attributes.as<LarsRateAttributes>();
  const Slot parameter = l.plain(node.inputs[0]), gradient = l.plain(node.inputs[1]),
             rate = l.plain(node.inputs[2]), own = l.define_plain({index, 0});
  l.emit({.reads = {parameter, gradient, rate},
          .writes = {own},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::lars_rate(launch, a, m.f32(parameter), m.f32(gradient), m.f32(rate),
                                         m.f32(own));
          }});
}

void lower_hash_sum(Lowering& l, const Node& node, std::int32_t index) {
  const std::uint64_t first = node.attributes.as<HashSumAttributes>().first;
  const std::int64_t count = l.shape(node.inputs[0]).elements();
  const Slot x = l.plain(node.inputs[0]), scratch = l.temporary(hash_scratch(count)),
             words = l.define_plain({index, 0});
  l.emit(
      {.reads = {x}, .writes = {words, scratch}, .run = [=](const Launch& launch, const Memory& m) {
         PODIUM_CUDA_SPACE::hash_sum(launch, count, first, m.f32(x), m.u64(scratch), m.u32(words));
       }});
}

// In the layout of the images: they are a program's input, or an operation made them.
void lower_view(Lowering& l, const Node& node, std::int32_t index) {
  const Value images = node.inputs[0], y{index, 0};
  const bool batch = l.is_batch_last(images);
  const Shape& s = l.shape(images);
  const ViewShape shape{.planes = batch ? s[1] : s[0] * s[1],
                        .height = s[2],
                        .width = s[3],
                        .inner = batch ? s[0] : 1,
                        .view = node.attributes.as<ViewAttributes>().index};
  const Slot from = batch ? l.batch_last(images) : l.plain(images),
             to = batch ? l.define_batch_last(y) : l.define_plain(y);
  l.emit({.reads = {from}, .writes = {to}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::view(launch, shape, m.f32(from), m.f32(to));
          }});
}

void lower_own_operation(Lowering& l, const Node& node, std::int32_t index) {
  Step step;
  std::vector<TensorType> inputs;
  for (const Value value : node.inputs) {
    step.reads.push_back(l.plain(value));
    inputs.push_back(l.graph().type(value));
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o)
    step.writes.push_back(l.define_plain({index, static_cast<std::int32_t>(o)}));
  step.on_host = [op = node.op, attributes = node.attributes, name = node.name, inputs,
                  outputs = node.outputs](const std::vector<const void*>& in,
                                          const std::vector<void*>& out) {
    std::vector<Tensor> arguments, results;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      arguments.push_back(Tensor::view(inputs[i], const_cast<void*>(in[i])));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      results.push_back(Tensor::view(outputs[i], out[i]));
    std::vector<const Tensor*> from;
    std::vector<Tensor*> to;
    for (const Tensor& tensor : arguments) from.push_back(&tensor);
    for (Tensor& tensor : results) to.push_back(&tensor);
    op->reference(attributes, from, to);
    for (std::size_t i = 0; i < results.size(); ++i)
      PODIUM_REQUIRE(results[i].data() == out[i], ExitCode::kUsage, "[", op->name, " \"", name,
                     "\"] its reference replaced output ", i,
                     "; it must write the elements of the tensor that it is given");
  };
  l.emit(std::move(step));
}

}  // namespace podium::PODIUM_CUDA_SPACE
