// A view of each image of a batch, for evaluation (base/numerics/view.h).
//   C1 images are f32 [N, C, H, W]
//   C2 the number of views is one of kViewCounts, and the index is below it
//   C3 six views need images of at least 2 x 2 pixels
#include "base/numerics/view.h"

#include <algorithm>
#include <utility>

#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  const auto a = context.as<ViewAttributes>();
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 4, "needs f32 [N, C, H, W], got ",
                  to_string(x));
  context.require(std::ranges::find(kViewCounts, a.views) != kViewCounts.end(), a.views,
                  " views; there can be 1, 2 or 6");
  context.require(a.index >= 0 && a.index < a.views, "view ", a.index, " is not one of ", a.views);
  context.require(a.views != 6 || (x.shape[2] > 1 && x.shape[3] > 1),
                  "six views need images of at least 2 x 2 pixels, got ", to_string(x));
  return {x};
}
void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const ViewPixels pixels(attributes.as<ViewAttributes>().index);
  const Planes planes = planes_of(in[0]->shape());
  float* to = out[0]->f32().data();
  for (std::int64_t plane = 0; plane < planes.images * planes.channels; ++plane) {
    const float* from = in[0]->f32().data() + plane * planes.pixels();
    for (std::int64_t y = 0; y < planes.height; ++y)
      for (std::int64_t x = 0; x < planes.width; ++x)
        *to++ = from[pixels.row(y, planes.height) * planes.width + pixels.column(x, planes.width)];
  }
}
std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (std::int64_t index = 0; index < 6; ++index)
    list.push_back({ViewAttributes{6, index}, {{DType::kF32, {17, 3, 5, 6}}}});
  list.push_back({ViewAttributes{2, 1}, {{DType::kF32, {33, 3, 32, 32}}}});
  list.push_back({ViewAttributes{2, 0}, {{DType::kF32, {2, 1, 1, 3}}}});
  list.push_back({ViewAttributes{1, 0}, {{DType::kF32, {1, 1, 1, 1}}}});
  return list;
}

}  // namespace

Value view(Graph& graph, Value images, std::int64_t views, std::int64_t index, std::string name) {
  return graph.add1(view_op, ViewAttributes{views, index}, {images}, std::move(name));
}

// Copies: no arithmetic, each image read and written once.
const OpDef view_op = {OpKind::kView, "view", infer, nullptr, reference, nullptr, samples};

}  // namespace podium
