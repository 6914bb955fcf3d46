// Operations on rows: operands and results are plain.
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/bf16/attention_bf16.h"
#include "backend/cpu/kernels/sequence.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
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

// Keys or values as the kernels read them.
Slot pack_keys(Lowering& l, const AttentionShape& shape, const Node& node, std::size_t operand) {
  const Slot keys = l.plain(node.inputs[operand]),
             packed = l.temporary(attention_packed_floats(shape));
  l.emit({.name = cat(node.op->name, " ", node.name, " pack"),
          .parts = attention_pack_parts(shape),
          .reads = {keys},
          .writes = {packed},
          .run = [=](const Memory& m, int part,
                     int) { attention_pack(shape, m.f32(keys), m.f32(packed), part); },
          .cost = {0, 8.0 * static_cast<double>(attention_packed_floats(shape))}});
  return packed;
}

}  // namespace

void lower_embedding(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), table = l.plain(node.inputs[1]),
             y = l.define_plain({index, 0});
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), l.shape(node.inputs[1]));
  l.emit({.parts = embedding_parts(shape),
          .reads = {tokens, table},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::embedding(shape, m.i32(tokens), m.f32(table), m.f32(y), part);
          }});
}

void lower_embedding_grad(Lowering& l, const Node& node, std::int32_t index) {
  const Slot tokens = l.plain(node.inputs[0]), dy = l.plain(node.inputs[1]),
             dtable = l.define_plain({index, 0});
  const EmbeddingShape shape = embedding_shape(node.attributes.as<EmbeddingAttributes>(),
                                               l.shape(node.inputs[0]), node.outputs[0].shape);
  const Slot first = l.temporary(shape.rows + 1), order = l.temporary(shape.tokens);
  l.emit({.name = cat("embedding_grad ", node.name, " places"),
          .reads = {tokens},
          .writes = {first, order},
          .run = [=](const Memory& m, int,
                     int) { embedding_places(shape, m.i32(tokens), m.i32(first), m.i32(order)); },
          .cost = {0, 12.0 * static_cast<double>(shape.tokens + shape.rows)}});
  l.emit({.parts = embedding_grad_parts(shape),
          .reads = {first, order, dy},
          .writes = {dtable},
          .run = [=](const Memory& m, int part, int) {
            cpu::embedding_grad(shape, m.i32(first), m.i32(order), m.f32(dy), m.f32(dtable), part);
          }});
}

void lower_layer_norm(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[0]));
  const Slot x = l.plain(node.inputs[0]), scale = l.plain(node.inputs[1]),
             shift = shape.centred ? l.plain(node.inputs[2]) : scale,
             y = l.define_plain({index, 0});
  l.emit({.parts = layer_norm_parts(shape),
          .reads = {x, scale, shift},
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::layer_norm(shape, m.f32(x), m.f32(scale), m.f32(shift), m.f32(y), part);
          }});
}

void lower_layer_norm_grad(Lowering& l, const Node& node, std::int32_t index) {
  const LayerNormShape shape =
      layer_norm_shape(node.attributes.as<LayerNormAttributes>(), l.shape(node.inputs[1]));
  const Slot dy = l.plain(node.inputs[0]), x = l.plain(node.inputs[1]),
             scale = l.plain(node.inputs[2]), dx = l.define_plain({index, 0}),
             dscale = l.define_plain({index, 1}),
             dshift = shape.centred ? l.define_plain({index, 2}) : dscale,
             statistics = l.temporary(2 * shape.rows);
  l.emit({.parts = layer_norm_parts(shape),
          .reads = {dy, x, scale},
          .writes = {dx, statistics},
          .run = [=](const Memory& m, int part, int) {
            cpu::layer_norm_grad(shape, m.f32(dy), m.f32(x), m.f32(scale), m.f32(dx),
                                 m.f32(statistics), part);
          }});
  l.emit({.name = cat("layer_norm_grad ", node.name, " weights"),
          .parts = layer_norm_grad_weights_parts(shape),
          .reads = {dy, x, statistics},
          .writes = {dscale, dshift},
          .run =
              [=](const Memory& m, int part, int) {
                layer_norm_grad_weights(shape, m.f32(dy), m.f32(x), m.f32(statistics),
                                        m.f32(dscale), shape.centred ? m.f32(dshift) : nullptr,
                                        part);
              },
          .cost = {0, 8.0 * static_cast<double>(shape.rows * shape.columns)}});
}

void lower_rotary(Lowering& l, const Node& node, std::int32_t index) {
  const auto& a = node.attributes.as<RotaryAttributes>();
  const RotaryShape shape = rotary_shape(a, l.shape(node.inputs[0]));
  const std::vector<float> angles = rotary_table(a);
  const Slot table = l.data(std::as_bytes(std::span(angles))), x = l.plain(node.inputs[0]),
             y = l.define_plain({index, 0});
  std::vector<Slot> reads = {table, x};
  const bool has_positions = node.inputs.size() > 1;
  if (has_positions) reads.push_back(l.plain(node.inputs[1]));
  const Slot positions = reads.back();
  l.emit({.parts = rotary_parts(shape),
          .reads = std::move(reads),
          .writes = {y},
          .run = [=](const Memory& m, int part, int) {
            cpu::rotary(shape, m.f32(table), m.f32(x), has_positions ? m.i32(positions) : nullptr,
                        m.f32(y), part);
          }});
}

namespace {

AttentionBf16 attention_bf16_of(const Node& node, const Shape& queries) {
  const auto& a = node.attributes.as<AttentionAttributes>();
  return {.shape = attention_shape(a, queries), .order = a.order};
}

// The lengths of the keys, the operand after q, k and v; null: there are none.
using Lengths = std::function<const std::int32_t*(const Memory&)>;
Lengths lengths_of(Lowering& l, const Node& node, std::size_t operand, std::vector<Slot>& reads) {
  if (node.inputs.size() <= operand) return [](const Memory&) { return nullptr; };
  const Slot slot = l.plain(node.inputs[operand]);
  reads.push_back(slot);
  return [slot](const Memory& m) { return m.i32(slot); };
}

}  // namespace

void lower_attention(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[0]));
  const Slot packed_k = pack_keys(l, shape, node, 1), q = l.plain(node.inputs[0]),
             v = l.plain(node.inputs[2]), y = l.define_plain({index, 0});
  std::vector<Slot> reads = {q, packed_k, v};
  const Lengths lengths = lengths_of(l, node, 3, reads);
  l.need_scratch(attention_scratch(shape));
  l.emit({.parts = attention_parts(shape),
          .reads = std::move(reads),
          .writes = {y},
          .run = [=](const Memory& m, int part, int thread) {
            cpu::attention(shape, m.f32(q), m.f32(packed_k), m.f32(v), lengths(m), m.f32(y),
                           m.scratch(thread), part);
          }});
}

void lower_attention_grad(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionShape shape =
      attention_shape(node.attributes.as<AttentionAttributes>(), l.shape(node.inputs[1]));
  const Slot packed_k = pack_keys(l, shape, node, 2), packed_v = pack_keys(l, shape, node, 3),
             dy = l.plain(node.inputs[0]), q = l.plain(node.inputs[1]), k = l.plain(node.inputs[2]),
             dq = l.define_plain({index, 0}), dk = l.define_plain({index, 1}),
             dv = l.define_plain({index, 2}),
             statistics = l.temporary(3 * shape.sequences * shape.heads * shape.tokens);
  std::vector<Slot> of_queries = {dy, q, k, packed_k, packed_v},
                    of_keys = {dy, q, packed_k, packed_v, statistics};
  const Lengths lengths = lengths_of(l, node, 4, of_queries);
  if (of_queries.size() > 5) of_keys.push_back(of_queries.back());
  l.need_scratch(std::max(attention_scratch(shape), attention_grad_keys_scratch(shape)));
  const auto gradient = [=](const Memory& m) {
    return AttentionGrad{.lengths = lengths(m),
                         .dy = m.f32(dy),
                         .q = m.f32(q),
                         .k = m.f32(k),
                         .packed_k = m.f32(packed_k),
                         .packed_v = m.f32(packed_v),
                         .statistics = m.f32(statistics),
                         .dq = m.f32(dq),
                         .dk = m.f32(dk),
                         .dv = m.f32(dv)};
  };
  const Cost half = {attention_grad_op
                             .cost(node.attributes,
                                   std::vector<TensorType>{l.graph().type(node.inputs[0]),
                                                           l.graph().type(node.inputs[1])},
                                   node.outputs)
                             .flops /
                         2,
                     0};
  l.emit({.name = cat("attention_grad ", node.name, " queries"),
          .parts = attention_parts(shape),
          .reads = std::move(of_queries),
          .writes = {dq, statistics},
          .run =
              [=](const Memory& m, int part, int thread) {
                attention_grad_queries(shape, gradient(m), m.scratch(thread), part);
              },
          .cost = half});
  l.emit(
      {.name = cat("attention_grad ", node.name, " keys"),
       .parts = attention_grad_keys_parts(shape),
       .reads = std::move(of_keys),
       .writes = {dk, dv},
       .run = [=](const Memory& m, int part,
                  int thread) { attention_grad_keys(shape, gradient(m), m.scratch(thread), part); },
       .cost = half});
}

void lower_attention_bf16(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionBf16 attention = attention_bf16_of(node, l.shape(node.inputs[0]));
  const Slot q = l.plain(node.inputs[0]), k = l.plain(node.inputs[1]), v = l.plain(node.inputs[2]);
  const ResultSlot y = l.define_result({index, 0}, false);
  std::vector<Slot> reads = {q, k, v};
  const Lengths lengths = lengths_of(l, node, 3, reads);
  l.need_scratch(attention_bf16_scratch(attention, false));
  l.emit({.parts = attention_bf16_parts(attention.shape),
          .reads = std::move(reads),
          .writes = {y.slot},
          .run = [=](const Memory& m, int part, int thread) {
            cpu::attention_bf16(attention, {m.f32(q), m.f32(k), m.f32(v), lengths(m)},
                                {m.f32(y.slot), y.rounded}, m.scratch(thread), part);
          }});
}

void lower_attention_bf16_grad(Lowering& l, const Node& node, std::int32_t index) {
  const AttentionBf16 attention = attention_bf16_of(node, l.shape(node.inputs[1]));
  const Slot dy = l.plain(node.inputs[0]), q = l.plain(node.inputs[1]), k = l.plain(node.inputs[2]),
             v = l.plain(node.inputs[3]);
  const ResultSlot dq = l.define_result({index, 0}, false), dk = l.define_result({index, 1}, false),
                   dv = l.define_result({index, 2}, false);
  std::vector<Slot> reads = {dy, q, k, v};
  const Lengths lengths = lengths_of(l, node, 4, reads);
  l.need_scratch(attention_bf16_scratch(attention, true));
  l.emit({.parts = attention_bf16_grad_parts(attention.shape),
          .reads = std::move(reads),
          .writes = {dq.slot, dk.slot, dv.slot},
          .run = [=](const Memory& m, int part, int thread) {
            const auto rows = [&](const ResultSlot& of) {
              return RoundedRows{m.f32(of.slot), of.rounded};
            };
            cpu::attention_bf16_grad(attention, {m.f32(q), m.f32(k), m.f32(v), lengths(m)},
                                     m.f32(dy), rows(dq), rows(dk), rows(dv), m.scratch(thread),
                                     part);
          }});
}

}  // namespace podium::cpu
