// DavidNet, ResNet-9 (D. Page, How to train your ResNet, 2018): a preparing convolution and three
// layers, the first and the last with a residual branch.
#include "nn/models.h"

namespace podium {
namespace {

constexpr BatchNormOptions kNorm{.momentum = 0.9f, .epsilon = 1e-5f};

Value unit(Network& net, const std::string& name, Value x, std::int64_t channels) {
  x = net.conv2d(name + ".conv", x,
                 {.channels = channels, .initialiser = Initialiser::kFanInUniform});
  return net.relu(net.batch_norm(name + ".bn", x, kNorm));
}

Value residual(Network& net, const std::string& name, Value x, std::int64_t channels) {
  const Value branch = unit(net, name + ".res1", x, channels);
  return net.add(x, unit(net, name + ".res2", branch, channels));
}

}  // namespace

Value davidnet_model(Network& net, Value x, std::int64_t classes) {
  x = unit(net, "prep", x, 64);
  x = residual(net, "layer1", net.max_pool(unit(net, "layer1", x, 128), 2), 128);
  x = net.max_pool(unit(net, "layer2", x, 256), 2);
  x = residual(net, "layer3", net.max_pool(unit(net, "layer3", x, 512), 2), 512);
  x = net.dense("linear", net.global_max_pool(x),
                {.units = classes, .initialiser = Initialiser::kFanInUniform});
  return net.scale(x, 0.125f);
}

}  // namespace podium
