// Rotary position embedding (Su et al., RoFormer, 2021): pairs of features are turned by an angle
// that grows with the token's position. The gradient turns back.
//   C1 x is [B T, H D]: sequences of T tokens one after the other, heads of D features
//   C2 D is even; the base is finite and above 0
//   C3 with positions, i32 [N], x is rows [N, H D] at these, each in [0, T)
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numerics/functions.h"
#include "ops/geometry.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const auto& a = context.as<RotaryAttributes>();
  const TensorType& x = context.inputs[0];
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 2, "C1: needs f32 [B T, H D], got ",
                  to_string(x));
  context.require(a.features >= 2 && a.features % 2 == 0, "C2: a head has ", a.features,
                  " features; pairs of them are turned, so the number is even");
  context.require(std::isfinite(a.base) && a.base > 0, "C2: the base is ", a.base);
  context.require(x.shape[1] % a.features == 0, "C1: ", x.shape[1],
                  " columns are no whole heads of ", a.features, " features");
  const bool has_positions = context.inputs.size() > 1;
  context.require(a.tokens >= 1 && (has_positions || x.shape[0] % a.tokens == 0),
                  "C1: ", x.shape[0], " rows are no whole sequences of ", a.tokens, " tokens");
  if (has_positions)
    context.require(context.inputs[1] == TensorType{DType::kI32, Shape{x.shape[0]}},
                    "C3: needs positions i32 [", x.shape[0], "], got ",
                    to_string(context.inputs[1]));
  return {x};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Node self = context.self();
  auto a = self.attributes.as<RotaryAttributes>();
  a.inverse = !a.inverse;
  std::vector<Value> inputs = self.inputs;
  inputs[0] = context.output_gradients[0];
  std::vector<Value> gradients(inputs.size());
  gradients[0] = context.graph.add1(rotary_op, a, std::move(inputs), self.name);
  return gradients;
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<RotaryAttributes>();
  const std::int64_t rows = in[0]->shape()[0], columns = in[0]->shape()[1], half = a.features / 2;
  const std::vector<float> table = rotary_table(a);
  for (std::int64_t n = 0; n < rows; ++n) {
    const std::int64_t position =
        in.size() > 1 ? in[1]->i32()[static_cast<std::size_t>(n)] : n % a.tokens;
    PODIUM_CHECK(position >= 0 && position < a.tokens, "position ", position, " of ", a.tokens);
    const float* const angles = table.data() + position * a.features;
    for (std::int64_t head = n * columns; head < (n + 1) * columns; head += a.features) {
      const float* const x = in[0]->f32().data() + head;
      float* const y = out[0]->f32().data() + head;
      for (std::int64_t i = 0; i < half; ++i) {
        const float cosine = angles[i], sine = a.inverse ? -angles[half + i] : angles[half + i];
        y[i] = std::fma(x[i], cosine, -(x[half + i] * sine));
        y[half + i] = std::fma(x[i], sine, x[half + i] * cosine);
      }
    }
  }
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {3.0 * static_cast<double>(in[0].shape.elements()),
          2.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples() {
  struct Size {
    RotaryAttributes a;
    std::int64_t sequences, heads;
  };
  std::vector<OpSample> list;
  const std::vector<Size> sizes = {{{.tokens = 5, .features = 4}, 2, 3},
                                   {{.tokens = 33, .features = 16, .base = 500000}, 1, 2},
                                   {{.tokens = 17, .features = 40, .inverse = true}, 2, 1},
                                   {{.tokens = 1, .features = 2}, 3, 5}};
  for (const auto& [a, sequences, heads] : sizes)
    list.push_back({a, {{DType::kF32, Shape{sequences * a.tokens, heads * a.features}}}});
  // Tests draw positions below the number of columns.
  list.push_back({RotaryAttributes{.tokens = 33, .features = 16},
                  {{DType::kF32, Shape{7, 32}}, {DType::kI32, Shape{7}}}});
  return list;
}

}  // namespace

std::vector<float> rotary_table(const RotaryAttributes& a) {
  constexpr double kTurn = 0.15915494309189535;  // 1 / (2 pi)
  const std::int64_t half = a.features / 2;
  const double log_base = log_f64(static_cast<double>(a.base));
  std::vector<float> table(static_cast<std::size_t>(a.tokens * a.features));
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    float* const angles = table.data() + t * a.features;
    for (std::int64_t i = 0; i < half; ++i) {
      const double share = static_cast<double>(2 * i) / static_cast<double>(a.features);
      const double turns = static_cast<double>(t) * (exp_f64(-share * log_base) * kTurn);
      angles[i] = static_cast<float>(cos_2pi(turns));
      angles[half + i] = static_cast<float>(sin_2pi(turns));
    }
  }
  return table;
}

RotaryShape rotary_shape(const RotaryAttributes& a, const Shape& x) {
  return {.rows = x[0],
          .heads = x[1] / a.features,
          .tokens = a.tokens,
          .features = a.features,
          .inverse = a.inverse};
}

Value rotary(Graph& graph, Value x, const RotaryAttributes& attributes, std::string name) {
  return graph.add1(rotary_op, attributes, {x}, std::move(name));
}

const OpDef rotary_op = {OpKind::kRotary, "rotary", infer, gradient, reference, cost, samples};

}  // namespace podium
