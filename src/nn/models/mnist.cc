// The small convolutional network of the MNIST recipe: three convolutions, two dense layers, batch
// normalisation after each but the last.
#include "nn/models.h"

namespace podium {

Value mnist_model(Network& net, Value x, std::int64_t classes) {
  const BatchNormOptions norm{.momentum = 0.99f, .epsilon = 1e-3f};
  x = net.relu(net.batch_norm("bn1", net.conv2d("conv1", x, {.channels = 6, .kernel = 3}), norm));
  x = net.relu(net.batch_norm(
      "bn2", net.conv2d("conv2", x, {.channels = 12, .kernel = 6, .stride = 2}), norm));
  x = net.relu(net.batch_norm(
      "bn3", net.conv2d("conv3", x, {.channels = 24, .kernel = 6, .stride = 2}), norm));
  x = net.relu(net.batch_norm("bn4", net.dense("fc1", net.flatten(x), {.units = 200}), norm));
  return net.dense("fc2", net.dropout("dropout", x, 0.5f), {.units = classes});
}

}  // namespace podium
