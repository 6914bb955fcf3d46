// Matrix product.
//   C1 both operands are matrices
//   C2 the reduced extents agree
#include "ops/ops.h"
#include "ops/reference_sums.h"

namespace podium {
namespace {

struct Extents {
  std::int64_t m, k, n;
};

Extents extents(const MatmulAttributes& t, const Shape& a, const Shape& b) {
  return {t.transpose_a ? a[1] : a[0], t.transpose_a ? a[0] : a[1], t.transpose_b ? b[0] : b[1]};
}

std::vector<TensorType> infer(const InferContext& context) {
  const auto& t = context.as<MatmulAttributes>();
  const Shape &a = context.inputs[0].shape, &b = context.inputs[1].shape;
  context.require(a.rank() == 2 && b.rank() == 2, "needs two matrices, got ", to_string(a), " and ",
                  to_string(b));
  const Extents e = extents(t, a, b);
  context.require(e.k == (t.transpose_b ? b[1] : b[0]), "the operands ", to_string(a),
                  t.transpose_a ? "^T" : "", " and ", to_string(b), t.transpose_b ? "^T" : "",
                  " do not share an extent to sum over");
  return {{DType::kF32, Shape{e.m, e.n}}};
}

std::vector<Value> gradient(const GradientContext& context) {
  Graph& graph = context.graph;
  const Node self = context.self();
  const auto t = self.attributes.as<MatmulAttributes>();
  const Value a = self.inputs[0], b = self.inputs[1], dy = context.output_gradients[0];
  std::vector<Value> gradients(2);
  if (context.wanted[0]) {
    gradients[0] = t.transpose_a ? matmul(graph, b, dy, {t.transpose_b, true}, self.name)
                                 : matmul(graph, dy, b, {false, !t.transpose_b}, self.name);
  }
  if (context.wanted[1]) {
    gradients[1] = t.transpose_b ? matmul(graph, dy, a, {true, t.transpose_a}, self.name)
                                 : matmul(graph, a, dy, {!t.transpose_a, false}, self.name);
  }
  return gradients;
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& t = attributes.as<MatmulAttributes>();
  const Extents e = extents(t, inputs[0]->shape(), inputs[1]->shape());
  const float *a = inputs[0]->f32().data(), *b = inputs[1]->f32().data();
  float* y = outputs[0]->f32().data();
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t j = 0; j < e.n; ++j) {
      y[i * e.n + j] = product_sum(
          e.k, [&](std::int64_t k) { return t.transpose_a ? a[k * e.m + i] : a[i * e.k + k]; },
          [&](std::int64_t k) { return t.transpose_b ? b[j * e.k + k] : b[k * e.n + j]; });
    }
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  const Extents e = extents(attributes.as<MatmulAttributes>(), in[0].shape, in[1].shape);
  return {2.0 * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k),
          static_cast<double>(in[0].bytes() + in[1].bytes() + out[0].bytes())};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const auto& [m, k, n] :
       {Extents{2, 3, 4}, {32, 49, 20}, {17, 300, 5}, {5, 33, 40}, {1, 1, 1}, {33, 600, 10}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        list.push_back({MatmulAttributes{ta, tb},
                        {{DType::kF32, ta ? Shape{k, m} : Shape{m, k}},
                         {DType::kF32, tb ? Shape{n, k} : Shape{k, n}}}});
  return list;
}

}  // namespace

Value matmul(Graph& graph, Value a, Value b, const MatmulAttributes& attributes, std::string name) {
  return graph.add1(matmul_op, attributes, {a, b}, std::move(name));
}

const OpDef matmul_op = {OpKind::kMatmul, "matmul", infer, gradient, reference, cost, samples};

}  // namespace podium
