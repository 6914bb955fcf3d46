// ResNet-32 for 32x32 images, with the activation before each convolution (He et al., Identity
// mappings in deep residual networks, 2016), as TensorFlow's research models had it: leaky ReLU,
// and shortcuts that pool and pad where the width changes.
#include "nn/models.h"

namespace podium {
namespace {

constexpr std::int64_t kUnits = 5;  // of a stage: 6 * 5 + 2 = 32 layers

Value norm(Network& net, const std::string& name, Value x) {
  return net.activate(net.batch_norm(name, x, {.momentum = 0.9f, .epsilon = 1e-3f}),
                      {ActivationKind::kLeakyRelu, 0.1f});
}

Value conv(Network& net, const std::string& name, Value x, std::int64_t channels,
           std::int64_t stride) {
  return net.conv2d(
      name, x, {.channels = channels, .stride = stride, .initialiser = Initialiser::kFanOutNormal});
}

// With `shared` the first normalisation stands before the split, and the shortcut takes it too.
Value unit(Network& net, const std::string& name, Value x, std::int64_t channels,
           std::int64_t stride, bool shared) {
  Value shortcut = x;
  x = norm(net, name + ".bn1", x);
  if (shared) shortcut = x;
  const std::int64_t width = net.graph().shape(x)[1];
  x = conv(net, name + ".conv1", x, channels, stride);
  x = conv(net, name + ".conv2", norm(net, name + ".bn2", x), channels, 1);
  if (width != channels) {
    const std::int64_t before = (channels - width) / 2;
    shortcut = net.pad_channels(net.avg_pool(shortcut, stride), before, channels - width - before);
  }
  return net.end_block(net.add(x, shortcut));
}

}  // namespace

Value resnet32_model(Network& net, Value x, std::int64_t classes) {
  x = conv(net, "conv1", x, 16, 1);
  for (std::int64_t stage = 1, channels = 16; stage <= 3; ++stage, channels *= 2) {
    for (std::int64_t i = 1; i <= kUnits; ++i) {
      x = unit(net, cat("stage", stage, ".", i), x, channels, stage > 1 && i == 1 ? 2 : 1,
               stage == 1 && i == 1);
    }
  }
  x = net.global_avg_pool(norm(net, "bn", x));
  return net.dense("fc", x,
                   {.units = classes, .bias = true, .initialiser = Initialiser::kFanInUnit});
}

}  // namespace podium
