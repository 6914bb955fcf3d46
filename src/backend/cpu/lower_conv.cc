// Convolution and its gradients with the batch in the lanes.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/lower.h"

namespace podium::cpu {
namespace {

ConvShape conv_shape(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  return {.images = x[0],
          .in_channels = x[1],
          .in_height = x[2],
          .in_width = x[3],
          .out_channels = w[0],
          .out_height = y[2],
          .out_width = y[3],
          .kernel_height = w[2],
          .kernel_width = w[3],
          .stride_height = a.stride_h,
          .stride_width = a.stride_w,
          .pad_top = a.pad_top,
          .pad_left = a.pad_left};
}

using ConvKernel = void (*)(const ConvShape&, const float*, const float*, float*, float*, float*,
                            int, int);

// A step a phase; the shared buffer lives through all of them.
void emit_phases(Lowering& l, const ConvShape& shape, const ConvWork& work, ConvKernel kernel,
                 Slot a, Slot b, Slot out) {
  const Slot shared = l.temporary(work.shared), scratch = l.thread_scratch(work.scratch);
  for (int phase = 0; phase < work.phases; ++phase) {
    l.emit({.parts = work.parts[phase],
            .reads = {a, b, shared},
            .writes = {out, shared, scratch},
            .run = [=](const Memory& m, int part, int thread) {
              kernel(shape, m.f32(a), m.f32(b), m.f32(out), m.f32(shared),
                     m.f32(scratch) + thread * work.scratch, phase, part);
            }});
  }
}

void lower_forward(Lowering& l, const Node& node, std::int32_t index,
                   ConvWork (*work)(const ConvShape&), ConvKernel kernel) {
  const Slot x = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]),
             y = l.define_lanes({index, 0});
  const ConvShape shape =
      conv_shape(node.attributes.as<Conv2dAttributes>(), l.shape(node.inputs[0]),
                 l.shape(node.inputs[1]), node.outputs[0].shape);
  emit_phases(l, shape, work(shape), kernel, x, w, y);
}

void lower_grad_input(Lowering& l, const Node& node, std::int32_t index,
                      ConvWork (*work)(const ConvShape&), ConvKernel kernel) {
  const Slot dy = l.lanes(node.inputs[0]), w = l.plain(node.inputs[1]),
             dx = l.define_lanes({index, 0});
  const ConvShape shape = conv_shape(node.attributes.as<Conv2dAttributes>(), node.outputs[0].shape,
                                     l.shape(node.inputs[1]), l.shape(node.inputs[0]));
  emit_phases(l, shape, work(shape), kernel, dy, w, dx);
}

void lower_grad_weight(Lowering& l, const Node& node, std::int32_t index,
                       ConvWork (*work)(const ConvShape&), ConvKernel kernel) {
  const Slot x = l.lanes(node.inputs[0]), dy = l.lanes(node.inputs[1]),
             dw = l.define_plain({index, 0});
  const ConvShape shape =
      conv_shape(node.attributes.as<Conv2dAttributes>(), l.shape(node.inputs[0]),
                 node.outputs[0].shape, l.shape(node.inputs[1]));
  emit_phases(l, shape, work(shape), kernel, dy, x, dw);
}

}  // namespace

void lower_conv2d(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward(l, node, index, conv_forward_work, conv_forward);
}
void lower_conv2d_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_input(l, node, index, conv_grad_input_work, conv_grad_input);
}
void lower_conv2d_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_weight(l, node, index, conv_grad_weight_work, conv_grad_weight);
}
void lower_conv2d_winograd(Lowering& l, const Node& node, std::int32_t index) {
  lower_forward(l, node, index, conv_winograd_forward_work, conv_winograd_forward);
}
void lower_conv2d_winograd_grad_input(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_input(l, node, index, conv_winograd_grad_input_work, conv_winograd_grad_input);
}
void lower_conv2d_winograd_grad_weight(Lowering& l, const Node& node, std::int32_t index) {
  lower_grad_weight(l, node, index, conv_winograd_grad_weight_work, conv_winograd_grad_weight);
}

}  // namespace podium::cpu
