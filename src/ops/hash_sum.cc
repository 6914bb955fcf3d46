// The share of a tensor's hash (base/numerics/hash.h) that a range of it makes up.
//   C1 x is f32 [n]
//   C2 the range begins at an even place of the tensor
#include <utility>

#include "base/numerics/hash.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 1, "needs f32 [n], got ",
                  to_string(x));
  const std::uint64_t first = context.as<HashSumAttributes>().first;
  context.require(first % 2 == 0, "the range must begin at an even place, not at ", first);
  return {{DType::kU32, Shape{2}}};
}
void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const std::uint64_t sum = hash_sum(in[0]->f32(), attributes.as<HashSumAttributes>().first);
  out[0]->u32()[0] = static_cast<std::uint32_t>(sum);
  out[0]->u32()[1] = static_cast<std::uint32_t>(sum >> 32);
}
// Two additions for each word, and a multiply-add for each pair.
Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {3.0 * static_cast<double>(in[0].shape.elements()), static_cast<double>(in[0].bytes())};
}
std::vector<OpSample> samples() {
  return {{HashSumAttributes{0}, {{DType::kF32, {1}}}},
          {HashSumAttributes{0x1234567890ull}, {{DType::kF32, {1000}}}},
          {HashSumAttributes{6}, {{DType::kF32, {200001}}}}};
}

}  // namespace

Value hash_sum(Graph& graph, Value x, std::uint64_t first, std::string name) {
  return graph.add1(hash_sum_op, HashSumAttributes{first}, {x}, std::move(name));
}

const OpDef hash_sum_op = {OpKind::kHashSum, "hash_sum", infer, nullptr, reference, cost, samples};

}  // namespace podium
