// ResNet-18, 34 and 50 (He et al., Deep residual learning for image recognition, 2016) for images
// of about 224 pixels, with the names and shapes of torchvision's parameters, which timm's share. A
// block that halves the image has its stride in the 3x3 convolution (known as v1.5).
#include <array>

#include "nn/models.h"

namespace podium {
namespace {

constexpr BatchNormOptions kResnetNorm{.momentum = 0.9f, .epsilon = 1e-5f};

struct ResnetOptions {
  std::array<std::int64_t, 4> blocks;  // of each stage
  bool bottlenecks = false;            // 1x1, 3x3, 1x1 in place of two 3x3
  // Whether a block starts as the identity: the scale of its last norm starts at 0 (Goyal et al.,
  // Accurate, large minibatch SGD, 2017).
  bool starts_as_identity = false;
};

Value conv(Network& net, const std::string& name, Value x, std::int64_t channels,
           std::int64_t kernel, std::int64_t stride) {
  return net.conv2d(name, x,
                    {.channels = channels,
                     .kernel = kernel,
                     .stride = stride,
                     .initialiser = Initialiser::kFanOutNormal,
                     .padding = kernel / 2});
}

Value block(Network& net, const std::string& name, Value x, std::int64_t width, std::int64_t stride,
            const ResnetOptions& options) {
  const Value input = x;
  const std::int64_t channels = options.bottlenecks ? 4 * width : width;
  BatchNormOptions last = kResnetNorm;
  if (options.starts_as_identity) last.scale_start = Initialiser::kZeros;
  if (options.bottlenecks) {
    x = net.relu(
        net.batch_norm(name + ".bn1", conv(net, name + ".conv1", x, width, 1, 1), kResnetNorm));
    x = net.relu(net.batch_norm(name + ".bn2", conv(net, name + ".conv2", x, width, 3, stride),
                                kResnetNorm));
    x = net.batch_norm(name + ".bn3", conv(net, name + ".conv3", x, channels, 1, 1), last);
  } else {
    x = net.relu(net.batch_norm(name + ".bn1", conv(net, name + ".conv1", x, width, 3, stride),
                                kResnetNorm));
    x = net.batch_norm(name + ".bn2", conv(net, name + ".conv2", x, width, 3, 1), last);
  }
  Value shortcut = input;
  if (stride != 1 || net.graph().shape(input)[1] != channels) {
    shortcut =
        net.batch_norm(name + ".downsample.1",
                       conv(net, name + ".downsample.0", input, channels, 1, stride), kResnetNorm);
  }
  return net.end_block(net.relu(net.add(x, shortcut)));
}

Value resnet(Network& net, Value x, std::int64_t classes, const ResnetOptions& options) {
  x = net.relu(net.batch_norm("bn1", conv(net, "conv1", x, 64, 7, 2), kResnetNorm));
  x = net.max_pool(x, 3, 2, 1);
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage, width *= 2) {
    for (std::int64_t i = 0; i < options.blocks[stage]; ++i)
      x = block(net, cat("layer", stage + 1, ".", i), x, width, stage > 0 && i == 0 ? 2 : 1,
                options);
  }
  return net.dense("fc", net.global_avg_pool(x),
                   {.units = classes, .bias = true, .initialiser = Initialiser::kFanInUniform});
}

constexpr ResnetOptions kResnet18{{2, 2, 2, 2}}, kResnet34{{3, 4, 6, 3}},
    kResnet50{{3, 4, 6, 3}, true};

ResnetOptions as_identity(ResnetOptions options) {
  options.starts_as_identity = true;
  return options;
}

}  // namespace

Value resnet18_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, kResnet18);
}
Value resnet34_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, kResnet34);
}
Value resnet50_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, kResnet50);
}
Value resnet18_zero_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, as_identity(kResnet18));
}
Value resnet34_zero_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, as_identity(kResnet34));
}
Value resnet50_zero_model(Network& net, Value x, std::int64_t classes) {
  return resnet(net, x, classes, as_identity(kResnet50));
}

}  // namespace podium
