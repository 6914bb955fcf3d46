// Rows of a table, one for each token, and the gradient to the table.
//   C1 tokens are i32 [N] or [B, T], each in [0, V) (the loader checks: data/source/loader.h)
//   C2 the table is [V, C]; of positions, V is at least T
//   C3 a gradient is [tokens, C]
#include <algorithm>
#include <vector>

#include "base/numerics/tree.h"
#include "ops/geometry.h"
#include "ops/ops.h"

namespace podium {
namespace {

void check_tokens(const InferContext& context) {
  const TensorType& tokens = context.inputs[0];
  context.require(tokens.dtype == DType::kI32 &&
                      (tokens.shape.rank() == 1 || tokens.shape.rank() == 2) &&
                      tokens.shape.elements() > 0,
                  "needs tokens i32 [N] or [B, T], got ", to_string(tokens));
  const auto& a = context.as<EmbeddingAttributes>();
  context.require(!a.positions || tokens.shape.rank() == 2, "positions need tokens [B, T], got ",
                  to_string(tokens));
}

std::vector<TensorType> infer(const InferContext& context) {
  check_tokens(context);
  const TensorType &tokens = context.inputs[0], &table = context.inputs[1];
  context.require(table.dtype == DType::kF32 && table.shape.rank() == 2,
                  "needs a table f32 [V, C], got ", to_string(table));
  context.require(!context.as<EmbeddingAttributes>().positions || tokens.shape[1] <= table.shape[0],
                  "sequences have ", tokens.shape.rank() == 2 ? tokens.shape[1] : 0,
                  " tokens, the table of positions has ", table.shape[0], " rows");
  return {{DType::kF32, Shape{tokens.shape.elements(), table.shape[1]}}};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Node self = context.self();
  EmbeddingAttributes a = self.attributes.as<EmbeddingAttributes>();
  a.rows = context.graph.shape(self.inputs[1])[0];
  return {Value{}, context.wanted[1] ? context.graph.add1(
                                           embedding_grad_op, a,
                                           {self.inputs[0], context.output_gradients[0]}, self.name)
                                     : Value{}};
}

// The row of the table for each token.
std::vector<std::int64_t> rows_of(const EmbeddingAttributes& a, const Tensor& tokens) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(tokens.elements()));
  for (std::size_t n = 0; n < rows.size(); ++n)
    rows[n] = a.positions ? static_cast<std::int64_t>(n) % tokens.shape()[1] : tokens.i32()[n];
  return rows;
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const std::int64_t columns = in[1]->shape()[1];
  const auto rows = rows_of(attributes.as<EmbeddingAttributes>(), *in[0]);
  for (std::size_t n = 0; n < rows.size(); ++n)
    std::copy_n(in[1]->f32().data() + rows[n] * columns, columns,
                out[0]->f32().data() + static_cast<std::int64_t>(n) * columns);
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return {0, 2.0 * static_cast<double>(out[0].bytes()) + static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> make_samples(bool with_gradient) {
  struct Size {
    Shape tokens;
    std::int64_t rows, columns;
  };
  std::vector<OpSample> list;
  const std::vector<Size> sizes = {
      {{2, 5}, 11, 8}, {{33}, 10, 17}, {{7, 40}, 64, 3}, {{1}, 10, 16}};
  for (const auto& [tokens, rows, columns] : sizes)
    for (const bool positions : {false, true}) {
      if (positions && tokens.rank() == 1) continue;
      const TensorType ids{DType::kI32, tokens};
      if (with_gradient)
        list.push_back({EmbeddingAttributes{.positions = positions, .rows = rows},
                        {ids, {DType::kF32, Shape{tokens.elements(), columns}}}});
      else
        list.push_back({EmbeddingAttributes{.positions = positions},
                        {ids, {DType::kF32, Shape{rows, columns}}}});
    }
  return list;
}
std::vector<OpSample> samples() { return make_samples(false); }

// --- gradient: (tokens, dy [N, C]) -> [V, C] ---

std::vector<TensorType> infer_grad(const InferContext& context) {
  check_tokens(context);
  const TensorType& dy = context.inputs[1];
  context.require(dy.dtype == DType::kF32 && dy.shape.rank() == 2 &&
                      dy.shape[0] == context.inputs[0].shape.elements(),
                  "needs a gradient f32 [tokens, C], got ", to_string(dy));
  const std::int64_t rows = context.as<EmbeddingAttributes>().rows;
  context.require(rows >= 1, "the table has ", rows, " rows");
  return {{DType::kF32, Shape{rows, dy.shape[1]}}};
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<EmbeddingAttributes>();
  const std::int64_t columns = in[1]->shape()[1];
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(a.rows));
  const auto rows = rows_of(a, *in[0]);
  for (std::size_t n = 0; n < rows.size(); ++n)
    places[static_cast<std::size_t>(rows[n])].push_back(static_cast<std::int64_t>(n));
  const float* dy = in[1]->f32().data();
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto& own = places[row];
    const auto count = static_cast<std::int64_t>(own.size());
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto run = [&](std::int64_t r) {
        float sum = 0;
        for (std::int64_t i = r * kEmbeddingRun; i < std::min((r + 1) * kEmbeddingRun, count); ++i)
          sum += dy[own[static_cast<std::size_t>(i)] * columns + c];
        return sum;
      };
      out[0]->f32()[static_cast<std::int64_t>(row) * columns + c] =
          count == 0 ? 0.0f : tree_sum(0, (count + kEmbeddingRun - 1) / kEmbeddingRun, run);
    }
  }
}

Cost cost_grad(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return {static_cast<double>(in[1].shape.elements()),
          static_cast<double>(in[1].bytes() + out[0].bytes() + in[0].bytes())};
}

std::vector<OpSample> samples_grad() { return make_samples(true); }

}  // namespace

Value embedding(Graph& graph, Value tokens, Value table, std::string name) {
  return graph.add1(embedding_op, EmbeddingAttributes{}, {tokens, table}, std::move(name));
}
Value position_embedding(Graph& graph, Value tokens, Value table, std::string name) {
  return graph.add1(embedding_op, EmbeddingAttributes{.positions = true}, {tokens, table},
                    std::move(name));
}

const OpDef embedding_op = {OpKind::kEmbedding, "embedding", infer,  gradient,
                            reference,          cost,        samples};
const OpDef embedding_grad_op = {OpKind::kEmbeddingGrad, "embedding_grad", infer_grad,  nullptr,
                                 reference_grad,         cost_grad,        samples_grad};

}  // namespace podium
