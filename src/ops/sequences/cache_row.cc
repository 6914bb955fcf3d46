// A row of each sequence joins those that are kept of it (keys or values of its earlier tokens).
// (positions and origins, row, kept) -> what is kept: of each sequence the T rows of the one that
// its origin names, with its own row at its position; and how many of them count, those up to the
// position.
//   C1 positions and origins are i32 [B]; the row is [B, F], what is kept [B T, F]
//   C2 a position is in [0, T), an origin in [0, B): whoever runs the program checks them
#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "ops/op_list.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType &positions = context.inputs[0], &row = context.inputs[2],
                   &kept = context.inputs[3];
  context.require(positions.dtype == DType::kI32 && positions.shape.rank() == 1 &&
                      context.inputs[1] == positions,
                  "needs positions and origins i32 [B], got ", to_string(positions), " and ",
                  to_string(context.inputs[1]));
  const std::int64_t sequences = positions.shape[0];
  context.require(row.dtype == DType::kF32 && row.shape.rank() == 2 && row.shape[0] == sequences &&
                      kept.dtype == DType::kF32 && kept.shape.rank() == 2 &&
                      kept.shape[1] == row.shape[1] && kept.shape[0] > 0 &&
                      kept.shape[0] % sequences == 0,
                  "needs a row f32 [B, F] and kept ones f32 [B T, F], got ", to_string(row),
                  " and ", to_string(kept));
  return {kept, positions};
}

void reference(const Attributes&, ConstTensors in, Tensors out) {
  const std::span<const std::int32_t> positions = in[0]->i32(), origins = in[1]->i32();
  const auto sequences = static_cast<std::int64_t>(positions.size());
  const std::int64_t features = in[2]->shape()[1],
                     floats = in[3]->shape()[0] / sequences * features;  // of a sequence
  bool moves = false;  // whether a sequence goes on from another one
  for (std::int64_t b = 0; b < sequences; ++b)
    moves = moves || origins[static_cast<std::size_t>(b)] != b;
  const std::span<const float> row = in[2]->f32();
  const std::span<float> kept = out[0]->f32();
  // They may lie where the old ones do: then those that stay are not touched, and others copied.
  std::span<const float> old = in[3]->f32();
  const bool in_place = old.data() == kept.data();
  std::vector<float> copy;
  if (in_place && moves) {
    copy.assign(old.begin(), old.end());
    old = copy;
  }
  for (std::int64_t b = 0; b < sequences; ++b) {
    const std::int64_t origin = origins[static_cast<std::size_t>(b)],
                       position = positions[static_cast<std::size_t>(b)];
    PODIUM_CHECK(position >= 0 && position * features < floats, "position ", position);
    PODIUM_CHECK(origin >= 0 && origin < sequences, "origin ", origin, " of ", sequences);
    if (!in_place || moves)
      std::copy_n(old.begin() + origin * floats, floats, kept.begin() + b * floats);
    std::copy_n(row.begin() + b * features, features,
                kept.begin() + b * floats + position * features);
    out[1]->i32()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(position + 1);
  }
}

// Tests draw positions and origins below 10.
std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const auto& [sequences, tokens, features] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{10, 10, 3}, {11, 33, 40}}) {
    const TensorType numbers{DType::kI32, Shape{sequences}};
    list.push_back({{},
                    {numbers,
                     numbers,
                     {DType::kF32, Shape{sequences, features}},
                     {DType::kF32, Shape{sequences * tokens, features}}}});
  }
  return list;
}

}  // namespace

const OpDef cache_row_op = {OpKind::kCacheRow, "cache_row", infer,  nullptr,
                            reference,         nullptr,     samples};

}  // namespace podium
