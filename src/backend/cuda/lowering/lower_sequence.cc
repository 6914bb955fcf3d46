// Operations on rows: operands and results are plain.
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/lowering/lower.h"
#include "ops/bf16.h"

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

// An operand of integers that a node may have, as a kernel reads it; null: it has none.
using Integers = std::function<Each<const std::int32_t>(const Memory&)>;
Integers integers_of(Lowering& l, const Node& node, std::size_t operand, std::vector<Slot>& reads) {
  if (node.inputs.size() <= operand)
    return [](const Memory&) { return Each<const std::int32_t>{}; };
  const Slot slot = l.plain(node.inputs[operand]);
  reads.push_back(slot);
  return [slot](const Memory& m) -> Each<const std::int32_t> { return m.i32(slot); };
}

}  // namespace

void lower_embedding(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), table = l.plain(node.inputs[1]);
  const ResultSlots y = l.define_result({index, 0}, false);
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), l.shape(node.inputs[1]));
  l.emit({.reads = {tokens, table},
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::embedding(launch, shape, m.i32(tokens), m.f32(table), m.result(y));
          }});
}

void lower_embedding_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), dtable = l.define_plain({index, 0});
  const SourceSlot dy = l.source(node.inputs[1], false);
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), node.outputs[0].shape);
  const Slot next = l.temporary(shape.tokens), is_first = l.temporary(shape.tokens);
  l.emit({.reads = {tokens, dy.slot},
          .writes = {dtable, next, is_first},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::embedding_grad(launch, shape, m.i32(tokens), m.source(dy),
                                              m.i32(next), m.i32(is_first), m.f32(dtable));
          }});
}

void lower_layer_norm(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[0]));
  const SourceSlot x = l.source(node.inputs[0], false);
  const Slot scale = l.plain(node.inputs[1]),
             shift = shape.centred ? l.plain(node.inputs[2]) : scale;
  const ResultSlots y = l.define_result({index, 0}, false);
  l.emit({.reads = {x.slot, scale, shift},
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::layer_norm(launch, shape, m.source(x), m.f32(scale), m.f32(shift),
                                          m.result(y));
          }});
}

void lower_layer_norm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[1]));
  const SourceSlot dy = l.source(node.inputs[0], false), x = l.source(node.inputs[1], false);
  const ResultSlots dx = l.define_result({index, 0}, false);
  const Slot scale = l.plain(node.inputs[2]), dscale = l.define_plain({index, 1}),
             dshift = shape.centred ? l.define_plain({index, 2}) : dscale,
             scratch = l.temporary(layer_norm_grad_scratch(shape));
  l.emit({.reads = {dy.slot, x.slot, scale},
          .writes = dx.slots({dscale, dshift, scratch}),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::layer_norm_grad(launch, shape, m.source(dy), m.source(x),
                                               m.f32(scale), m.result(dx), m.f32(dscale),
                                               m.f32(dshift), m.f32(scratch));
          }});
}

void lower_cache_row(Lowering& l, const Node& node, std::int32_t index) {
  const Slot positions = l.plain(node.inputs[0]), origins = l.plain(node.inputs[1]),
             row = l.plain(node.inputs[2]), kept = l.plain(node.inputs[3]),
             next = l.define_plain({index, 0}), seen = l.define_plain({index, 1});
  const Shape& all = l.shape(node.inputs[3]);
  const std::int64_t sequences = l.shape(node.inputs[0])[0];
  const CacheShape shape{sequences, all[0] / sequences, all[1]};
  const Slot moved = l.temporary(all.elements());
  l.emit({.reads = {positions, origins, row, kept},
          .writes = {next, seen, moved},
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::cache_row(launch, shape, m.i32(positions), m.i32(origins),
                                         m.f32(row), m.f32(kept), m.f32(moved), m.f32(next),
                                         m.i32(seen));
          }});
}

void lower_rotary(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<RotaryAttributes>();
  const RotaryShape shape = rotary_shape(a, l.shape(node.inputs[0]));
  const std::vector<float> angles = rotary_table(a);
  const Slot table = l.data(std::as_bytes(std::span(angles)));
  const SourceSlot x = l.source(node.inputs[0], false);
  const ResultSlots y = l.define_result({index, 0}, false);
  std::vector<Slot> reads = {table, x.slot};
  const Integers positions = integers_of(l, node, 1, reads);
  l.emit({.reads = std::move(reads),
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            PODIUM_CUDA_SPACE::rotary(launch, shape, m.f32(table), m.source(x), positions(m),
                                      m.result(y));
          }});
}

namespace {

// An operand of attention, whether it rounds it or not.
SourceSlot rows_of(Lowering& l, const Node& node, std::size_t operand) {
  const Value value = node.inputs[operand];
  return rounds(*node.op, operand) ? l.rounding_source(value, false) : l.source(value, false);
}

template <typename Kernel>
void lower_forward(Lowering& l, const Node& node, std::int32_t index, const Kernel& kernel) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[0]));
  const SourceSlot q = rows_of(l, node, 0), k = rows_of(l, node, 1), v = rows_of(l, node, 2);
  const ResultSlots y = l.define_result({index, 0}, false);
  std::vector<Slot> reads = {q.slot, k.slot, v.slot};
  const Integers lengths = integers_of(l, node, 3, reads);
  l.emit({.reads = std::move(reads),
          .writes = y.slots(),
          .run = [=](const Launch& launch, const Memory& m) {
            kernel(launch, shape, m.source(q), m.source(k), m.source(v), lengths(m), m.result(y));
          }});
}

template <typename Kernel>
void lower_backward(Lowering& l, const Node& node, std::int32_t index, const Kernel& kernel) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[1]));
  const SourceSlot dy = rows_of(l, node, 0), q = rows_of(l, node, 1), k = rows_of(l, node, 2),
                   v = rows_of(l, node, 3);
  const ResultSlots dq = l.define_result({index, 0}, false),
                    dk = l.define_result({index, 1}, false),
                    dv = l.define_result({index, 2}, false);
  const Slot scratch = l.temporary(attention_scratch(shape));
  std::vector<Slot> reads = {dy.slot, q.slot, k.slot, v.slot};
  const Integers lengths = integers_of(l, node, 4, reads);
  l.emit({.reads = std::move(reads),
          .writes = dq.slots(dk.slots(dv.slots({scratch}))),
          .run = [=](const Launch& launch, const Memory& m) {
            const AttentionGrad gradient{.lengths = lengths(m),
                                         .dy = m.source(dy),
                                         .q = m.source(q),
                                         .k = m.source(k),
                                         .v = m.source(v),
                                         .dq = m.result(dq),
                                         .dk = m.result(dk),
                                         .dv = m.result(dv)};
            kernel(launch, shape, gradient, m.f32(scratch));
          }});
}

}  // namespace

void lower_attention(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward(l, node, index, PODIUM_CUDA_SPACE::attention);
}
void lower_attention_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_backward(l, node, index, PODIUM_CUDA_SPACE::attention_grad);
}
void lower_attention_bf16(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward(l, node, index, PODIUM_CUDA_SPACE::attention_bf16);
}
void lower_attention_bf16_grad(Lowering& l, const Node& node, std::int32_t index) {
  lower_backward(l, node, index, PODIUM_CUDA_SPACE::attention_bf16_grad);
}

}  // namespace podium::PODIUM_CUDA_SPACE
