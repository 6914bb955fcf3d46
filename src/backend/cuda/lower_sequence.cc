// Operations on rows: operands and results are plain.
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/lower.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

EmbeddingShape embedding_shape(const EmbeddingAttributes& a, const Shape& tokens,
                               const Shape& table) {
  return {.tokens = tokens.elements(),
          .rows = table[0],
          .columns = table[1],
          .period = a.positions ? tokens[1] : 0};
}
LayerNormShape layer_norm_shape(const LayerNormAttributes& a, const Shape& x) {
  return {.rows = x[0], .columns = x[1], .epsilon = a.epsilon, .centred = a.centred};
}

}  // namespace

void lower_embedding(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), table = l.plain(node.inputs[1]),
             y = l.define_plain({index, 0});
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), l.shape(node.inputs[1]));
  l.emit(
      {.reads = {tokens, table}, .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
         PODIUM_CUDA_SPACE::embedding(launch, shape, m.i32(tokens), m.f32(table), m.f32(y));
       }});
}

void lower_embedding_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), dy = l.plain(node.inputs[1]),
             dtable = l.define_plain({index, 0});
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), node.outputs[0].shape);
  const Slot next = l.temporary(shape.tokens), is_first = l.temporary(shape.tokens);
  l.emit({.reads = {tokens, dy},
          .writes = {dtable, next, is_first},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::embedding_grad(launch, shape, m.i32(tokens), m.f32(dy), m.i32(next),
                                              m.i32(is_first), m.f32(dtable));
          }});
}

void lower_layer_norm(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[0]));
  const Slot x = l.plain(node.inputs[0]), scale = l.plain(node.inputs[1]),
             shift = shape.centred ? l.plain(node.inputs[2]) : scale,
             y = l.define_plain({index, 0});
  l.emit({.reads = {x, scale, shift},
          .writes = {y},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::layer_norm(launch, shape, m.f32(x), m.f32(scale), m.f32(shift),
                                          m.f32(y));
          }});
}

void lower_layer_norm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[1]));
  const Slot dy = l.plain(node.inputs[0]), x = l.plain(node.inputs[1]),
             scale = l.plain(node.inputs[2]), dx = l.define_plain({index, 0}),
             dscale = l.define_plain({index, 1}),
             dshift = shape.centred ? l.define_plain({index, 2}) : dscale,
             scratch = l.temporary(layer_norm_grad_scratch(shape));
  l.emit({.reads = {dy, x, scale},
          .writes = {dx, dscale, dshift, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::layer_norm_grad(launch, shape, m.f32(dy), m.f32(x), m.f32(scale),
                                               m.f32(dx), m.f32(dscale), m.f32(dshift),
                                               m.f32(scratch));
          }});
}

void lower_rotary(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<RotaryAttributes>();
  const RotaryShape shape = rotary_shape(a, l.shape(node.inputs[0]));
  const std::vector<float> angles = rotary_table(a);
  const Slot table = l.data(std::as_bytes(std::span(angles))), x = l.plain(node.inputs[0]),
             y = l.define_plain({index, 0});
  l.emit({.reads = {table, x}, .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::rotary(launch, shape, m.f32(table), m.f32(x), m.f32(y));
          }});
}

namespace {

// The lengths of the keys, the operand after q, k and v; null: there are none.
using Lengths = std::function<Each<const std::int32_t>(const Memory&)>;
Lengths lengths_of(Lowering& l, const Node& node, std::size_t operand, std::vector<Slot>& reads) {
  if (node.inputs.size() <= operand)
    return [](const Memory&) { return Each<const std::int32_t>{}; };
  const Slot slot = l.plain(node.inputs[operand]);
  reads.push_back(slot);
  return [slot](const Memory& m) -> Each<const std::int32_t> { return m.i32(slot); };
}

}  // namespace

void lower_attention(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[0]));
  const Slot q = l.plain(node.inputs[0]), k = l.plain(node.inputs[1]), v = l.plain(node.inputs[2]),
             y = l.define_plain({index, 0});
  std::vector<Slot> reads = {q, k, v};
  const Lengths lengths = lengths_of(l, node, 3, reads);
  l.emit(
      {.reads = std::move(reads), .writes = {y}, .run = [=](const Launch& launch, const Memory& m) {
         PODIUM_CUDA_SPACE::attention(launch, shape, m.f32(q), m.f32(k), m.f32(v), lengths(m),
                                      m.f32(y));
       }});
}

void lower_attention_grad(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[1]));
  const Slot dy = l.plain(node.inputs[0]), q = l.plain(node.inputs[1]), k = l.plain(node.inputs[2]),
             v = l.plain(node.inputs[3]), dq = l.define_plain({index, 0}),
             dk = l.define_plain({index, 1}), dv = l.define_plain({index, 2}),
             scratch = l.temporary(attention_scratch(shape));
  std::vector<Slot> reads = {dy, q, k, v};
  const Lengths lengths = lengths_of(l, node, 4, reads);
  l.emit({.reads = std::move(reads),
          .writes = {dq, dk, dv, scratch},
          .run = [=](const Launch& launch, const Memory& m) {
            const AttentionGrad gradient{.lengths = lengths(m),
                                         .dy = m.f32(dy),
                                         .q = m.f32(q),
                                         .k = m.f32(k),
                                         .v = m.f32(v),
                                         .dq = m.f32(dq),
                                         .dk = m.f32(dk),
                                         .dv = m.f32(dv)};
            PODIUM_CUDA_SPACE::attention_grad(launch, shape, gradient, m.f32(scratch));
          }});
}

}  // namespace podium::PODIUM_CUDA_SPACE
