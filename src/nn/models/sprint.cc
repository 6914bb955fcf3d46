// The network of airbench94 (K. Jordan, 94% on CIFAR-10 in 3.29 seconds, 2024; the variant trained
// with Muon): a whitening convolution, three groups of two convolutions, a dense layer.
#include "nn/models.h"

namespace podium {
namespace {

constexpr Activation kGelu{ActivationKind::kGelu};
constexpr BatchNormOptions kSprintNorm{.momentum = 0.6f, .epsilon = 1e-12f, .scale = false};

Value conv(Network& net, const std::string& name, Value x, std::int64_t channels) {
  return net.conv2d(name, x, {.channels = channels, .initialiser = Initialiser::kIdentity});
}

Value group(Network& net, const std::string& name, Value x, std::int64_t channels) {
  x = net.max_pool(conv(net, name + ".conv1", x, channels), 2);
  x = net.activate(net.batch_norm(name + ".bn1", x, kSprintNorm), kGelu);
  x = conv(net, name + ".conv2", x, channels);
  return net.activate(net.batch_norm(name + ".bn2", x, kSprintNorm), kGelu);
}

}  // namespace

Value sprint_model(Network& net, Value x, std::int64_t classes) {
  x = net.activate(net.whitening("whiten", x), kGelu);
  x = group(net, "group1", x, 64);
  x = group(net, "group2", x, 256);
  x = group(net, "group3", x, 256);
  x = net.flatten(net.max_pool(x, 3));
  const std::int64_t features = net.graph().shape(x)[1];
  x = net.dense("head", x, {.units = classes, .initialiser = Initialiser::kUnitDeviation});
  return net.scale(x, 1.0f / static_cast<float>(features));
}

}  // namespace podium
