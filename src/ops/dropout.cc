// Dropout's factors: a pure function of (seed, layer, step, example, feature). The product with x
// is `mul`.
//   C1 step and replica are u32 scalars
//   C2 0 <= rate < 1
//   C3 the shape leads with the images of a replica
#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const auto& a = context.as<DropoutMaskAttributes>();
  for (const TensorType& type : context.inputs)
    context.require(type == TensorType{DType::kU32, Shape{}},
                    "step and replica must be u32 scalars");
  context.require(a.rate >= 0 && a.rate < 1, "the rate ", a.rate, " is outside [0, 1)");
  context.require(a.shape.rank() >= 2, "needs a shape [N, ...], got ", to_string(a.shape));
  return {{DType::kF32, a.shape}};
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<DropoutMaskAttributes>();
  const PhiloxStream stream(a.seed, RandomPurpose::kDropout, a.layer);
  const std::uint32_t step = inputs[0]->u32()[0], replica = inputs[1]->u32()[0];
  const std::int64_t images = a.shape[0], features = a.shape.elements_from(1);
  const auto threshold = static_cast<std::uint32_t>(static_cast<double>(a.rate) * 4294967296.0);
  const float kept = 1.0f / (1.0f - a.rate);
  for (std::int64_t n = 0; n < images; ++n) {
    const auto example = static_cast<std::uint32_t>(replica * images + n);
    for (std::int64_t f = 0; f < features; ++f)
      outputs[0]->f32()[n * features + f] =
          stream.word(static_cast<std::uint32_t>(f), example, step) >= threshold ? kept : 0.0f;
  }
}

Cost cost(const Attributes&, std::span<const TensorType>, std::span<const TensorType> out) {
  return {0, static_cast<double>(out[0].bytes())};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const Shape& shape : {Shape{32, 200}, Shape{17, 7}, Shape{3, 2, 5, 5}})
    list.push_back(
        {DropoutMaskAttributes{.rate = 0.3f, .seed = 0x123456789ull, .layer = 2, .shape = shape},
         {{DType::kU32, Shape{}}, {DType::kU32, Shape{}}}});
  return list;
}

}  // namespace

Value dropout_mask(Graph& graph, Value step, Value replica, const DropoutMaskAttributes& attributes,
                   std::string name) {
  return graph.add1(dropout_mask_op, attributes, {step, replica}, std::move(name));
}

const OpDef dropout_mask_op = {
    OpKind::kDropoutMask, "dropout_mask", infer, nullptr, reference, cost, samples};

}  // namespace podium
