// Channels of zeros beside those of an image, and a part of its channels: each is the other's
// gradient.
//   C1 x is [N, C, H, W] or [N, C]
//   C2 no fewer than 0 channels are added; a part has at least one channel, and lies inside
#include <algorithm>

#include "ops/ops.h"

namespace podium {
namespace {

Shape with_channels(const Shape& x, std::int64_t channels) {
  return x.rank() == 4 ? Shape{x[0], channels, x[2], x[3]} : Shape{x[0], channels};
}

void require_channels(const InferContext& context) {
  const Shape& x = context.inputs[0].shape;
  context.require(x.rank() == 4 || x.rank() == 2, "needs [N, C, H, W] or [N, C], got ",
                  to_string(x));
}

// Calls f(plane of the wide tensor, plane of the narrow one) for each plane of the narrow one,
// whose channels are `before` and on of the wide one.
template <typename F>
void for_each_plane(const Shape& wide, const Shape& narrow, std::int64_t before, const F& f) {
  for (std::int64_t n = 0; n < wide[0]; ++n)
    for (std::int64_t c = 0; c < narrow[1]; ++c) f(n * wide[1] + before + c, n * narrow[1] + c);
}

std::vector<TensorType> infer_pad(const InferContext& context) {
  require_channels(context);
  const auto& a = context.as<PadChannelsAttributes>();
  const Shape& x = context.inputs[0].shape;
  context.require(a.before >= 0 && a.after >= 0, "C2: ", a.before, " and ", a.after,
                  " channels cannot be added");
  return {{DType::kF32, with_channels(x, a.before + x[1] + a.after)}};
}

std::vector<Value> gradient_pad(const GradientContext& context) {
  const auto a = context.self().attributes.as<PadChannelsAttributes>();
  return {slice_channels(context.graph, context.output_gradients[0], a.before,
                         context.graph.shape(context.input(0))[1], context.self().name)};
}

void reference_pad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto x = inputs[0]->f32();
  const auto y = outputs[0]->f32();
  const Shape &in = inputs[0]->shape(), &out = outputs[0]->shape();
  const std::int64_t pixels = planes_of(in).pixels();
  std::ranges::fill(y, 0.0f);
  for_each_plane(out, in, attributes.as<PadChannelsAttributes>().before,
                 [&](std::int64_t wide, std::int64_t narrow) {
                   std::copy_n(x.begin() + narrow * pixels, pixels, y.begin() + wide * pixels);
                 });
}

std::vector<TensorType> infer_slice(const InferContext& context) {
  require_channels(context);
  const auto& a = context.as<SliceChannelsAttributes>();
  const Shape& x = context.inputs[0].shape;
  context.require(a.first >= 0 && a.count >= 1 && a.first + a.count <= x[1], "C2: channels ",
                  a.first, " to ", a.first + a.count - 1, " are not all in ", to_string(x));
  return {{DType::kF32, with_channels(x, a.count)}};
}

std::vector<Value> gradient_slice(const GradientContext& context) {
  const auto a = context.self().attributes.as<SliceChannelsAttributes>();
  const std::int64_t channels = context.graph.shape(context.input(0))[1];
  return {pad_channels(context.graph, context.output_gradients[0], a.first,
                       channels - a.first - a.count, context.self().name)};
}

void reference_slice(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto x = inputs[0]->f32();
  const auto y = outputs[0]->f32();
  const Shape &in = inputs[0]->shape(), &out = outputs[0]->shape();
  const std::int64_t pixels = planes_of(in).pixels();
  for_each_plane(in, out, attributes.as<SliceChannelsAttributes>().first,
                 [&](std::int64_t wide, std::int64_t narrow) {
                   std::copy_n(x.begin() + wide * pixels, pixels, y.begin() + narrow * pixels);
                 });
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return {0, static_cast<double>(std::min(in[0].bytes(), out[0].bytes()) + out[0].bytes())};
}

std::vector<OpSample> samples_pad() {
  return {{PadChannelsAttributes{2, 3}, {{DType::kF32, {5, 3, 4, 4}}}},
          {PadChannelsAttributes{8, 8}, {{DType::kF32, {33, 16, 2, 3}}}},
          {PadChannelsAttributes{0, 1}, {{DType::kF32, {17, 10}}}}};
}
std::vector<OpSample> samples_slice() {
  return {{SliceChannelsAttributes{2, 3}, {{DType::kF32, {5, 8, 4, 4}}}},
          {SliceChannelsAttributes{8, 16}, {{DType::kF32, {33, 32, 2, 3}}}},
          {SliceChannelsAttributes{0, 1}, {{DType::kF32, {17, 10}}}}};
}

}  // namespace

Value pad_channels(Graph& graph, Value x, std::int64_t before, std::int64_t after,
                   std::string name) {
  return graph.add1(pad_channels_op, PadChannelsAttributes{before, after}, {x}, std::move(name));
}
Value slice_channels(Graph& graph, Value x, std::int64_t first, std::int64_t count,
                     std::string name) {
  return graph.add1(slice_channels_op, SliceChannelsAttributes{first, count}, {x}, std::move(name));
}

const OpDef pad_channels_op = {OpKind::kPadChannels, "pad_channels", infer_pad,  gradient_pad,
                               reference_pad,        cost,           samples_pad};
const OpDef slice_channels_op = {OpKind::kSliceChannels, "slice_channels", infer_slice,
                                 gradient_slice,         reference_slice,  cost,
                                 samples_slice};

}  // namespace podium
